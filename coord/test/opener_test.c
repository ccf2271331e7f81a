/* opener_test.c - what is sent, recorded and waited for when an epoch is opened, and in which order. */
#include "coord/opener.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NODES 2u
#define RANKS 2u
#define FORMER 4u /* epoch */

/* Nodes that answer, and a disk; what they were asked, as text: "ask 0/1 hear 0/1 record ...". */
struct stage {
    char text[1024];
    struct opener *opener;
    struct holding held[RANKS];
    uint64_t incarnation; /* plus the node's number */
    uint64_t committed_line;
    uint64_t protected_line; /* in the epoch of former_epoch() */
    const char *fails;       /* this step, with EIO */
    uint64_t now_us;
    int locks; /* taken */
};

static int note(struct stage *stage, const char *what, uint32_t node, uint32_t epoch)
{
    size_t used = strlen(stage->text);
    snprintf(stage->text + used, sizeof(stage->text) - used, "%s%s %u/%u", used ? " " : "", what, node,
             epoch);
    if (!stage->fails || strcmp(stage->fails, what) != 0)
        return 0;
    errno = EIO;
    return -1;
}

static int ask(void *context, uint32_t node, uint32_t epoch)
{
    return note(context, "ask", node, epoch);
}

static int hear(void *context, uint32_t node, uint32_t epoch, struct epoch_state *state)
{
    struct stage *stage = context;

    *state = (struct epoch_state){.incarnation = stage->incarnation + node,
                                  .room = EPOCH_NO_LIMIT,
                                  .last_line = stage->committed_line,
                                  .committed_line = stage->committed_line,
                                  .protected_line = stage->protected_line,
                                  .protected_epoch = stage->protected_line ? FORMER : 0,
                                  .held_count = stage->committed_line || stage->protected_line ? RANKS : 0,
                                  .held = stage->held};
    return note(stage, "hear", node, epoch);
}

static int record(void *context, const struct epoch_start *start)
{
    return note(context, "record", start->rank_count, start->epoch);
}

static int tell(void *context, uint32_t node, const struct epoch_start *start)
{
    return note(context, "tell", node, start->epoch);
}

static int entered(void *context, uint32_t node, const struct epoch_start *start)
{
    return note(context, "entered", node, start->epoch);
}

static int placed(void *context, uint32_t node, const struct epoch_start *start)
{
    return note(context, "placed", node, start->epoch);
}

static const struct opener_ops ops = {
    .ask = ask, .hear = hear, .record = record, .tell = tell, .entered = entered, .placed = placed};

static void begin(struct stage *stage, const struct epoch_start *former, uint32_t past_epoch)
{
    const struct arbiter_settings settings = {.node_count = NODES, .past_epoch = past_epoch};

    opener_destroy(stage->opener);
    stage->opener = opener_create(&settings, former, &ops, stage);
    assert_non_null(stage->opener);
}

static int setup(void **state)
{
    struct stage *stage = calloc(1, sizeof(*stage));

    *state = stage;
    if (!stage)
        return -1;
    stage->incarnation = 50;
    begin(stage, NULL, 0);
    return 0;
}

/* Time stands still but for waits. */
static uint64_t now_of_stage(void *context)
{
    return ((struct stage *)context)->now_us;
}

static void wait_until(void *context, uint64_t until_us)
{
    struct stage *stage = context;
    note(stage, "wait", (uint32_t)until_us, 0);
    stage->now_us = until_us;
}

static void give(void *context, uint32_t node, uint32_t epoch, uint64_t asked_us)
{
    (void)asked_us;
    note(context, "grant", node, epoch);
}

static void lock(void *context, bool is_taken)
{
    struct stage *stage = context;
    stage->locks += is_taken ? 1 : -1;
    assert_in_range(stage->locks, 0, 1);
}

static const struct opener_ops ops_with_leases = {.ask = ask,
                                                  .hear = hear,
                                                  .record = record,
                                                  .tell = tell,
                                                  .entered = entered,
                                                  .placed = placed,
                                                  .now_us = now_of_stage,
                                                  .wait = wait_until,
                                                  .grant = give,
                                                  .lock = lock};

static int teardown(void **state)
{
    struct stage *stage = *state;

    opener_destroy(stage->opener);
    free(stage);
    return 0;
}

static void expect(struct stage *stage, const char *text)
{
    assert_string_equal(stage->text, text);
    stage->text[0] = '\0';
}

/* Granted at 30; its ranks may run until 130. Then nothing is recorded, and nobody told, before. */
static void the_lease_of_a_lost_node_is_waited_for(void **state)
{
    struct stage *stage = *state;
    const struct arbiter_settings settings = {.node_count = NODES, .lease_us = 100};

    opener_destroy(stage->opener);
    stage->opener = opener_create(&settings, NULL, &ops_with_leases, stage);
    assert_non_null(stage->opener);
    stage->now_us = 10;
    assert_int_equal(opener_open(stage->opener), 0);
    expect(stage, "ask 0/1 ask 1/1 hear 0/1 hear 1/1 record 0/1 tell 0/1 tell 1/1 entered 0/1 entered 1/1");
    stage->now_us = 30;
    opener_renew(stage->opener, 1, 1, 51, 7);
    opener_renew(stage->opener, 1, 1, 1234, 7); /* of another memory */
    expect(stage, "grant 1/1");
    assert_int_equal(opener_granted_us(stage->opener, 1), 30);
    opener_lose(stage->opener, 1);
    stage->now_us = 50;
    assert_int_equal(opener_open(stage->opener), 0);
    expect(stage, "ask 0/2 hear 0/2 wait 130/0 record 0/2 tell 0/2 entered 0/2");
    assert_int_equal(stage->locks, 0);
}

static void all_are_asked_before_one_is_waited_for(void **state)
{
    struct stage *stage = *state;

    assert_int_equal(opener_open(stage->opener), 0);
    expect(stage, "ask 0/1 ask 1/1 hear 0/1 hear 1/1 record 0/1 tell 0/1 tell 1/1 entered 0/1 entered 1/1");
    assert_int_equal(opener_record(stage->opener)->epoch, 1);
    assert_int_equal(opener_open(stage->opener), 0);
    expect(stage, "ask 0/2 ask 1/2 hear 0/2 hear 1/2 record 0/2 tell 0/2 tell 1/2 entered 0/2 entered 1/2");
}

static void a_lost_node_is_left_out(void **state)
{
    struct stage *stage = *state;

    assert_int_equal(opener_open(stage->opener), 0);
    stage->text[0] = '\0';
    opener_lose(stage->opener, 0);
    assert_int_equal(opener_open(stage->opener), 0);
    expect(stage, "ask 1/2 hear 1/2 record 0/2 tell 1/2 entered 1/2");
    assert_int_equal(opener_record(stage->opener)->member_count, 1);
    assert_int_equal(opener_record(stage->opener)->members[0], 1);
}

static void a_node_that_is_back_is_asked_again(void **state)
{
    struct stage *stage = *state;

    assert_int_equal(opener_open(stage->opener), 0);
    opener_lose(stage->opener, 0);
    assert_int_equal(opener_open(stage->opener), 0);
    stage->text[0] = '\0';
    opener_regain(stage->opener, 0);
    assert_int_equal(opener_open(stage->opener), 0);
    expect(stage, "ask 0/3 ask 1/3 hear 0/3 hear 1/3 record 0/3 tell 0/3 tell 1/3 entered 0/3 entered 1/3");
    assert_int_equal(opener_record(stage->opener)->member_count, 2);
    stage->text[0] = '\0';
    opener_lose(stage->opener, 0); /* again */
    assert_int_equal(opener_open(stage->opener), 0);
    expect(stage, "ask 1/4 hear 1/4 record 0/4 tell 1/4 entered 1/4");
}

static void where_ranks_came_up_is_recorded_before_it_is_told(void **state)
{
    struct stage *stage = *state;
    const uint32_t placement[] = {1, 0}, wrong[] = {0, NODES};

    assert_int_equal(opener_open(stage->opener), 0);
    stage->text[0] = '\0';
    assert_int_equal(opener_place(stage->opener, RANKS, wrong), -1);
    assert_int_equal(errno, EINVAL);
    expect(stage, "");
    assert_int_equal(opener_place(stage->opener, RANKS, placement), 0);
    expect(stage, "record 2/1 placed 0/1 placed 1/1");
    assert_int_equal(opener_record(stage->opener)->placement[0], 1);
}

/*
 * What fails is told, and nothing that was to follow is done but to take the answers that are due; the next
 * attempt asks again.
 */
static void each_step_may_fail(void **state)
{
    struct stage *stage = *state;
    static const struct {
        const char *step, *said;
        uint32_t epoch; /* that is known then */
    } steps[] = {
        {"ask", "ask 0/1", 0},
        {"hear", "ask 0/1 ask 1/1 hear 0/1 hear 1/1", 0},
        {"record", "ask 0/1 ask 1/1 hear 0/1 hear 1/1 record 0/1", 0},
        {"tell", "ask 0/1 ask 1/1 hear 0/1 hear 1/1 record 0/1 tell 0/1", 1},
        {"entered", "ask 0/2 ask 1/2 hear 0/2 hear 1/2 record 0/2 tell 0/2 tell 1/2 entered 0/2 entered 1/2",
         2},
    };

    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        stage->fails = steps[i].step;
        assert_int_equal(opener_open(stage->opener), -1);
        assert_int_equal(errno, EIO);
        expect(stage, steps[i].said);
        const struct epoch_start *known = opener_record(stage->opener);
        assert_int_equal(known ? known->epoch : 0, steps[i].epoch);
    }
    stage->fails = NULL;
    assert_int_equal(opener_open(stage->opener), 0);
    assert_int_equal(opener_record(stage->opener)->epoch, 3); /* no number twice */
}

static struct epoch_start *former_epoch(const struct stage *stage, uint64_t line)
{
    struct epoch_start *former = epoch_start_create(NODES, RANKS);

    assert_non_null(former);
    former->epoch = FORMER;
    former->line = former->last_line = line;
    for (uint32_t i = 0; i < NODES; i++) {
        former->members[i] = i;
        former->incarnations[i] = stage->incarnation + i;
    }
    return former;
}

static void what_the_nodes_hold_must_be_enough(void **state)
{
    struct stage *stage = *state;
    struct epoch_start *former = former_epoch(stage, 6);

    begin(stage, former, 0);
    stage->committed_line = 5; /* the record says that they have gone on from 6 */
    stage->held[0].image_line = stage->held[1].image_line = 5;
    assert_int_equal(opener_open(stage->opener), -1);
    assert_int_equal(errno, ENODATA);
    assert_int_equal(opener_wants(stage->opener), ARBITER_WANT_DATA);
    stage->incarnation = 90; /* others, which cannot know what was committed */
    assert_int_equal(opener_open(stage->opener), -1);
    assert_int_equal(errno, ENODATA);
    assert_int_equal(opener_wants(stage->opener), ARBITER_WANT_SURVIVOR);
    expect(stage, "ask 0/5 ask 1/5 hear 0/5 hear 1/5 ask 0/5 ask 1/5 hear 0/5 hear 1/5");
    free(former);
}

static void numbers_go_on_from_the_newest_that_anybody_has_heard_of(void **state)
{
    struct stage *stage = *state;
    struct epoch_start *former = former_epoch(stage, 0);

    begin(stage, former, 3);
    assert_int_equal(opener_open(stage->opener), 0);
    assert_int_equal(opener_record(stage->opener)->epoch, 5);
    begin(stage, former, 8);
    assert_int_equal(opener_open(stage->opener), 0);
    assert_int_equal(opener_record(stage->opener)->epoch, 9);
    begin(stage, NULL, 8);
    assert_int_equal(opener_open(stage->opener), 0);
    assert_int_equal(opener_record(stage->opener)->epoch, 9);
    free(former);
}

/* A program that begins anew may have another number of ranks; one that goes on has not. */
static void ranks_of_a_line_stay_and_others_do_not(void **state)
{
    struct stage *stage = *state;
    struct epoch_start *former = former_epoch(stage, 0);

    begin(stage, former, 0);
    assert_int_equal(opener_open(stage->opener), 0);
    assert_int_equal(opener_record(stage->opener)->rank_count, 0);
    stage->committed_line = stage->held[0].image_line = stage->held[1].image_line = 7;
    begin(stage, former, 0);
    assert_int_equal(opener_open(stage->opener), 0);
    assert_int_equal(opener_record(stage->opener)->rank_count, RANKS);
    assert_int_equal(opener_record(stage->opener)->line, 7);
    free(former);
}

/* What all have protected is gone on from, also by an arbiter that has only the record of that decision. */
static void a_protected_line_is_rolled_forward_to(void **state)
{
    struct stage *stage = *state;
    struct epoch_start *former = former_epoch(stage, 5), *decided;

    stage->committed_line = 5;
    stage->protected_line = 6;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        stage->held[rank] = (struct holding){.image_line = 5, .staging_line = 6, .base_line = 5};
    begin(stage, former, 0);
    stage->fails = "tell"; /* nobody has heard of it */
    assert_int_equal(opener_open(stage->opener), -1);
    decided = epoch_start_copy(opener_record(stage->opener));
    assert_int_equal(decided->epoch, FORMER + 1);
    assert_int_equal(decided->line, 6);
    stage->fails = NULL;
    begin(stage, decided, 0);
    assert_int_equal(opener_open(stage->opener), 0);
    assert_int_equal(opener_record(stage->opener)->epoch, FORMER + 2);
    assert_int_equal(opener_record(stage->opener)->line, 6);
    free(decided);
    free(former);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_lease_of_a_lost_node_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(all_are_asked_before_one_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_node_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(a_node_that_is_back_is_asked_again, setup, teardown),
        cmocka_unit_test_setup_teardown(where_ranks_came_up_is_recorded_before_it_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(each_step_may_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(what_the_nodes_hold_must_be_enough, setup, teardown),
        cmocka_unit_test_setup_teardown(a_protected_line_is_rolled_forward_to, setup, teardown),
        cmocka_unit_test_setup_teardown(numbers_go_on_from_the_newest_that_anybody_has_heard_of, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(ranks_of_a_line_stay_and_others_do_not, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
