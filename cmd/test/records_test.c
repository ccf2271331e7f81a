/* Records: read, listed and removed without an agent; damaged ones are refused. */
#include "cmd/records.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/wire/states.h"
#include "common/wire/status_file.h"

static char rundir[] = "/tmp/belay-records-XXXXXX";

static void write_file(const char *name, const void *bytes, size_t count)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/jobs", rundir);
    mkdir(path, 0700); /* it goes with the last record */
    snprintf(path, sizeof path, "%s/jobs/%s", rundir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, count), count);
    close(fd);
}

static void write_record(const char *job, const char *state)
{
    uint8_t bytes[256];
    char name[64];
    Belay__Wire__JobStatus status = BELAY__WIRE__JOB_STATUS__INIT;
    status.job = (char *)job;
    status.state = (char *)state;
    status.newest_line = 5;
    assert_true(belay__wire__job_status__get_packed_size(&status) <= sizeof bytes);
    snprintf(name, sizeof name, "%s.status", job);
    write_file(name, bytes, belay__wire__job_status__pack(&status, bytes));
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(rundir) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/jobs", rundir);
    rmdir(path);
    return rmdir(rundir); /* fails if a test left a file */
}

static void expect_state(const char *job, const char *state)
{
    struct belay_error err = {0};
    Belay__Wire__JobStatus *status = record_read(rundir, job, &err);
    assert_non_null(status);
    assert_string_equal(status->job, job);
    assert_string_equal(job_state_name(job_state_from(status->job_state, status->state)), state);
    assert_int_equal(status->newest_line, 5);
    belay__wire__job_status__free_unpacked(status, NULL);
}

static void test_read(void **state)
{
    (void)state;
    write_record("done", "finished");
    write_record("orphan", "running");
    expect_state("done", "finished");
    expect_state("orphan", "lost");
    assert_int_equal(record_remove(rundir, "done", NULL), 0);
    assert_int_equal(record_remove(rundir, "orphan", NULL), 0);
}

static void test_unknown_and_damaged(void **state)
{
    (void)state;
    struct belay_error err = {0};
    assert_null(record_read(rundir, "nobody", &err));
    assert_int_equal(err.code, ENOENT);
    assert_int_equal(record_remove(rundir, "nobody", &err), -1);
    assert_int_equal(err.code, ENOENT);
    write_file("bad.status", "\xff\xff\xff", 3);
    assert_null(record_read(rundir, "bad", &err));
    assert_int_equal(err.code, EBADMSG);
    assert_int_equal(record_remove(rundir, "bad", NULL), 0);
}

static int count_job(void *context, const char *job)
{
    assert_true(!strcmp(job, "a") || !strcmp(job, "a.b"));
    ++*(int *)context;
    return 0;
}

static void test_visit_sees_records_only(void **state)
{
    (void)state;
    int count = 0;
    char path[PATH_MAX];
    write_record("a", "finished");
    write_record("a.b", "failed");
    write_file("a.log", "x", 1);
    assert_int_equal(status_file_each(rundir, count_job, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(record_remove(rundir, "a", NULL), 0);
    expect_state("a.b", "failed");
    assert_int_equal(record_remove(rundir, "a.b", NULL), 0);
    snprintf(path, sizeof path, "%s/jobs/a.log", rundir);
    unlink(path);
    assert_int_equal(status_file_each("/nonexistent", count_job, &count), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_unknown_and_damaged),
        cmocka_unit_test(test_visit_sees_records_only),
    };
    return cmocka_run_group_tests_name("records", tests, set_up, tear_down);
}
