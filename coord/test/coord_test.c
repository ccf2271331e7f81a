/* coord_test.c - every phase and transition of a line, and what late or unwelcome events do to it. */
#include "coord/coord.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define AGENTS 2
#define RANKS 3
#define EPOCH 1

/* What the coordinator said, as text: "PREPARE 1 STROBE 1 TARGETS 1 v1 7:2 ...". */
struct recorder {
    char text[4096];
    struct coord *coord;
    uint32_t epoch;
};

static void record(void *context, const struct coord_action *action)
{
    static const char *const names[] = {
        [COORD_ACTION_PREPARE] = "PREPARE", [COORD_ACTION_DRAIN] = "DRAIN",
        [COORD_ACTION_STROBE] = "STROBE",   [COORD_ACTION_TARGETS] = "TARGETS",
        [COORD_ACTION_STOP] = "STOP",       [COORD_ACTION_CAPTURE] = "CAPTURE",
        [COORD_ACTION_PROTECT] = "PROTECT", [COORD_ACTION_COMMIT] = "COMMIT",
        [COORD_ACTION_ABORT] = "ABORT",     [COORD_ACTION_LINE_DONE] = "DONE",
        [COORD_ACTION_LEAVE] = "LEAVE",
    };
    struct recorder *recorder = context;
    size_t used = strlen(recorder->text);
    char *end = recorder->text + sizeof(recorder->text);
    char *at = recorder->text + used;

    at += snprintf(at, (size_t)(end - at), "%s%s %lu", used ? " " : "", names[action->type],
                   (unsigned long)action->line);
    if (action->type == COORD_ACTION_TARGETS) {
        at += snprintf(at, (size_t)(end - at), " v%u", action->targets_version);
        for (uint32_t i = 0; i < action->clock_count; i++)
            at += snprintf(at, (size_t)(end - at), " %lu:%lu", (unsigned long)action->clocks[i].comm,
                           (unsigned long)action->clocks[i].seq);
    }
    if (action->type == COORD_ACTION_LINE_DONE)
        snprintf(at, (size_t)(end - at), " for %lu %s", (unsigned long)action->token,
                 action->is_committed ? "committed" : action->reason);
    if (action->type == COORD_ACTION_ABORT)
        snprintf(at, (size_t)(end - at), " %s%s", action->reason, action->is_refuted ? ", refuted" : "");
}

/* The actions since the last look. */
#define assert_said(recorder, expected)                                                                      \
    do {                                                                                                     \
        assert_string_equal((recorder)->text, expected);                                                     \
        (recorder)->text[0] = '\0';                                                                          \
    } while (0)

static void step(struct recorder *recorder, struct coord_event event)
{
    if (event.epoch == 0)
        event.epoch = recorder->epoch;
    assert_int_equal(coord_step(recorder->coord, &event), 0);
}

static void open_epoch(struct recorder *recorder, uint32_t epoch, uint64_t committed, uint64_t last)
{
    recorder->epoch = epoch;
    step(recorder, (struct coord_event){.type = COORD_EVENT_EPOCH,
                                        .epoch = epoch,
                                        .agent_count = AGENTS,
                                        .rank_count = RANKS,
                                        .committed_line = committed,
                                        .last_line = last});
}

static void request(struct recorder *recorder, uint64_t token)
{
    step(recorder, (struct coord_event){.type = COORD_EVENT_REQUEST, .token = token});
}

static void say(struct recorder *recorder, enum coord_event_type type, uint32_t agent, uint64_t line)
{
    step(recorder, (struct coord_event){.type = type, .agent = agent, .line = line, .reason = "no reason"});
}

static void all_say(struct recorder *recorder, enum coord_event_type type, uint64_t line)
{
    for (uint32_t agent = 0; agent < AGENTS; agent++)
        say(recorder, type, agent, line);
}

static void say_clock(struct recorder *recorder, uint32_t agent, uint64_t line, uint64_t comm, uint64_t seq)
{
    const struct coord_clock clock = {.comm = comm, .seq = seq};

    step(recorder,
         (struct coord_event){
             .type = COORD_EVENT_CLOCKS, .agent = agent, .line = line, .clocks = &clock, .clock_count = 1});
}

static void report(struct recorder *recorder, uint64_t line, struct coord_report report)
{
    step(recorder, (struct coord_event){.type = COORD_EVENT_REPORT, .line = line, .report = report});
}

static void all_settle(struct recorder *recorder, uint64_t line, uint32_t version)
{
    for (uint32_t rank = 0; rank < RANKS; rank++)
        report(recorder, line,
               (struct coord_report){.rank = rank, .state = COORD_RANK_RUNNING, .targets_version = version});
}

/* Lead a fresh line (requested by `token`) up to a phase. Clears the record. */
static void lead_to(struct recorder *recorder, enum coord_phase phase, uint64_t token, uint64_t line)
{
    request(recorder, token);
    if (phase > COORD_PHASE_PREPARE)
        all_say(recorder, COORD_EVENT_PREPARED, line);
    if (phase > COORD_PHASE_CLOCKS)
        all_say(recorder, COORD_EVENT_CLOCKS, line);
    if (phase > COORD_PHASE_CONVERGE)
        all_settle(recorder, line, 1);
    if (phase > COORD_PHASE_STOP)
        all_say(recorder, COORD_EVENT_STOPPED, line);
    if (phase > COORD_PHASE_DRAIN)
        all_say(recorder, COORD_EVENT_PARKED, line);
    if (phase > COORD_PHASE_CAPTURE)
        all_say(recorder, COORD_EVENT_CAPTURED, line);
    if (phase > COORD_PHASE_PROTECT)
        all_say(recorder, COORD_EVENT_PROTECTED, line);
    assert_int_equal(coord_phase(recorder->coord), phase);
    recorder->text[0] = '\0';
}

static int setup(void **state)
{
    struct recorder *recorder = calloc(1, sizeof(*recorder));

    if (!recorder)
        return -1;
    recorder->coord = coord_create(record, recorder);
    if (!recorder->coord)
        return -1;
    open_epoch(recorder, EPOCH, 0, 0);
    *state = recorder;
    return 0;
}

static int teardown(void **state)
{
    struct recorder *recorder = *state;

    coord_destroy(recorder->coord);
    free(recorder);
    return 0;
}

static void a_line_goes_its_way_to_commit(void **state)
{
    struct recorder *recorder = *state;

    request(recorder, 42);
    assert_said(recorder, "PREPARE 1");
    assert_int_equal(coord_phase(recorder->coord), COORD_PHASE_PREPARE);
    assert_int_equal(coord_line(recorder->coord), 1);
    say(recorder, COORD_EVENT_PREPARED, 0, 1);
    assert_said(recorder, "");
    say(recorder, COORD_EVENT_PREPARED, 1, 1);
    assert_said(recorder, "STROBE 1");
    assert_int_equal(coord_phase(recorder->coord), COORD_PHASE_CLOCKS);
    say_clock(recorder, 0, 1, 7, 2);
    assert_said(recorder, "");
    say_clock(recorder, 1, 1, 7, 3);
    assert_said(recorder, "TARGETS 1 v1 7:3");
    all_settle(recorder, 1, 1);
    assert_said(recorder, "STOP 1");
    say(recorder, COORD_EVENT_STOPPED, 0, 1);
    assert_said(recorder, ""); /* ranks of agent 1 may still believe what their library says */
    say(recorder, COORD_EVENT_STOPPED, 1, 1);
    assert_said(recorder, "DRAIN 1");
    all_say(recorder, COORD_EVENT_PARKED, 1);
    assert_said(recorder, "CAPTURE 1");
    all_say(recorder, COORD_EVENT_CAPTURED, 1);
    assert_said(recorder, "PROTECT 1");
    all_say(recorder, COORD_EVENT_PROTECTED, 1);
    assert_said(recorder, "COMMIT 1");
    assert_int_equal(coord_committed_line(recorder->coord), 0);
    all_say(recorder, COORD_EVENT_COMMITTED, 1);
    assert_said(recorder, "DONE 1 for 42 committed");
    assert_int_equal(coord_committed_line(recorder->coord), 1);
    assert_int_equal(coord_phase(recorder->coord), COORD_PHASE_IDLE);
    assert_int_equal(coord_line(recorder->coord), 0);
}

static void later_clocks_raise_the_targets(void **state)
{
    struct recorder *recorder = *state;

    lead_to(recorder, COORD_PHASE_CONVERGE, 1, 1);
    say_clock(recorder, 0, 1, 7, 5);
    assert_said(recorder, "TARGETS 1 v2 7:5");
    say_clock(recorder, 1, 1, 7, 4);
    assert_said(recorder, "");
    all_settle(recorder, 1, 1);
    assert_said(recorder, "");
    all_settle(recorder, 1, 2);
    assert_said(recorder, "STOP 1");
    say_clock(recorder, 0, 1, 7, 9);
    assert_said(recorder, "");
}

static void a_release_makes_a_new_version(void **state)
{
    struct recorder *recorder = *state;
    const int32_t peer = 2;

    lead_to(recorder, COORD_PHASE_CONVERGE, 1, 1);
    report(recorder, 1,
           (struct coord_report){
               .rank = 2, .state = COORD_RANK_HELD, .comm = 8, .seq = 1, .targets_version = 1});
    report(recorder, 1,
           (struct coord_report){.rank = 0,
                                 .state = COORD_RANK_WAITING,
                                 .is_below = true,
                                 .peer_count = 1,
                                 .peers = &peer,
                                 .targets_version = 1});
    assert_said(recorder, "TARGETS 1 v2 8:1");
}

static void requests_while_a_line_runs_share_the_next(void **state)
{
    struct recorder *recorder = *state;

    lead_to(recorder, COORD_PHASE_COMMIT, 1, 1);
    request(recorder, 2);
    request(recorder, 3);
    request(recorder, 2);
    assert_said(recorder, "");
    all_say(recorder, COORD_EVENT_COMMITTED, 1);
    assert_said(recorder, "DONE 1 for 1 committed PREPARE 2");
    say(recorder, COORD_EVENT_ABORT, 0, 2);
    assert_said(recorder, "ABORT 2 no reason DONE 2 for 2 no reason DONE 2 for 3 no reason");
    request(recorder, 4);
    assert_said(recorder, "PREPARE 3");
}

static void repeated_and_late_words_change_nothing(void **state)
{
    static const enum coord_event_type words[] = {
        [COORD_PHASE_PREPARE] = COORD_EVENT_PREPARED, [COORD_PHASE_STOP] = COORD_EVENT_STOPPED,
        [COORD_PHASE_CLOCKS] = COORD_EVENT_CLOCKS,    [COORD_PHASE_DRAIN] = COORD_EVENT_PARKED,
        [COORD_PHASE_CAPTURE] = COORD_EVENT_CAPTURED, [COORD_PHASE_PROTECT] = COORD_EVENT_PROTECTED,
        [COORD_PHASE_COMMIT] = COORD_EVENT_COMMITTED,
    };
    struct recorder *recorder = *state;
    uint64_t line = 1;

    for (enum coord_phase phase = COORD_PHASE_PREPARE; phase <= COORD_PHASE_COMMIT; phase++, line++) {
        lead_to(recorder, phase, 1, line);
        for (enum coord_phase other = COORD_PHASE_PREPARE; other <= COORD_PHASE_COMMIT; other++) {
            if (words[other] == COORD_EVENT_NONE || other == phase)
                continue;
            all_say(recorder, words[other], line);     /* of another phase */
            all_say(recorder, words[other], line - 1); /* of another line */
        }
        if (words[phase] != COORD_EVENT_NONE) {
            all_say(recorder, words[phase], line - 1);
            all_say(recorder, words[phase], line + 1);
            say(recorder, words[phase], 1, line);
            say(recorder, words[phase], 1, line);
        }
        step(recorder, (struct coord_event){.type = COORD_EVENT_LOST, .epoch = recorder->epoch + 1});
        assert_int_equal(coord_phase(recorder->coord), phase);
        assert_said(recorder, "");
        open_epoch(recorder, recorder->epoch + 1, 0, line);
        recorder->text[0] = '\0';
    }
}

/* All are told, so that none counts the line as protected. */
static void a_refuted_line_is_told(void **state)
{
    struct recorder *recorder = *state;
    struct coord_event event = {
        .type = COORD_EVENT_ABORT, .epoch = 1, .agent = 1, .line = 1, .reason = "no", .is_refuted = true};

    lead_to(recorder, COORD_PHASE_PROTECT, 5, 1);
    assert_int_equal(coord_step(recorder->coord, &event), 0);
    assert_said(recorder, "ABORT 1 no, refuted DONE 1 for 5 no");
}

static void an_abort_ends_the_line_up_to_protect(void **state)
{
    static const enum coord_phase phases[] = {COORD_PHASE_PREPARE, COORD_PHASE_CLOCKS, COORD_PHASE_CONVERGE,
                                              COORD_PHASE_CAPTURE, COORD_PHASE_PROTECT};
    struct recorder *recorder = *state;

    for (uint64_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
        char expected[128];
        unsigned long line = i + 1;

        lead_to(recorder, phases[i], 5, line);
        say(recorder, COORD_EVENT_ABORT, 1, line + 1);
        assert_said(recorder, "");
        say(recorder, COORD_EVENT_ABORT, 1, line);
        snprintf(expected, sizeof(expected), "ABORT %lu no reason DONE %lu for 5 no reason", line, line);
        assert_said(recorder, expected);
        assert_int_equal(coord_phase(recorder->coord), COORD_PHASE_IDLE);
        say(recorder, COORD_EVENT_ABORT, 0, line);
        assert_said(recorder, "");
    }
    assert_int_equal(coord_committed_line(recorder->coord), 0);
}

/* All agents let their ranks leave the drain, and have said that these have parked. */
static void assert_left_drain_aborts(struct recorder *recorder)
{
    all_say(recorder, COORD_EVENT_PARKED, 1);
    assert_said(recorder, "ABORT 1 no reason DONE 1 for 5 no reason");
}

static void an_abort_waits_for_the_drain(void **state)
{
    struct recorder *recorder = *state;

    lead_to(recorder, COORD_PHASE_DRAIN, 5, 1);
    say(recorder, COORD_EVENT_ABORT, 1, 1);
    assert_said(recorder, "LEAVE 1");
    say(recorder, COORD_EVENT_ABORT, 0, 1); /* they have been told */
    assert_said(recorder, "");
    assert_int_equal(coord_phase(recorder->coord), COORD_PHASE_DRAIN);
    assert_left_drain_aborts(recorder);
    lead_to(recorder, COORD_PHASE_DRAIN, 6, 2);
    all_say(recorder, COORD_EVENT_PARKED, 2);
    assert_said(recorder, "CAPTURE 2");
}

/* The ranks that have the order to stop wait for the drain. */
static void an_abort_between_stop_and_drain_waits_too(void **state)
{
    struct recorder *recorder = *state;

    lead_to(recorder, COORD_PHASE_STOP, 5, 1);
    say(recorder, COORD_EVENT_ABORT, 1, 1);
    assert_said(recorder, "LEAVE 1");
    all_say(recorder, COORD_EVENT_STOPPED, 1);
    assert_said(recorder, "DRAIN 1");
    assert_left_drain_aborts(recorder);
}

static void a_line_in_commit_does_not_abort(void **state)
{
    struct recorder *recorder = *state;

    lead_to(recorder, COORD_PHASE_COMMIT, 5, 1);
    say(recorder, COORD_EVENT_ABORT, 0, 1);
    assert_said(recorder, "");
    all_say(recorder, COORD_EVENT_COMMITTED, 1);
    assert_said(recorder, "DONE 1 for 5 committed");
}

static void a_loss_ends_the_line_at_once(void **state)
{
    for (enum coord_phase phase = COORD_PHASE_PREPARE; phase < COORD_PHASE_COMMIT; phase++) {
        struct recorder *recorder = *state;

        lead_to(recorder, phase, 5, 1);
        request(recorder, 6);
        say(recorder, COORD_EVENT_LOST, 1, 0);
        assert_said(recorder, "DONE 0 for 6 no reason ABORT 1 no reason DONE 1 for 5 no reason");
        request(recorder, 7);
        assert_said(recorder, "DONE 0 for 7 no reason");
        open_epoch(recorder, EPOCH + 1, 0, 1);
        request(recorder, 0);
        assert_said(recorder, "PREPARE 2");
        teardown(state);
        setup(state);
    }
}

static void a_loss_in_idle_shuts_the_epoch(void **state)
{
    struct recorder *recorder = *state;

    say(recorder, COORD_EVENT_LOST, 0, 0);
    assert_said(recorder, "");
    request(recorder, 1);
    assert_said(recorder, "DONE 0 for 1 no reason");
}

static void a_loss_in_commit_leaves_the_verdict_to_the_next_epoch(void **state)
{
    struct recorder *recorder = *state;

    lead_to(recorder, COORD_PHASE_COMMIT, 5, 1);
    say(recorder, COORD_EVENT_LOST, 1, 0);
    assert_said(recorder, "");
    open_epoch(recorder, EPOCH + 1, 1, 1);
    assert_said(recorder, "DONE 1 for 5 committed");
    assert_int_equal(coord_committed_line(recorder->coord), 1);

    teardown(state);
    setup(state);
    recorder = *state;
    lead_to(recorder, COORD_PHASE_COMMIT, 5, 1);
    say(recorder, COORD_EVENT_LOST, 1, 0);
    open_epoch(recorder, EPOCH + 1, 0, 1);
    assert_said(recorder, "DONE 1 for 5 a new epoch has begun");
}

static void a_rank_lost_in_commit_does_not_stop_it(void **state)
{
    struct recorder *recorder = *state;

    lead_to(recorder, COORD_PHASE_COMMIT, 5, 1);
    say(recorder, COORD_EVENT_LOST, 1, 0);
    request(recorder, 6);
    all_say(recorder, COORD_EVENT_COMMITTED, 1);
    assert_said(recorder, "DONE 0 for 6 no reason DONE 1 for 5 committed");
    assert_int_equal(coord_phase(recorder->coord), COORD_PHASE_IDLE);
}

static void a_new_epoch_drops_the_line_and_counts_on(void **state)
{
    struct recorder *recorder = *state;

    lead_to(recorder, COORD_PHASE_CAPTURE, 5, 1);
    request(recorder, 6);
    open_epoch(recorder, EPOCH, 9, 9); /* not new */
    assert_said(recorder, "");
    open_epoch(recorder, EPOCH + 1, 3, 7);
    assert_said(recorder, "DONE 1 for 5 committed DONE 0 for 6 a new epoch has begun");
    recorder->epoch = EPOCH;
    all_say(recorder, COORD_EVENT_CAPTURED, 1);
    assert_int_equal(coord_phase(recorder->coord), COORD_PHASE_IDLE);
    recorder->epoch = EPOCH + 1;
    request(recorder, 0);
    assert_said(recorder, "PREPARE 8");
    assert_int_equal(coord_committed_line(recorder->coord), 3);
}

static void a_closing_job_takes_no_line(void **state)
{
    struct recorder *recorder = *state;

    for (enum coord_phase phase = COORD_PHASE_PREPARE; phase <= COORD_PHASE_DRAIN; phase++) {
        recorder = *state;
        lead_to(recorder, phase, 5, 1);
        request(recorder, 6);
        say(recorder, COORD_EVENT_CLOSE, 0, 0);
        assert_said(recorder, "DONE 0 for 6 the job is finalizing ABORT 1 the job is finalizing "
                              "DONE 1 for 5 the job is finalizing");
        request(recorder, 7);
        assert_said(recorder, "DONE 0 for 7 the job is finalizing");
        teardown(state);
        setup(state);
    }
    recorder = *state;
    lead_to(recorder, COORD_PHASE_CAPTURE, 5, 1);
    say(recorder, COORD_EVENT_CLOSE, 0, 0);
    all_say(recorder, COORD_EVENT_CAPTURED, 1);
    all_say(recorder, COORD_EVENT_PROTECTED, 1);
    all_say(recorder, COORD_EVENT_COMMITTED, 1);
    assert_said(recorder, "PROTECT 1 COMMIT 1 DONE 1 for 5 committed");
}

static void nothing_happens_before_the_first_epoch(void **state)
{
    struct recorder recorder = {.epoch = EPOCH};

    (void)state;
    recorder.coord = coord_create(record, &recorder);
    assert_non_null(recorder.coord);
    assert_int_equal(coord_phase(recorder.coord), COORD_PHASE_NONE);
    request(&recorder, 3);
    assert_said(&recorder, "DONE 0 for 3 no epoch is open");
    say(&recorder, COORD_EVENT_LOST, 0, 0);
    say(&recorder, COORD_EVENT_ABORT, 0, 0);
    say(&recorder, COORD_EVENT_CLOSE, 0, 0);
    assert_said(&recorder, "");
    coord_destroy(recorder.coord);
    coord_destroy(NULL);
}

static void members_out_of_range_are_refused(void **state)
{
    struct recorder *recorder = *state;
    struct coord_event event = {.type = COORD_EVENT_PARKED, .epoch = EPOCH, .agent = AGENTS, .line = 1};

    lead_to(recorder, COORD_PHASE_CONVERGE, 1, 1);
    assert_int_equal(coord_step(recorder->coord, &event), -1);
    assert_int_equal(errno, EINVAL);
    event = (struct coord_event){
        .type = COORD_EVENT_REPORT, .epoch = EPOCH, .line = 1, .report = {.rank = RANKS}};
    assert_int_equal(coord_step(recorder->coord, &event), -1);
    assert_int_equal(errno, EINVAL);
    event = (struct coord_event){.type = COORD_EVENT_EPOCH, .epoch = EPOCH + 1};
    assert_int_equal(coord_step(recorder->coord, &event), -1);
    event = (struct coord_event){.epoch = EPOCH};
    assert_int_equal(coord_step(recorder->coord, &event), -1);
    assert_int_equal(coord_phase(recorder->coord), COORD_PHASE_CONVERGE);
}

static void the_thousandth_line_is_like_the_first(void **state)
{
    struct recorder *recorder = *state;

    for (uint64_t line = 1; line <= 1000; line++) {
        lead_to(recorder, COORD_PHASE_COMMIT, line, line);
        all_say(recorder, COORD_EVENT_COMMITTED, line);
        recorder->text[0] = '\0';
    }
    assert_int_equal(coord_committed_line(recorder->coord), 1000);
}

static void phases_have_names(void **state)
{
    (void)state;
    for (enum coord_phase phase = COORD_PHASE_NONE; phase <= COORD_PHASE_COMMIT; phase++)
        assert_string_not_equal(coord_phase_name(phase), "unknown");
    assert_string_equal(coord_phase_name((enum coord_phase)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_goes_its_way_to_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(later_clocks_raise_the_targets, setup, teardown),
        cmocka_unit_test_setup_teardown(a_release_makes_a_new_version, setup, teardown),
        cmocka_unit_test_setup_teardown(requests_while_a_line_runs_share_the_next, setup, teardown),
        cmocka_unit_test_setup_teardown(repeated_and_late_words_change_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refuted_line_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(an_abort_ends_the_line_up_to_protect, setup, teardown),
        cmocka_unit_test_setup_teardown(an_abort_waits_for_the_drain, setup, teardown),
        cmocka_unit_test_setup_teardown(an_abort_between_stop_and_drain_waits_too, setup, teardown),
        cmocka_unit_test_setup_teardown(a_line_in_commit_does_not_abort, setup, teardown),
        cmocka_unit_test_setup_teardown(a_loss_ends_the_line_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_loss_in_idle_shuts_the_epoch, setup, teardown),
        cmocka_unit_test_setup_teardown(a_loss_in_commit_leaves_the_verdict_to_the_next_epoch, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_rank_lost_in_commit_does_not_stop_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_epoch_drops_the_line_and_counts_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_closing_job_takes_no_line, setup, teardown),
        cmocka_unit_test(nothing_happens_before_the_first_epoch),
        cmocka_unit_test_setup_teardown(members_out_of_range_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(the_thousandth_line_is_like_the_first, setup, teardown),
        cmocka_unit_test(phases_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
