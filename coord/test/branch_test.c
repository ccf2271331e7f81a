/*
 * branch_test.c - one branch of a tree: words are merged, targets are made or asked for, demands go both
 * ways.
 *
 * Eight members in a tree of two children each; member 1 is looked at. Its subtree is 1 to 4: its own member
 * (rank 1), the branch of member 2 (with member 3; ranks 2 and 3), and member 4 (rank 4). Rank i is on member
 * i.
 */
#include "coord/branch.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MEMBERS 8u
#define OWN 0u
#define GROUP 1u
#define LEAF 2u
#define WORLD 7u  /* a communicator of all ranks */
#define PAIR 8u   /* of ranks 1 and 4 */
#define OTHERS 9u /* of ranks 2, 3 and 5 */
#define YOUNG 10u /* nobody has been counted in it */
#define LINE 5u

struct fixture {
    struct branch *branch;
    char text[1024]; /* what it has said and ordered since the last look */
};

static const uint32_t placement[MEMBERS] = {0, 1, 2, 3, 4, 5, 6, 7};

static void note(struct fixture *fixture, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void note(struct fixture *fixture, const char *format, ...)
{
    size_t used = strlen(fixture->text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(fixture->text + used, sizeof(fixture->text) - used, format, arguments);
    va_end(arguments);
}

static void note_clocks(struct fixture *fixture, const struct coord_clock *clocks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        note(fixture, " %lu:%lu", (unsigned long)clocks[i].comm, (unsigned long)clocks[i].seq);
}

static void order(void *context, uint32_t voice, const struct coord_action *action)
{
    static const char *const names[] = {
        [COORD_ACTION_PREPARE] = "prepare", [COORD_ACTION_STROBE] = "strobe",
        [COORD_ACTION_TARGETS] = "targets", [COORD_ACTION_STOP] = "stop",
        [COORD_ACTION_DRAIN] = "drain",     [COORD_ACTION_ABORT] = "abort",
        [COORD_ACTION_DEMAND] = "demand",
    };
    struct fixture *fixture = context;

    note(fixture, "%s%s", fixture->text[0] ? ", " : "", names[action->type]);
    if (voice != BRANCH_ALL)
        note(fixture, " of voice %u", voice);
    if (action->targets_version)
        note(fixture, " v%u", action->targets_version);
    note_clocks(fixture, action->clocks, action->clock_count);
    for (uint32_t i = 0; i < action->rank_count; i++)
        note(fixture, " %u", action->ranks[i]);
    if (action->is_refuted)
        note(fixture, " refuted");
}

static void say(void *context, const struct coord_event *word)
{
    static const char *const names[] = {
        [COORD_EVENT_PREPARED] = "PREPARED", [COORD_EVENT_CLOCKS] = "CLOCKS", [COORD_EVENT_REPORT] = "REPORT",
        [COORD_EVENT_STOPPED] = "STOPPED",   [COORD_EVENT_PARKED] = "PARKED", [COORD_EVENT_ABORT] = "ABORT",
        [COORD_EVENT_LOST] = "LOST",
    };
    struct fixture *fixture = context;

    note(fixture, "%s%s", fixture->text[0] ? ", " : "", names[word->type]);
    note_clocks(fixture, word->clocks, word->clock_count);
    if (word->type == COORD_EVENT_REPORT) {
        note(fixture, " v%u %s", word->report.targets_version, word->report.is_below ? "below" : "settled");
        if (word->report.state == COORD_RANK_WAITING)
            note(fixture, word->report.peer_count ? " for" : " for all");
        for (uint32_t i = 0; i < word->report.peer_count; i++)
            note(fixture, " %d", word->report.peers[i]);
    }
    if (word->reason)
        note(fixture, " (%s)", word->reason);
    if (word->is_refuted)
        note(fixture, " refuted");
}

#define assert_heard(fixture, expected)                                                                      \
    do {                                                                                                     \
        assert_string_equal((fixture)->text, expected);                                                      \
        (fixture)->text[0] = '\0';                                                                           \
    } while (0)

static int setup(void **state)
{
    static const struct branch_ops ops = {.order = order, .say = say};
    const struct tree_place place = {.tree = {.count = MEMBERS, .root = 0, .arity = 2},
                                     .index = 1,
                                     .rank_count = MEMBERS,
                                     .placement = placement};
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    if (fixture)
        fixture->branch = branch_create(&place, &ops, fixture);
    *state = fixture;
    return fixture && fixture->branch ? 0 : -1;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    branch_destroy(fixture->branch);
    free(fixture);
    return 0;
}

static void obey(struct fixture *fixture, enum coord_action_type type)
{
    assert_int_equal(branch_order(fixture->branch, &(struct coord_action){.type = type, .line = LINE}), 0);
}

static void obey_counted(struct fixture *fixture, uint32_t version, uint64_t comm, uint64_t seq,
                         uint32_t size)
{
    const struct coord_clock clock = {.comm = comm, .seq = seq, .size = size};

    assert_int_equal(branch_order(fixture->branch, &(struct coord_action){.type = COORD_ACTION_TARGETS,
                                                                          .line = LINE,
                                                                          .targets_version = version,
                                                                          .clocks = &clock,
                                                                          .clock_count = comm > 0}),
                     0);
}

/* Of a communicator of which not all members have been counted. */
static void obey_targets(struct fixture *fixture, uint32_t version, uint64_t comm, uint64_t seq)
{
    obey_counted(fixture, version, comm, seq, 0);
}

static void obey_demand(struct fixture *fixture, uint32_t version, uint32_t rank)
{
    assert_int_equal(branch_order(fixture->branch, &(struct coord_action){.type = COORD_ACTION_DEMAND,
                                                                          .line = LINE,
                                                                          .targets_version = version,
                                                                          .ranks = &rank,
                                                                          .rank_count = rank < MEMBERS}),
                     0);
}

static int hear(struct fixture *fixture, uint32_t voice, struct coord_event word)
{
    word.line = LINE;
    return branch_word(fixture->branch, voice, &word);
}

static void hear_word(struct fixture *fixture, uint32_t voice, enum coord_event_type type)
{
    assert_int_equal(hear(fixture, voice, (struct coord_event){.type = type}), 0);
}

/* The clocks of the world, and of the pair for whoever has it. */
static void hear_clocks(struct fixture *fixture, uint32_t voice, uint64_t world, uint64_t pair)
{
    const struct coord_clock clocks[] = {
        {.comm = WORLD, .seq = world, .seen = voice == GROUP ? 2 : 1, .size = MEMBERS},
        {.comm = PAIR, .seq = pair, .seen = 1, .size = 2}};

    assert_int_equal(hear(fixture, voice,
                          (struct coord_event){.type = COORD_EVENT_CLOCKS,
                                               .clocks = clocks,
                                               .clock_count = voice == GROUP ? 1 : 2}),
                     0);
}

static int report(struct fixture *fixture, uint32_t voice, struct coord_report report)
{
    return hear(fixture, voice, (struct coord_event){.type = COORD_EVENT_REPORT, .report = report});
}

/* A rank of its own that runs, at its targets. */
static void hear_settled(struct fixture *fixture, uint32_t voice, uint32_t rank, uint32_t version)
{
    assert_int_equal(
        report(fixture, voice,
               (struct coord_report){.rank = rank, .state = COORD_RANK_RUNNING, .targets_version = version}),
        0);
}

static void hear_waiting(struct fixture *fixture, uint32_t voice, uint32_t rank, int32_t peer,
                         uint32_t version)
{
    assert_int_equal(report(fixture, voice,
                            (struct coord_report){.rank = rank,
                                                  .state = COORD_RANK_WAITING,
                                                  .is_below = true,
                                                  .peers = &peer,
                                                  .peer_count = peer >= 0,
                                                  .targets_version = version}),
                     0);
}

static void hear_held(struct fixture *fixture, uint32_t voice, uint32_t rank, uint64_t seq, uint32_t version)
{
    assert_int_equal(report(fixture, voice,
                            (struct coord_report){.rank = rank,
                                                  .state = COORD_RANK_HELD,
                                                  .comm = PAIR,
                                                  .seq = seq,
                                                  .targets_version = version}),
                     0);
}

/* Up to its first targets: the world at 4, the pair at 2. */
static void converge(struct fixture *fixture)
{
    obey(fixture, COORD_ACTION_PREPARE);
    obey(fixture, COORD_ACTION_STROBE);
    hear_clocks(fixture, OWN, 3, 2);
    hear_clocks(fixture, GROUP, 4, 0);
    hear_clocks(fixture, LEAF, 3, 2);
    obey_targets(fixture, 1, WORLD, 4);
    fixture->text[0] = '\0';
}

static void words_are_merged(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(branch_voice_count(fixture->branch), 3);
    assert_int_equal(branch_voice_member(fixture->branch, LEAF), 4);
    assert_true(branch_is_group(fixture->branch, GROUP));
    assert_false(branch_is_group(fixture->branch, LEAF));
    obey(fixture, COORD_ACTION_PREPARE);
    assert_heard(fixture, "prepare");
    hear_word(fixture, OWN, COORD_EVENT_PREPARED);
    hear_word(fixture, GROUP, COORD_EVENT_PREPARED);
    hear_word(fixture, GROUP, COORD_EVENT_PREPARED); /* again */
    hear_word(fixture, LEAF, COORD_EVENT_STOPPED);   /* of another phase */
    assert_heard(fixture, "");
    hear_word(fixture, LEAF, COORD_EVENT_PREPARED);
    assert_heard(fixture, "PREPARED");
    hear_word(fixture, LEAF, COORD_EVENT_PREPARED);
    assert_heard(fixture, "");
}

static void clocks_that_have_met_all_members_stop(void **state)
{
    struct fixture *fixture = *state;

    obey(fixture, COORD_ACTION_PREPARE);
    obey(fixture, COORD_ACTION_STROBE);
    hear_clocks(fixture, OWN, 3, 1);
    hear_clocks(fixture, LEAF, 3, 2);
    assert_heard(fixture, "prepare, strobe");
    hear_clocks(fixture, GROUP, 4, 0);
    assert_heard(fixture, "CLOCKS 7:4");
    obey_targets(fixture, 1, WORLD, 6);
    assert_heard(fixture,
                 "targets of voice 0 v1 7:6 8:2, targets of voice 1 v1 7:6, targets of voice 2 v1 7:6 8:2");
}

static void a_subtree_is_settled_when_all_are(void **state)
{
    struct fixture *fixture = *state;

    converge(fixture);
    hear_settled(fixture, OWN, 1, 1);
    hear_settled(fixture, GROUP, 0, 1);
    assert_heard(fixture, "");
    hear_settled(fixture, LEAF, 4, 1);
    assert_heard(fixture, "REPORT v1 settled");
    obey_targets(fixture, 2, WORLD, 5);
    assert_heard(fixture, "targets of voice 0 v2 7:5, targets of voice 1 v2 7:5, targets of voice 2 v2 7:5");
    hear_settled(fixture, OWN, 1, 2);
    hear_settled(fixture, LEAF, 4, 2);
    hear_settled(fixture, GROUP, 0, 1); /* of the version before */
    assert_heard(fixture, "");
    hear_settled(fixture, GROUP, 0, 2);
    assert_heard(fixture, "REPORT v2 settled");
}

static void a_clock_above_its_target_is_told_or_makes_a_version(void **state)
{
    struct fixture *fixture = *state;

    converge(fixture);
    hear_clocks(fixture, GROUP, 6, 0);
    assert_heard(fixture, "CLOCKS 7:6");
    hear_clocks(fixture, LEAF, 5, 3);
    hear_settled(fixture, LEAF, 4, 1);
    hear_settled(fixture, OWN, 1, 1);
    assert_heard(fixture, ""); /* more may come: not all have reported */
    hear_clocks(fixture, OWN, 3, 4);
    hear_settled(fixture, GROUP, 0, 1);
    assert_heard(fixture, "REPORT v1 below, targets of voice 0 v2 8:4, targets of voice 1 v2, "
                          "targets of voice 2 v2 8:4");
    obey_targets(fixture, 2, WORLD, 6);
    assert_heard(fixture, "targets of voice 0 v3 7:6, targets of voice 1 v3 7:6, targets of voice 2 v3 7:6");
}

/* A voice without members of a communicator needs its target only while some members may be unknown. */
static void targets_go_where_members_are(void **state)
{
    struct fixture *fixture = *state;
    const struct coord_clock clock = {.comm = OTHERS, .seq = 1, .seen = 2, .size = 3};

    obey(fixture, COORD_ACTION_PREPARE);
    obey(fixture, COORD_ACTION_STROBE);
    hear_clocks(fixture, OWN, 3, 2);
    assert_int_equal(
        hear(fixture, GROUP,
             (struct coord_event){.type = COORD_EVENT_CLOCKS, .clocks = &clock, .clock_count = 1}),
        0);
    hear_clocks(fixture, LEAF, 3, 2);
    assert_heard(fixture, "prepare, strobe, CLOCKS 7:3 9:1");
    obey_counted(fixture, 1, OTHERS, 2, 3);
    assert_heard(fixture, "targets of voice 0 v1 8:2, targets of voice 1 v1 9:2, targets of voice 2 v1 8:2");
    obey_targets(fixture, 2, YOUNG, 1);
    assert_heard(fixture,
                 "targets of voice 0 v2 10:1, targets of voice 1 v2 10:1, targets of voice 2 v2 10:1");
    obey_targets(fixture, 3, OTHERS, 2);
    assert_heard(fixture, "targets of voice 0 v3 9:2, targets of voice 1 v3, targets of voice 2 v3 9:2");
}

/* The parent makes no new version before that, and what it waits for may not be the branch's. */
static void what_is_not_settled_is_told_once_all_have_reported(void **state)
{
    struct fixture *fixture = *state;
    const struct coord_report below = {
        .rank = 1, .state = COORD_RANK_RUNNING, .is_below = true, .targets_version = 1};

    converge(fixture);
    assert_int_equal(report(fixture, OWN, below), 0);
    hear_settled(fixture, GROUP, 0, 1);
    assert_heard(fixture, "");
    hear_settled(fixture, LEAF, 4, 1);
    assert_heard(fixture, "REPORT v1 below");
    assert_int_equal(report(fixture, OWN, below), 0);
    assert_heard(fixture, "");
    hear_settled(fixture, OWN, 1, 1);
    assert_heard(fixture, "REPORT v1 settled");
}

static void demands_find_their_way(void **state)
{
    struct fixture *fixture = *state;

    converge(fixture);
    hear_waiting(fixture, OWN, 1, 6, 1);
    assert_heard(fixture, "REPORT v1 below for 6");
    hear_waiting(fixture, LEAF, 4, 3, 1);
    assert_heard(fixture, "demand of voice 1 v1 3");
    hear_waiting(fixture, LEAF, 4, 2, 1);
    hear_waiting(fixture, LEAF, 4, 3, 1); /* once in a version */
    assert_heard(fixture, "demand of voice 1 v1 2");
    hear_waiting(fixture, GROUP, 0, 5, 1);
    assert_heard(fixture, "REPORT v1 below for 6 5");
    hear_waiting(fixture, GROUP, 0, -1, 1); /* for anybody */
    assert_heard(fixture, "demand of voice 1 v1, REPORT v1 below for all");
}

/* Rank 4 waits for nobody here, but is waited for, and waits for another one itself. */
static void a_demand_from_above_is_followed(void **state)
{
    struct fixture *fixture = *state;
    int32_t peer = 7;

    converge(fixture);
    obey_demand(fixture, 1, 4);
    obey_demand(fixture, 9, 1); /* of another version */
    assert_heard(fixture, "");
    assert_int_equal(report(fixture, LEAF,
                            (struct coord_report){.rank = 4,
                                                  .state = COORD_RANK_WAITING,
                                                  .peers = &peer,
                                                  .peer_count = 1,
                                                  .targets_version = 1}),
                     0);
    assert_heard(fixture, "REPORT v1 below for 7");
    obey_demand(fixture, 1, 3);
    assert_heard(fixture, "demand of voice 1 v1 3");
}

static void a_held_rank_is_released_here(void **state)
{
    struct fixture *fixture = *state;

    converge(fixture);
    hear_held(fixture, LEAF, 4, 3, 1);
    assert_heard(fixture, "");
    obey_demand(fixture, 1, 4);
    hear_settled(fixture, OWN, 1, 1);
    assert_heard(fixture, "");
    hear_settled(fixture, GROUP, 0, 1);
    assert_heard(fixture, "REPORT v1 below, targets of voice 0 v2 8:3, targets of voice 1 v2, "
                          "targets of voice 2 v2 8:3");
    hear_held(fixture, OWN, 1, 4, 2); /* demanded by nobody */
    hear_settled(fixture, GROUP, 0, 2);
    assert_heard(fixture, "");
    hear_held(fixture, LEAF, 4, 4, 2); /* still demanded by the parent, in its version */
    assert_heard(fixture, "targets of voice 0 v3 8:4, targets of voice 1 v3, targets of voice 2 v3 8:4");
}

/* Its parent may have passed on that it is settled: it does not move again by itself. */
static void a_settled_branch_asks_before_it_raises(void **state)
{
    struct fixture *fixture = *state;

    converge(fixture);
    hear_held(fixture, LEAF, 4, 3, 1);
    hear_settled(fixture, OWN, 1, 1);
    hear_settled(fixture, GROUP, 0, 1);
    assert_heard(fixture, "REPORT v1 settled");
    obey_demand(fixture, 1, 4);
    assert_heard(fixture, "CLOCKS 8:3");
    obey_targets(fixture, 2, PAIR, 3);
    assert_heard(fixture, "targets of voice 0 v2 8:3, targets of voice 1 v2 8:3, targets of voice 2 v2 8:3");
}

static void more_demands_than_can_be_named_are_for_all(void **state)
{
    const struct tree_place place = {.tree = {.count = 40, .arity = 2}, .index = 1, .rank_count = 40};
    struct tree_place wide = place;
    uint32_t places[40];
    struct fixture *fixture = *state;
    static const struct branch_ops ops = {.order = order, .say = say};

    branch_destroy(fixture->branch);
    for (uint32_t i = 0; i < 40; i++)
        places[i] = i;
    wide.placement = places;
    fixture->branch = branch_create(&wide, &ops, fixture);
    assert_non_null(fixture->branch);
    obey(fixture, COORD_ACTION_PREPARE);
    obey(fixture, COORD_ACTION_STROBE);
    for (uint32_t voice = 0; voice < 3; voice++)
        hear_clocks(fixture, voice, 1, 0);
    obey_targets(fixture, 1, WORLD, 1);
    for (uint32_t i = 0; i < 17; i++) {
        fixture->text[0] = '\0';
        hear_waiting(fixture, OWN, 1, (int32_t)(21 + i), 1);
    }
    assert_heard(fixture, "REPORT v1 below for all");
    hear_waiting(fixture, OWN, 1, 39, 1);
    assert_heard(fixture, "");
    branch_destroy(fixture->branch);
    fixture->branch = NULL;
}

static void strangers_are_refused(void **state)
{
    struct fixture *fixture = *state;
    const struct coord_report other = {.rank = 4, .state = COORD_RANK_RUNNING, .targets_version = 1};

    converge(fixture);
    errno = 0;
    assert_int_equal(report(fixture, OWN, other), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(report(fixture, LEAF, (struct coord_report){.rank = MEMBERS}), -1);
    assert_int_equal(hear(fixture, 3, (struct coord_event){.type = COORD_EVENT_STOPPED}), -1);
    assert_int_equal(hear(fixture, OWN, (struct coord_event){.type = COORD_EVENT_REQUEST}), -1);
    assert_heard(fixture, "");
}

static void a_refuted_line_is_told_up_and_down(void **state)
{
    struct fixture *fixture = *state;
    const struct coord_event word = {.type = COORD_EVENT_ABORT, .reason = "no", .is_refuted = true};
    const struct coord_action abort = {.type = COORD_ACTION_ABORT, .line = LINE, .is_refuted = true};

    converge(fixture);
    assert_int_equal(hear(fixture, LEAF, word), 0);
    assert_heard(fixture, "ABORT (no) refuted");
    assert_int_equal(branch_order(fixture->branch, &abort), 0);
    assert_heard(fixture, "abort refuted");
}

static void an_abort_goes_up_once_and_down(void **state)
{
    struct fixture *fixture = *state;

    converge(fixture);
    assert_int_equal(hear(fixture, LEAF, (struct coord_event){.type = COORD_EVENT_ABORT, .reason = "no"}), 0);
    hear_word(fixture, OWN, COORD_EVENT_ABORT);
    assert_heard(fixture, "ABORT (no)");
    obey(fixture, COORD_ACTION_ABORT);
    assert_heard(fixture, "abort");
    hear_settled(fixture, OWN, 1, 1); /* of a line that is over */
    obey(fixture, COORD_ACTION_STOP);
    assert_heard(fixture, "");
    assert_int_equal(hear(fixture, OWN, (struct coord_event){.type = COORD_EVENT_LOST, .reason = "gone"}), 0);
    assert_heard(fixture, "LOST (gone)");
}

int main(void)
{
#define WITH_BRANCH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_BRANCH(words_are_merged),
        WITH_BRANCH(clocks_that_have_met_all_members_stop),
        WITH_BRANCH(a_subtree_is_settled_when_all_are),
        WITH_BRANCH(a_clock_above_its_target_is_told_or_makes_a_version),
        WITH_BRANCH(targets_go_where_members_are),
        WITH_BRANCH(what_is_not_settled_is_told_once_all_have_reported),
        WITH_BRANCH(demands_find_their_way),
        WITH_BRANCH(a_demand_from_above_is_followed),
        WITH_BRANCH(a_held_rank_is_released_here),
        WITH_BRANCH(a_settled_branch_asks_before_it_raises),
        WITH_BRANCH(more_demands_than_can_be_named_are_for_all),
        WITH_BRANCH(strangers_are_refused),
        WITH_BRANCH(a_refuted_line_is_told_up_and_down),
        WITH_BRANCH(an_abort_goes_up_once_and_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
