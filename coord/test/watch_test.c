/* watch_test.c - what an agent's ranks publish becomes the right words, in the right order. */
#include "coord/watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANKS 2u
#define WORLD 5u
#define COMM 7u
#define LINE 3u

/* Ranks 1 and 3 of the world, with a page each. */
struct fixture {
    struct watch *watch;
    struct rank_report report[RANKS];
    bool is_changing[RANKS], is_asleep[RANKS];
    const char *failure[RANKS];
    struct coord_clock clock; /* the first one said last */
    char said[512];
};

static void note(struct fixture *fixture, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void note(struct fixture *fixture, const char *format, ...)
{
    size_t used = strlen(fixture->said);
    va_list arguments;

    if (used > 0)
        used += (size_t)snprintf(fixture->said + used, sizeof(fixture->said) - used, " ");
    va_start(arguments, format);
    vsnprintf(fixture->said + used, sizeof(fixture->said) - used, format, arguments);
    va_end(arguments);
}

static void order(void *context, uint32_t index, enum control_command command, uint64_t line)
{
    assert_int_equal(line, LINE);
    note(context, "%s>%u", command == CONTROL_CONVERGE ? "converge" : "stop", index);
}

/* As a page does: its communicators get what the table names. */
static void order_targets(void *context, uint32_t index, uint64_t line, const struct targets *targets)
{
    struct fixture *fixture = context;
    struct rank_report *report = &fixture->report[index];

    assert_int_equal(line, LINE);
    for (uint32_t i = 0; i < report->clock_count; i++)
        report->clocks[i].target = targets_find(targets, report->clocks[i].comm);
    note(fixture, "targets%u>%u", targets->version, index);
}

static void order_drain(void *context, uint32_t index, uint64_t line)
{
    assert_int_equal(line, LINE);
    note(context, "drain>%u", index);
}

static void order_leave(void *context, uint32_t index, uint64_t line)
{
    assert_int_equal(line, LINE);
    note(context, "leave>%u", index);
}

static void fence(void *context)
{
    note(context, "fence");
}

static bool read_rank(void *context, uint32_t index)
{
    return !((struct fixture *)context)->is_changing[index];
}

static const struct rank_report *report_of(void *context, uint32_t index)
{
    return &((struct fixture *)context)->report[index];
}

static const char *failure_of(void *context, uint32_t index, uint64_t line)
{
    assert_int_equal(line, LINE);
    return ((struct fixture *)context)->failure[index];
}

static bool is_asleep(void *context, uint32_t index)
{
    return ((struct fixture *)context)->is_asleep[index];
}

static void note_report(struct fixture *fixture, const struct coord_report *report)
{
    static const char *const names[] = {"?", "running", "inside", "held", "waiting"};

    note(fixture, "%u:%s%s/%u", report->rank, names[report->state], report->is_below ? "-below" : "",
         report->targets_version);
    if (report->state == COORD_RANK_WAITING)
        note(fixture, "for %d", report->peer_count ? report->peers[0] : -1);
}

static void say(void *context, const struct coord_event *word)
{
    struct fixture *fixture = context;

    assert_int_equal(word->line, LINE);
    if (word->type == COORD_EVENT_CLOCKS && word->clock_count > 0)
        fixture->clock = word->clocks[0];
    if (word->type == COORD_EVENT_CLOCKS)
        note(context, "CLOCKS %lu", word->clock_count ? (unsigned long)word->clocks[0].seq : 0);
    else if (word->type == COORD_EVENT_REPORT)
        note_report(context, &word->report);
    else if (word->type == COORD_EVENT_STOPPED)
        note(context, "STOPPED");
    else if (word->type == COORD_EVENT_PARKED)
        note(context, "PARKED");
    else if (word->type == COORD_EVENT_ABORT)
        note(context, "ABORT %s", word->reason);
    else
        fail();
}

static const struct watch_ops ops = {.order = order,
                                     .order_targets = order_targets,
                                     .order_drain = order_drain,
                                     .order_leave = order_leave,
                                     .fence = fence,
                                     .read = read_rank,
                                     .report = report_of,
                                     .failure = failure_of,
                                     .is_asleep = is_asleep,
                                     .say = say};

static int setup_ranks(void **state, uint32_t count)
{
    static const uint32_t ranks[RANKS] = {1, 3};
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    for (uint32_t i = 0; i < RANKS; i++) {
        fixture->report[i] = (struct rank_report){.state = CONTROL_STATE_RUNNING, .clock_count = 1};
        fixture->report[i].clocks = calloc(2, sizeof(*fixture->report[i].clocks));
        assert_non_null(fixture->report[i].clocks);
        fixture->report[i].clocks[0].comm = COMM;
        fixture->report[i].clocks[0].seq = 4;
    }
    fixture->watch = watch_create(WORLD, ranks, count, &ops, fixture);
    assert_non_null(fixture->watch);
    *state = fixture;
    return 0;
}

static int setup(void **state)
{
    return setup_ranks(state, RANKS);
}

static int setup_empty(void **state)
{
    return setup_ranks(state, 0);
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    watch_destroy(fixture->watch);
    for (uint32_t i = 0; i < RANKS; i++)
        free(fixture->report[i].clocks);
    free(fixture);
    return 0;
}

/* All since the last time. */
#define assert_said(fixture, expected)                                                                       \
    do {                                                                                                     \
        assert_string_equal((fixture)->said, expected);                                                      \
        (fixture)->said[0] = '\0';                                                                           \
    } while (0)

static void set_targets(struct fixture *fixture, uint32_t version, uint64_t seq)
{
    const struct coord_clock clock = {.comm = COMM, .seq = seq};

    watch_set_targets(fixture->watch, version, &clock, 1);
}

/* Both ranks know the targets, and are not above them. */
static void lead_to_targets(struct fixture *fixture, uint64_t seq)
{
    watch_begin(fixture->watch, LINE);
    watch_strobe(fixture->watch);
    set_targets(fixture, 1, seq);
    fixture->said[0] = '\0';
}

static void orders_come_before_the_fence_and_words_after_it(void **state)
{
    struct fixture *fixture = *state;

    watch_begin(fixture->watch, LINE);
    assert_said(fixture, "");
    watch_strobe(fixture->watch);
    assert_said(fixture, "converge>0 converge>1 fence CLOCKS 4");
    set_targets(fixture, 1, 4);
    assert_said(fixture, "targets1>0 targets1>1 fence 1:running/1 3:running/1");
    watch_stop(fixture->watch);
    assert_said(fixture, "stop>0 stop>1 fence STOPPED");
    watch_drain(fixture->watch);
    assert_said(fixture, "drain>0 drain>1");
}

static void clocks_wait_for_a_rank_that_cannot_be_read(void **state)
{
    struct fixture *fixture = *state;

    watch_begin(fixture->watch, LINE);
    watch_look(fixture->watch, 1); /* before the strobe: it says nothing of what comes after */
    fixture->is_changing[1] = true;
    watch_strobe(fixture->watch);
    assert_said(fixture, "converge>0 converge>1 fence");
    fixture->report[1].clocks[0].seq = 9;
    watch_look(fixture->watch, 1);
    assert_said(fixture, "CLOCKS 9");
}

/* What a page says of a communicator's size may be anything. */
static void members_are_counted_as_far_as_there_are_any(void **state)
{
    struct fixture *fixture = *state;

    for (uint32_t size = WORLD; size <= WORLD + 1; size++) {
        watch_begin(fixture->watch, LINE);
        fixture->report[0].clocks[0].size = fixture->report[1].clocks[0].size = size;
        watch_strobe(fixture->watch);
        assert_int_equal(fixture->clock.seen, size == WORLD ? 2 : 0);
        assert_int_equal(fixture->clock.size, size == WORLD ? WORLD : 0);
    }
}

static void a_report_follows_the_clocks_that_it_relies_on(void **state)
{
    struct fixture *fixture = *state;

    lead_to_targets(fixture, 4);
    fixture->report[0].clocks[0].seq = 5;
    fixture->report[0].state = CONTROL_STATE_INSIDE;
    watch_look(fixture->watch, 0);
    assert_said(fixture, "CLOCKS 5 1:inside/1");
    watch_look(fixture->watch, 0);
    assert_said(fixture, "CLOCKS 5"); /* the report has been said */
    set_targets(fixture, 2, 5);
    assert_said(fixture, "targets2>0 targets2>1 fence 1:inside/2 3:running-below/2");
}

static void targets_stay_until_the_next_line(void **state)
{
    struct fixture *fixture = *state;

    lead_to_targets(fixture, 5);
    watch_set_targets(fixture->watch, 2, NULL, 0);
    assert_said(fixture, "targets2>0 targets2>1 fence 1:running-below/2 3:running-below/2");
    watch_begin(fixture->watch, LINE);
    watch_strobe(fixture->watch);
    fixture->said[0] = '\0';
    watch_set_targets(fixture->watch, 1, NULL, 0);
    assert_said(fixture,
                "targets1>0 targets1>1 fence CLOCKS 4 1:running/1 CLOCKS 4 3:running/1"); /* above 0 */
}

static void a_young_communicator_gets_its_target_before_it_is_judged(void **state)
{
    struct fixture *fixture = *state;
    const struct coord_clock clocks[] = {{.comm = COMM, .seq = 4}, {.comm = COMM + 1, .seq = 2}};

    watch_begin(fixture->watch, LINE);
    watch_strobe(fixture->watch);
    watch_set_targets(fixture->watch, 1, clocks, 2);
    fixture->said[0] = '\0';
    fixture->report[1].clocks[1].comm = COMM + 1;
    fixture->report[1].clock_count = 2;
    watch_look(fixture->watch, 1);
    assert_said(fixture, "targets1>1 fence 3:running-below/1");
}

static void peers_outside_the_world_are_not_passed_on(void **state)
{
    struct fixture *fixture = *state;

    lead_to_targets(fixture, 5);
    fixture->report[0].state = CONTROL_STATE_WAITING;
    fixture->report[0].peer_count = 1;
    fixture->report[0].peers[0] = WORLD;
    watch_look(fixture->watch, 0);
    assert_said(fixture, "1:waiting-below/1 for -1");
    fixture->report[0].peers[0] = WORLD - 1;
    watch_look(fixture->watch, 0);
    assert_said(fixture, "1:waiting-below/1 for 4");
}

static void an_impatient_agent_asks_who_sleeps(void **state)
{
    struct fixture *fixture = *state;

    lead_to_targets(fixture, 5);
    fixture->is_asleep[1] = true;
    watch_look(fixture->watch, 1);
    assert_said(fixture, "");
    watch_lose_patience(fixture->watch);
    assert_said(fixture, "3:waiting-below/1 for -1");
}

static void lead_to_stop(struct fixture *fixture)
{
    lead_to_targets(fixture, 4);
    watch_stop(fixture->watch);
    fixture->said[0] = '\0';
}

static void let_park(struct fixture *fixture, uint32_t index)
{
    fixture->report[index].state = CONTROL_STATE_PARKED;
    fixture->report[index].parked_line = LINE;
    watch_look(fixture->watch, index);
}

static void parked_is_said_once_for_all(void **state)
{
    struct fixture *fixture = *state;

    lead_to_stop(fixture);
    watch_drain(fixture->watch);
    fixture->said[0] = '\0';
    fixture->report[0].state = CONTROL_STATE_PARKED;
    fixture->report[0].parked_line = LINE - 1; /* of the line before */
    watch_look(fixture->watch, 0);
    let_park(fixture, 1);
    assert_said(fixture, "");
    let_park(fixture, 0);
    assert_said(fixture, "PARKED");
    let_park(fixture, 0);
    assert_said(fixture, "");
}

/* Seeds of the simulation with ranks that fail in a drain stand still without this. */
static void ranks_may_park_before_the_order_to_drain(void **state)
{
    struct fixture *fixture = *state;

    lead_to_stop(fixture);
    let_park(fixture, 0);
    let_park(fixture, 1);
    assert_said(fixture, "");
    watch_drain(fixture->watch);
    assert_said(fixture, "drain>0 drain>1 PARKED");
}

static void a_rank_that_fails_lets_the_others_leave(void **state)
{
    struct fixture *fixture = *state;

    lead_to_stop(fixture);
    fixture->failure[1] = "no memory";
    let_park(fixture, 1);
    assert_said(fixture, "leave>0 leave>1 ABORT rank 3: no memory");
    let_park(fixture, 0);
    watch_drain(fixture->watch);
    assert_said(fixture, "drain>0 drain>1 PARKED");
}

/* One of another node has failed: the coordinator says so, before DRAIN or after it. */
static void ranks_are_told_to_leave(void **state)
{
    struct fixture *fixture = *state;

    lead_to_stop(fixture);
    watch_leave(fixture->watch);
    assert_said(fixture, "leave>0 leave>1");
    watch_drain(fixture->watch);
    watch_leave(fixture->watch);
    assert_said(fixture, "drain>0 drain>1 leave>0 leave>1");
}

static void an_ended_line_is_not_watched(void **state)
{
    struct fixture *fixture = *state;

    lead_to_targets(fixture, 4);
    watch_end(fixture->watch);
    fixture->report[0].state = CONTROL_STATE_HELD;
    watch_look(fixture->watch, 0);
    watch_lose_patience(fixture->watch);
    set_targets(fixture, 2, 5);
    assert_said(fixture, "");
}

static void a_node_without_ranks_says_its_words_at_once(void **state)
{
    struct fixture *fixture = *state;

    watch_begin(fixture->watch, LINE);
    watch_strobe(fixture->watch);
    assert_said(fixture, "fence CLOCKS 0");
    set_targets(fixture, 1, 4);
    assert_said(fixture, "fence");
    watch_stop(fixture->watch);
    assert_said(fixture, "fence STOPPED");
    watch_drain(fixture->watch);
    assert_said(fixture, "PARKED");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(orders_come_before_the_fence_and_words_after_it, setup, teardown),
        cmocka_unit_test_setup_teardown(clocks_wait_for_a_rank_that_cannot_be_read, setup, teardown),
        cmocka_unit_test_setup_teardown(members_are_counted_as_far_as_there_are_any, setup, teardown),
        cmocka_unit_test_setup_teardown(a_report_follows_the_clocks_that_it_relies_on, setup, teardown),
        cmocka_unit_test_setup_teardown(targets_stay_until_the_next_line, setup, teardown),
        cmocka_unit_test_setup_teardown(a_young_communicator_gets_its_target_before_it_is_judged, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(peers_outside_the_world_are_not_passed_on, setup, teardown),
        cmocka_unit_test_setup_teardown(an_impatient_agent_asks_who_sleeps, setup, teardown),
        cmocka_unit_test_setup_teardown(parked_is_said_once_for_all, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_may_park_before_the_order_to_drain, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rank_that_fails_lets_the_others_leave, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_are_told_to_leave, setup, teardown),
        cmocka_unit_test_setup_teardown(an_ended_line_is_not_watched, setup, teardown),
        cmocka_unit_test_setup_teardown(a_node_without_ranks_says_its_words_at_once, setup_empty, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
