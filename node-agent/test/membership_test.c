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
static int records = -1; /* as the keeper has them */
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
    membership = membership_create(keeper, "job", &err);
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
    if (strcmp(name, "job/epochs") != 0)
        close(fd);
    else
        records = fd;
}

/* Another agent takes up what the keeper holds. */
static void adopt(void)
{
    struct belay_error err = {0};
    records = -1;
    assert_int_equal(keeper_list(keeper, find_records, NULL, NULL), 0);
    assert_true(records >= 0);
    int copy = fcntl(records, F_DUPFD_CLOEXEC, 0);
    membership_destroy(membership);
    membership = membership_adopt(keeper, "job", copy, &err);
    if (!membership)
        fail_msg("%s", err.text);
    close(records);
}

static int settle(void *context, uint64_t line, struct belay_error *err)
{
    (void)context;
    settled = line;
    return is_disk_full ? belay_error_set(err, ENOSPC, "no room for line %lu", (unsigned long)line) : 0;
}

/* The newest staged line is made of deltas to the committed one. 0: there is none. */
static int try_open(uint32_t seen, uint64_t committed, uint64_t staged, uint64_t last,
                    struct membership_epoch *epoch, struct belay_error *err)
{
    struct holding held[RANKS];
    struct membership_facts facts = {.epoch = seen,
                                     .ranks = committed || staged ? RANKS : 0,
                                     .held = held,
                                     .committed_line = committed,
                                     .last_line = last,
                                     .settle = settle};
    for (uint32_t i = 0; i < RANKS; i++)
        held[i] = (struct holding){
            .image_line = committed, .staging_line = staged, .base_line = staged ? committed : 0};
    settled = UINT64_MAX;
    return membership_open_epoch(membership, &facts, epoch, err);
}

static struct membership_epoch open_epoch(uint32_t seen, uint64_t committed, uint64_t last)
{
    struct membership_epoch epoch;
    struct belay_error err = {0};
    if (try_open(seen, committed, 0, last, &epoch, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(settled, epoch.line);
    return epoch;
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

static void protect_rank(void *context, uint64_t line, uint32_t rank)
{
    (void)context;
    add("PROTECT %lu %lu ", line, rank);
    membership_held(membership, line, rank);
}

static int commit(void *context, uint64_t line)
{
    (void)context;
    add("COMMIT %lu %lu ", line, line);
    return is_disk_full ? -1 : 0;
}

static const struct membership_ops ops = {
    .obey = obey, .say = say, .protect = protect_rank, .commit = commit};

static void order(uint32_t epoch, enum coord_action_type type, uint64_t line)
{
    membership_order(membership, &(struct coord_action){.type = type, .epoch = epoch, .line = line});
}

static void begin_lines(void)
{
    struct belay_error err = {0};
    assert_int_equal(membership_begin_lines(membership, RANKS, &ops, NULL, &err), 0);
}

static void test_numbers_of_epochs_go_on(void **state)
{
    (void)state;
    assert_int_equal(open_epoch(0, 0, 0).number, 1);
    assert_int_equal(open_epoch(1, 0, 0).number, 2);
    adopt();
    assert_int_equal(open_epoch(1, 0, 0).number, 3); /* the second is recorded, whoever has seen it */
    assert_int_equal(open_epoch(7, 0, 0).number, 8); /* an agent that was lost with its records had more */
}

static void test_the_committed_line_is_gone_on_from(void **state)
{
    (void)state;
    assert_int_equal(open_epoch(0, 0, 0).line, 0);
    struct membership_epoch epoch = open_epoch(1, 4, 5);
    assert_int_equal(epoch.line, 4);
    assert_int_equal(epoch.last_line, 5);
}

static void test_a_line_that_was_lost_is_not_gone_back_past(void **state)
{
    (void)state;
    struct membership_epoch epoch;
    struct belay_error err = {0};
    open_epoch(1, 4, 4);
    assert_int_equal(try_open(2, 3, 0, 0, &epoch, &err), -1);
    assert_int_equal(err.code, ENODATA);
    assert_non_null(strstr(err.text, "line 4"));
}

static void test_a_line_goes_its_way(void **state)
{
    (void)state;
    open_epoch(0, 0, 0);
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
    open_epoch(0, 0, 0);
    begin_lines();
    order(1, COORD_ACTION_PREPARE, 1);
    is_disk_full = true;
    order(1, COORD_ACTION_COMMIT, 1);
    assert_string_equal(said, "OBEY 1 1 COMMIT 1 1 ");
}

static void test_a_number_is_used_once(void **state)
{
    (void)state;
    open_epoch(0, 0, 0);
    begin_lines();
    order(1, COORD_ACTION_PREPARE, 6);
    adopt(); /* the agent was killed: nothing else tells of line 6 */
    assert_int_equal(open_epoch(1, 0, 0).last_line, 6);
}

static void protect(uint32_t epoch, uint64_t line)
{
    order(epoch, COORD_ACTION_PREPARE, line);
    order(epoch, COORD_ACTION_CAPTURE, line);
    membership_captured(membership, line);
    order(epoch, COORD_ACTION_PROTECT, line);
}

/* A line that was protected and then neither committed nor aborted, or aborted: the verdict is the same. */
static void test_a_protected_line_is_rolled_forward_to(void **state)
{
    (void)state;
    struct membership_epoch epoch = {0};
    struct belay_error err = {0};
    open_epoch(0, 0, 0);
    for (uint64_t line = 1; line <= 3; line++) {
        begin_lines();
        protect((uint32_t)line, line);
        assert_int_equal(membership_protected_line(membership), line);
        if (line == 2)
            order(2, COORD_ACTION_ABORT, line);
        if (line != 2)
            adopt(); /* the agent was killed */
        assert_int_equal(membership_protected_line(membership), line);
        assert_int_equal(try_open((uint32_t)line, line - 1, line, line, &epoch, &err), 0);
        assert_int_equal(epoch.line, line);
        assert_int_equal(settled, line);
    }
}

/* What the next capture has written over, and what the node does not have, is not gone on from. */
static void test_a_line_that_is_protected_no_more_is_not_gone_on_from(void **state)
{
    (void)state;
    struct membership_epoch epoch = {0};
    struct belay_error err = {0};
    open_epoch(0, 0, 0);
    begin_lines();
    protect(1, 2);
    order(1, COORD_ACTION_ABORT, 2);
    order(1, COORD_ACTION_PREPARE, 3);
    assert_int_equal(membership_protected_line(membership), 2);
    order(1, COORD_ACTION_CAPTURE, 3);
    assert_int_equal(membership_protected_line(membership), 0);
    adopt();
    assert_int_equal(try_open(1, 1, 2, 3, &epoch, &err), 0);
    assert_int_equal(epoch.line, 1);
    assert_int_equal(epoch.last_line, 3);
    assert_int_equal(settled, 1);
}

/* A line was decided on, and cannot be brought into its images: the next epoch goes on from it all the same.
 */
static void test_a_line_that_cannot_be_settled_stays_decided_on(void **state)
{
    (void)state;
    struct membership_epoch epoch = {0};
    struct belay_error err = {0};
    open_epoch(0, 0, 0);
    begin_lines();
    protect(1, 2);
    is_disk_full = true;
    assert_int_equal(try_open(1, 1, 2, 2, &epoch, &err), -1);
    assert_int_equal(err.code, ENOSPC);
    is_disk_full = false;
    adopt();
    assert_int_equal(try_open(1, 1, 2, 2, &epoch, &err), 0);
    assert_int_equal(epoch.line, 2);
    assert_int_equal(epoch.number, 3);
}

/* Of two copies one is left when a write was cut short. */
static void test_damaged_records(void **state)
{
    (void)state;
    char bytes[4096];
    open_epoch(0, 0, 0);
    open_epoch(1, 0, 0);
    assert_int_equal(keeper_list(keeper, find_records, NULL, NULL), 0);
    assert_int_equal(pread(records, bytes, sizeof bytes, 0), sizeof bytes);
    assert_int_equal(pwrite(records, "x", 1, 0), 1); /* the first copy */
    close(records);
    adopt();
    assert_true(open_epoch(0, 0, 0).number >= 2);
    assert_int_equal(keeper_list(keeper, find_records, NULL, NULL), 0);
    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(pwrite(records, bytes, sizeof bytes, 0), sizeof bytes);
    close(records);
    adopt();
    assert_int_equal(open_epoch(5, 0, 0).number, 6);
}

static void test_records_of_another_size_are_refused(void **state)
{
    (void)state;
    struct belay_error err = {0};
    int fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
    assert_null(membership_adopt(keeper, "other", fd, &err));
    assert_true(err.code != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_numbers_of_epochs_go_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_committed_line_is_gone_on_from, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_line_that_was_lost_is_not_gone_back_past, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_line_goes_its_way, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_line_without_a_record_is_not_committed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_number_is_used_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_protected_line_is_rolled_forward_to, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_line_that_is_protected_no_more_is_not_gone_on_from, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_line_that_cannot_be_settled_stays_decided_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_records, setup, teardown),
        cmocka_unit_test_setup_teardown(test_records_of_another_size_are_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
