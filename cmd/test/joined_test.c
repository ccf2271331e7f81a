/* What several nodes tell of a job becomes one status. */
#include "cmd/joined.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EPOCHS_MAX 4

/* A node's answer, as it comes from its agent: joined_add() moves parts of it. The node was a member of
 * `epochs`, up to a 0. */
static Belay__Wire__JobStatus *answer_of(uint32_t number, Belay__Wire__JobState state, uint32_t epoch,
                                         const uint32_t *epochs)
{
    Belay__Wire__NodeStatus node = BELAY__WIRE__NODE_STATUS__INIT, *nodes[] = {&node};
    Belay__Wire__EpochStatus told[EPOCHS_MAX], *history[EPOCHS_MAX];
    Belay__Wire__JobStatus status = BELAY__WIRE__JOB_STATUS__INIT;
    node.number = number;
    status.job_state = state;
    status.state = state == BELAY__WIRE__JOB_STATE__JOB_STATE_RUNNING ? "running" : "ended";
    status.message = status.state;
    status.epoch = epoch;
    status.exit_status = (int32_t)number;
    status.nodes = nodes;
    status.n_nodes = 1;
    status.history = history;
    for (size_t i = 0; epochs[i]; i++) {
        belay__wire__epoch_status__init(&told[i]);
        told[i].epoch = epochs[i];
        told[i].restore_ms = number;
        history[status.n_history++] = &told[i];
    }
    uint8_t bytes[512];
    size_t count = belay__wire__job_status__pack(&status, bytes);
    assert_in_range(count, 1, sizeof bytes);
    return belay__wire__job_status__unpack(NULL, count, bytes);
}

static const uint32_t none[] = {0}, first_two[] = {1, 2, 0}, all[] = {1, 2, 3, 0};

static void add(Belay__Wire__JobStatus *to, Belay__Wire__JobStatus *from)
{
    joined_add(to, from);
    belay__wire__job_status__free_unpacked(from, NULL);
}

/* In whichever order they tell. */
static void a_spare_knows_of_no_epoch(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        Belay__Wire__JobStatus *spare = answer_of(1, BELAY__WIRE__JOB_STATE__JOB_STATE_RESTARTING, 0, none);
        Belay__Wire__JobStatus *member = answer_of(2, BELAY__WIRE__JOB_STATE__JOB_STATE_RUNNING, 3, all);
        Belay__Wire__JobStatus *status = order == 0 ? spare : member;
        add(status, order == 0 ? member : spare);
        assert_int_equal(status->epoch, 3);
        assert_int_equal(status->job_state, BELAY__WIRE__JOB_STATE__JOB_STATE_RUNNING);
        assert_string_equal(status->state, "running");
        assert_string_equal(status->message, "running");
        assert_int_equal(status->exit_status, 2);
        assert_int_equal(status->n_nodes, 2);
        assert_int_equal(status->n_history, 3);
        belay__wire__job_status__free_unpacked(status, NULL);
    }
}

/* The job goes on without it, whatever it says. */
static void a_node_that_was_left_out(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        Belay__Wire__JobStatus *left = answer_of(1, BELAY__WIRE__JOB_STATE__JOB_STATE_LOST, 2, first_two);
        Belay__Wire__JobStatus *spare = answer_of(2, BELAY__WIRE__JOB_STATE__JOB_STATE_RUNNING, 0, none);
        assert_true(joined_has_ended(left));
        assert_false(joined_has_ended(spare));
        assert_true(joined_is_newer(spare, left));
        assert_false(joined_is_newer(left, spare));
        Belay__Wire__JobStatus *status = order == 0 ? left : spare;
        add(status, order == 0 ? spare : left);
        assert_string_equal(status->state, "running");
        assert_int_equal(status->n_history, 2);
        belay__wire__job_status__free_unpacked(status, NULL);
    }
}

static void histories_are_joined(void **state)
{
    (void)state;
    Belay__Wire__JobStatus *status = answer_of(3, BELAY__WIRE__JOB_STATE__JOB_STATE_RUNNING, 2, first_two);
    add(status, answer_of(1, BELAY__WIRE__JOB_STATE__JOB_STATE_RUNNING, 3, all));
    assert_int_equal(status->n_history, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(status->history[i]->epoch, i + 1);
        assert_int_equal((int)status->history[i]->restore_ms, i < 2 ? 3 : 1); /* the longest */
    }
    assert_int_equal(status->epoch, 3);
    belay__wire__job_status__free_unpacked(status, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spare_knows_of_no_epoch),
        cmocka_unit_test(a_node_that_was_left_out),
        cmocka_unit_test(histories_are_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
