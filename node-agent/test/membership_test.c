/* membership_test.c - what of a job's epochs and lines outlives the agent, and what comes before what. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "node-agent/job/membership.h"

#define RANKS 2u

static char base[64], rundir[80], said[512];
static struct keeper *keeper;
static struct membership *membership;
static int records = -1, copy = -1; /* as the keeper has them */
static bool is_disk_full;
static uint64_t settled; /* what the newest epoch was told to go on from; UINT64_MAX: nothing */

static int setup(void **state)
{
    (void)state;
    char program[PATH_MAX];
    struct belay_error err = {0};
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 32);
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    strcpy(strrchr(program, '/'), "/belay-keeper");
    strcpy(base, "/tmp/belay-epochs-XXXXXX");
    assert_non_null(mkdtemp(base));
    snprintf(rundir, sizeof rundir, "%s/run", base);
    assert_int_equal(mkdir(rundir, 0700), 0);
    keeper = keeper_open(rundir, program, NULL);
    assert_non_null(keeper);
    membership = membership_create(keeper, "job", 0, &err);
    said[0] = '\0';
    is_disk_full = false;
    return membership ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    membership_destroy(membership);
    keeper_close(keeper);
    return rmdir(base);
}

static void find_records(void *context, const char *name, int fd)
{
    (void)context;
    if (strcmp(name, "job/epochs") == 0)
        records = fd;
    else if (strcmp(name, "job/arbiter") == 0)
        copy = fd;
    else
        close(fd);
}

static void look_at_records(void)
{
    records = copy = -1;
    assert_int_equal(keeper_list(keeper, find_records, NULL, NULL), 0);
    assert_true(records >= 0);
}

/* Another agent takes up what the keeper holds. */
static void adopt(void)
{
    struct belay_error err = {0};
    look_at_records();
    membership_destroy(membership);
    membership = membership_adopt(keeper, "job", 0, records, copy, &err);
    if (!membership)
        fail_msg("%s", err.text);
}

static int settle(void *context, uint64_t line, struct belay_error *err)
{
    (void)context;
    settled = line;
    return is_disk_full ? belay_error_set(err, ENOSPC, "no room for line %lu", (unsigned long)line) : 0;
}

/* The staged line is made of deltas to the committed one. 0: there is none. */
static int promise(uint32_t epoch, uint64_t committed, uint64_t staged, struct epoch_state *state,
                   struct belay_error *err)
{
    struct holding held[RANKS];
    const struct membership_facts facts = {.ranks = committed || staged ? RANKS : 0,
                                           .held = held,
                                           .committed_line = committed,
                                           .last_line = committed};
    for (uint32_t i = 0; i < RANKS; i++)
        held[i] = (struct holding){
            .image_line = committed, .staging_line = staged, .base_line = staged ? committed : 0};
    return membership_promise(membership, epoch, &facts, state, err);
}

/* What an arbiter decides from the answer. */
static struct epoch_start *decide(uint32_t epoch, const struct epoch_state *state)
{
    struct epoch_start *start = epoch_start_create(1, state->held_count);
    assert_non_null(start);
    bool is_protected = state->protected_line > state->committed_line;
    start->epoch = epoch;
    start->line = is_protected ? state->protected_line : state->committed_line;
    start->last_line = state->last_line;
    start->incarnations[0] = state->incarnation;
    return start;
}

static int enter(const struct epoch_start *start, struct belay_error *err)
{
    const struct membership_settler settler = {.settle = settle};
    settled = UINT64_MAX;
    return membership_enter(membership, start, &settler, err);
}

/* Promised and entered; what the node has answered. */
static struct epoch_state open_staged(uint32_t epoch, uint64_t committed, uint64_t staged)
{
    struct epoch_state state;
    struct belay_error err = {0};
    if (promise(epoch, committed, staged, &state, &err) < 0)
        fail_msg("%s", err.text);
    struct epoch_start *start = decide(epoch, &state);
    if (enter(start, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(settled, start->line);
    free(start);
    return state;
}

static struct epoch_state open_epoch(uint32_t epoch, uint64_t committed)
{
    return open_staged(epoch, committed, 0);
}

static void must_not_promise(uint32_t epoch)
{
    struct epoch_state state;
    struct belay_error err = {0};
    assert_int_equal(promise(epoch, 0, 0, &state, &err), -1);
    assert_int_equal(err.code, ESTALE);
}

static void add(const char *format, uint64_t number, uint64_t line)
{
    size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, format, (unsigned long)number, (unsigned long)line);
}

static void obey(void *context, const struct coord_action *order)
{
    (void)context;
    add("OBEY %lu %lu ", order->type, order->line);
}

static void say(void *context, enum coord_event_type word, uint64_t line)
{
    (void)context;
    add("SAY %lu %lu ", word, line);
}

static bool lacks_base; /* the partner does */

static void protect_rank(void *context, uint64_t line, uint32_t rank, bool is_whole)
{
    (void)context;
    add(is_whole ? "WHOLE %lu %lu " : "PROTECT %lu %lu ", line, rank);
    if (lacks_base && !is_whole)
        membership_need_base(membership, line, rank);
    else
        membership_held(membership, line, rank);
}

static int admit(void *context, uint64_t line, uint32_t rank)
{
    (void)context;
    add("ADMIT %lu %lu ", line, rank);
    errno = ENOSPC;
    return is_disk_full ? -1 : 0;
}

static void answer(void *context, uint32_t node, uint64_t line, uint32_t rank, bool is_held)
{
    (void)context;
    assert_int_equal(line, 1);
    add(is_held ? "HELD of %lu to %lu " : "NEED_BASE of %lu to %lu ", rank, node);
}

static int commit(void *context, uint64_t line)
{
    (void)context;
    add("COMMIT %lu %lu ", line, line);
    return is_disk_full ? -1 : 0;
}

static const struct membership_ops ops = {
    .obey = obey, .say = say, .protect = protect_rank, .admit = admit, .answer = answer, .commit = commit};

static void order(uint32_t epoch, enum coord_action_type type, uint64_t line)
{
    membership_order(membership, &(struct coord_action){.type = type, .epoch = epoch, .line = line});
}

/* A line is in progress; what was said before is forgotten. */
static void reach_protect(void)
{
    for (enum coord_action_type type = COORD_ACTION_PREPARE; type <= COORD_ACTION_CAPTURE; type++)
        if (type != COORD_ACTION_DRAIN)
            order(1, type, 1);
    membership_captured(membership, 1);
    said[0] = '\0';
}

/* Those of a line have been placed when the epoch was opened. */
static void begin_lines(void)
{
    struct belay_error err = {0};
    const struct epoch_start *start = membership_record(membership);
    if (start->rank_count == 0) {
        struct epoch_start *placed = epoch_start_create(1, RANKS);
        placed->epoch = start->epoch;
        placed->incarnations[0] = start->incarnations[0];
        assert_int_equal(membership_place(membership, placed, &err), 0);
        free(placed);
    }
    assert_int_equal(membership_begin_lines(membership, RANKS, &ops, NULL, &err), 0);
}

/* Whatever agent has promised or entered it, and whoever asks. */
static void test_an_epoch_is_entered_once(void **state)
{
    (void)state;
    struct epoch_state answer;
    struct belay_error err = {0};
    assert_int_equal(membership_newest_epoch(membership), 0);
    open_epoch(1, 0);
    assert_int_equal(membership_newest_epoch(membership), 1);
    must_not_promise(1);
    adopt();
    assert_int_equal(membership_newest_epoch(membership), 1);
    must_not_promise(1);
    assert_int_equal(promise(3, 0, 0, &answer, &err), 0);
    must_not_promise(2);
    adopt();
    assert_int_equal(membership_newest_epoch(membership), 2); /* the third may not have been opened */
    must_not_promise(2);
    open_epoch(3, 0);
}

/* The record of it is here before anything follows from it, and outlives the agent. */
static void test_the_decision_is_kept(void **state)
{
    (void)state;
    assert_null(membership_record(membership));
    open_epoch(4, 7);
    adopt();
    const struct epoch_start *record = membership_record(membership);
    assert_int_equal(record->epoch, 4);
    assert_int_equal(record->line, 7);
    assert_int_equal(record->rank_count, RANKS);
    assert_int_equal(membership_newest_epoch(membership), 4);
}

static void test_a_decision_for_another_memory_is_not_entered(void **state)
{
    (void)state;
    struct epoch_state answer;
    struct belay_error err = {0};
    assert_int_equal(promise(1, 0, 0, &answer, &err), 0);
    struct epoch_start *start = decide(1, &answer);
    start->incarnations[0] ^= 2;
    assert_int_equal(enter(start, &err), -1);
    assert_int_equal(err.code, ESTALE);
    start->incarnations[0] ^= 2;
    start->epoch = 2; /* which has not been promised */
    assert_int_equal(enter(start, &err), -1);
    assert_int_equal(err.code, ESTALE);
    start->epoch = 1;
    assert_int_equal(enter(start, &err), 0);
    free(start);
}

static void test_what_is_held_is_told(void **state)
{
    (void)state;
    struct epoch_state answer = open_epoch(1, 0);
    assert_int_equal(answer.committed_line | answer.held_count, 0);
    uint64_t incarnation = answer.incarnation;
    answer = open_epoch(2, 4);
    assert_int_equal(answer.committed_line, 4);
    assert_int_equal(answer.held_count, RANKS);
    assert_int_equal(answer.held[RANKS - 1].image_line, 4);
    assert_int_equal(answer.last_line, 4);
    assert_true(answer.incarnation == incarnation);
}

static void test_a_line_goes_its_way(void **state)
{
    (void)state;
    open_epoch(1, 0);
    begin_lines();
    order(1, COORD_ACTION_PREPARE, 1);
    order(2, COORD_ACTION_STOP, 1); /* another epoch's */
    order(1, COORD_ACTION_STOP, 1);
    order(1, COORD_ACTION_CAPTURE, 1);
    membership_captured(membership, 1);
    order(1, COORD_ACTION_PROTECT, 1);
    order(1, COORD_ACTION_COMMIT, 1);
    membership_applied(membership, 1);
    assert_string_equal(
        said,
        "OBEY 1 1 OBEY 4 1 OBEY 6 1 SAY 8 1 PROTECT 1 0 PROTECT 1 1 SAY 9 1 COMMIT 1 1 OBEY 8 1 SAY 10 1 ");
    membership_end_lines(membership);
    order(1, COORD_ACTION_PREPARE, 2);
    assert_non_null(strstr(said, "SAY 10 1 "));
    assert_null(strstr(said, "OBEY 1 2"));
}

static void test_a_line_without_a_record_is_not_committed(void **state)
{
    (void)state;
    open_epoch(1, 0);
    begin_lines();
    order(1, COORD_ACTION_PREPARE, 1);
    is_disk_full = true;
    order(1, COORD_ACTION_COMMIT, 1);
    assert_string_equal(said, "OBEY 1 1 COMMIT 1 1 ");
}

static void test_a_number_is_used_once(void **state)
{
    (void)state;
    open_epoch(1, 0);
    begin_lines();
    order(1, COORD_ACTION_PREPARE, 6);
    adopt(); /* the agent was killed: nothing else tells of line 6 */
    assert_int_equal(open_epoch(2, 0).last_line, 6);
}

static void protect(uint32_t epoch, uint64_t line)
{
    order(epoch, COORD_ACTION_PREPARE, line);
    order(epoch, COORD_ACTION_CAPTURE, line);
    membership_captured(membership, line);
    order(epoch, COORD_ACTION_PROTECT, line);
}

/* A line that was protected and then neither committed nor aborted, or aborted: the answer is the same. */
static void test_a_protected_line_is_told(void **state)
{
    (void)state;
    open_epoch(1, 0);
    for (uint32_t epoch = 1; epoch <= 3; epoch++) {
        uint64_t line = epoch;
        begin_lines();
        protect(epoch, line);
        assert_int_equal(membership_protected_line(membership), line);
        if (epoch == 2)
            order(2, COORD_ACTION_ABORT, line);
        if (epoch != 2)
            adopt(); /* the agent was killed */
        assert_int_equal(membership_protected_line(membership), line);
        struct epoch_state answer = open_staged(epoch + 1, line - 1, line);
        assert_int_equal(answer.committed_line, line - 1);
        assert_int_equal(answer.protected_line, line);
        assert_int_equal(answer.protected_epoch, epoch);
        assert_int_equal(answer.held_count, RANKS);
        assert_true(holding_has(&answer.held[RANKS - 1], line));
        assert_int_equal(settled, line);
    }
}

/* The next capture has written over what was staged of it. */
static void test_a_line_that_is_protected_no_more_is_not_told(void **state)
{
    (void)state;
    open_epoch(1, 0);
    begin_lines();
    protect(1, 2);
    order(1, COORD_ACTION_ABORT, 2);
    order(1, COORD_ACTION_PREPARE, 3);
    assert_int_equal(membership_protected_line(membership), 2);
    order(1, COORD_ACTION_CAPTURE, 3);
    assert_int_equal(membership_protected_line(membership), 0);
    adopt();
    struct epoch_state answer = open_staged(2, 1, 2);
    assert_int_equal(answer.protected_line, 0);
    assert_int_equal(answer.last_line, 3);
    assert_int_equal(settled, 1);
}

/* A protected line whose data the store has dropped: nobody can go on from it. */
static void test_what_the_store_has_dropped_is_not_gone_on_from(void **state)
{
    (void)state;
    open_epoch(1, 0);
    begin_lines();
    protect(1, 2);
    adopt();
    assert_int_equal(membership_protected_line(membership), 2);
    struct epoch_state answer = open_epoch(2, 1);
    assert_int_equal(answer.committed_line, 1);
    assert_int_equal(answer.protected_line, 0);
    assert_int_equal(settled, 1);
}

/* The arbiter has decided on a line that cannot be brought into its images: the next epoch goes on from it
 * all the same. */
static void test_a_line_that_cannot_be_settled_stays_protected(void **state)
{
    (void)state;
    struct epoch_state answer;
    struct belay_error err = {0};
    open_epoch(1, 0);
    begin_lines();
    protect(1, 2);
    assert_int_equal(promise(2, 1, 2, &answer, &err), 0);
    struct epoch_start *start = decide(2, &answer);
    is_disk_full = true;
    assert_int_equal(enter(start, &err), -1);
    assert_int_equal(err.code, ENOSPC);
    free(start);
    is_disk_full = false;
    adopt();
    assert_int_equal(membership_record(membership)->line, 2); /* which the arbiter asks about */
    assert_int_equal(membership_protected_line(membership), 2);
    answer = open_staged(3, 1, 2);
    assert_int_equal(answer.committed_line, 1);
    assert_int_equal(settled, 2);
}

/* Of two copies one is left when a write was cut short. Without both the node is another one. */
static void test_damaged_records(void **state)
{
    (void)state;
    char bytes[4096];
    open_epoch(1, 0);
    uint64_t incarnation = open_epoch(2, 0).incarnation;
    look_at_records();
    assert_int_equal(pread(records, bytes, sizeof bytes, 0), sizeof bytes);
    assert_int_equal(pwrite(records, "x", 1, 0), 1); /* the first copy */
    close(records);
    close(copy);
    adopt();
    assert_true(open_epoch(3, 0).incarnation == incarnation);
    look_at_records();
    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(pwrite(records, bytes, sizeof bytes, 0), sizeof bytes);
    assert_int_equal(pwrite(copy, bytes, 20, 10), 20);
    close(records);
    close(copy);
    adopt();
    assert_null(membership_record(membership));
    assert_true(open_epoch(6, 0).incarnation != incarnation);
}

static void test_records_of_another_size_are_refused(void **state)
{
    (void)state;
    struct belay_error err = {0};
    int fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
    assert_null(membership_adopt(keeper, "other", 0, fd, -1, &err));
    assert_true(err.code != 0);
}

static void test_copies_of_other_ranks_are_kept(void **state)
{
    (void)state;
    open_epoch(1, 0);
    begin_lines();
    assert_int_equal(membership_data(membership, 5, 1, 1, 0, 0), 0); /* there is no line */
    reach_protect();
    assert_int_equal(membership_line(membership), 1);
    assert_int_equal(membership_data(membership, 5, 1, 1, 0, 0), 0);
    assert_string_equal(said, "ADMIT 1 1 HELD of 1 to 5 ");
    said[0] = '\0';
    assert_int_equal(membership_data(membership, 5, 1, 0, 3, 2), 0);
    assert_string_equal(said, "NEED_BASE of 0 to 5 ");
    said[0] = '\0';
    is_disk_full = true; /* what is not kept is not told of as kept */
    assert_int_equal(membership_data(membership, 5, 1, 0, 3, 3), -1);
    assert_int_equal(errno, ENOSPC);
    assert_string_equal(said, "ADMIT 1 0 ");
}

static void test_who_lacks_the_base_gets_a_whole_image(void **state)
{
    (void)state;
    open_epoch(1, 0);
    begin_lines();
    reach_protect();
    lacks_base = true;
    order(1, COORD_ACTION_PROTECT, 1);
    lacks_base = false;
    assert_string_equal(said, "PROTECT 1 0 WHOLE 1 0 PROTECT 1 1 WHOLE 1 1 SAY 9 1 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_epoch_is_entered_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_decision_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_decision_for_another_memory_is_not_entered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_held_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_line_goes_its_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_copies_of_other_ranks_are_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_who_lacks_the_base_gets_a_whole_image, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_line_without_a_record_is_not_committed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_number_is_used_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_protected_line_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_line_that_is_protected_no_more_is_not_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_line_that_cannot_be_settled_stays_protected, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_the_store_has_dropped_is_not_gone_on_from, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_records, setup, teardown),
        cmocka_unit_test_setup_teardown(test_records_of_another_size_are_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
