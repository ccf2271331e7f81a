/* epoch_record_test.c - the arbiter's record: what is read is what was written, or nothing. */
#include "common/wire/epoch_record.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/test/fuzz.h"

#define RANKS 3u
#define ROUNDS 20000

static uint32_t members[] = {0, 4}, placement[] = {0, 1, 1}, holder[] = {0, 0, 1};
static uint64_t incarnations[] = {UINT64_MAX, 7};
static char rundir[32];

static Belay__Wire__EpochRecord sound_record(void)
{
    Belay__Wire__EpochRecord record = BELAY__WIRE__EPOCH_RECORD__INIT;
    record.job = "job";
    record.epoch = 5;
    record.line = 1ull << 40;
    record.last_line = (1ull << 40) + 1;
    record.coordinator = 1;
    record.members = members;
    record.incarnations = incarnations;
    record.n_members = record.n_incarnations = 2;
    record.placement = placement;
    record.holder = holder;
    record.n_placement = record.n_holder = RANKS;
    return record;
}

static void expect_sound(Belay__Wire__EpochRecord *record)
{
    assert_non_null(record);
    assert_int_equal(record->epoch, 5);
    assert_true(record->line == 1ull << 40 && record->last_line == record->line + 1);
    assert_int_equal(record->coordinator, 1);
    assert_memory_equal(record->members, members, sizeof members);
    assert_memory_equal(record->incarnations, incarnations, sizeof incarnations);
    assert_memory_equal(record->placement, placement, sizeof placement);
    assert_memory_equal(record->holder, holder, sizeof holder);
    epoch_record_free(record);
}

static int setup(void **state)
{
    (void)state;
    strcpy(rundir, "/tmp/belay-record-XXXXXX");
    return mkdtemp(rundir) ? 0 : -1;
}

static char *path_of(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", rundir, name);
    return path;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(rundir);
}

static void test_what_is_written_is_read(void **state)
{
    (void)state;
    Belay__Wire__EpochRecord record = sound_record();
    struct stat st;
    assert_null(epoch_record_read(rundir, "job"));
    assert_int_equal(errno, ENOENT);
    assert_int_equal(epoch_record_write(rundir, &record), 0);
    assert_int_equal(epoch_record_write(rundir, &record), 0);
    expect_sound(epoch_record_read(rundir, "job"));
    assert_int_equal(stat(path_of("jobs/job.epochs"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(epoch_record_remove(rundir, "job"), 0);
    assert_int_equal(epoch_record_remove(rundir, "job"), -1);
    assert_int_equal(access(path_of("jobs"), F_OK), -1);
}

/* The former record stays, and nothing else is left. */
static void test_a_write_that_fails(void **state)
{
    (void)state;
    Belay__Wire__EpochRecord record = sound_record();
    assert_int_equal(epoch_record_write(rundir, &record), 0);
    assert_int_equal(mkdir(path_of("jobs/job.epochs.partial"), 0700), 0); /* in its way */
    record.epoch = 6;
    assert_int_equal(epoch_record_write(rundir, &record), -1);
    assert_int_equal(errno, EISDIR);
    expect_sound(epoch_record_read(rundir, "job"));
    assert_int_equal(rmdir(path_of("jobs/job.epochs.partial")), 0);
    setenv("BELAY_FAULT", "record.write=error", 1);
    assert_int_equal(epoch_record_write(rundir, &record), -1);
    assert_int_equal(errno, EIO);
    unsetenv("BELAY_FAULT");
    expect_sound(epoch_record_read(rundir, "job"));
    assert_int_equal(epoch_record_remove(rundir, "job"), 0);
}

static int count(void *context, const char *job)
{
    assert_string_equal(job, "job");
    ++*(int *)context;
    return 0;
}

/* By a process that was killed while it wrote: it is found and removed. */
static void test_an_interrupted_write(void **state)
{
    (void)state;
    Belay__Wire__EpochRecord record = sound_record();
    int found = 0;
    assert_int_equal(epoch_record_write(rundir, &record), 0);
    close(open(path_of("jobs/job.epochs.partial"), O_CREAT | O_WRONLY, 0600));
    epoch_record_each(rundir, count, &found);
    assert_int_equal(found, 1);
    unlink(path_of("jobs/job.epochs"));
    epoch_record_each(rundir, count, &found);
    assert_int_equal(found, 2);
    assert_int_equal(epoch_record_remove(rundir, "job"), 0);
}

static void test_another_jobs_record_is_none(void **state)
{
    (void)state;
    Belay__Wire__EpochRecord record = sound_record();
    char other[PATH_MAX];
    assert_int_equal(epoch_record_write(rundir, &record), 0);
    snprintf(other, sizeof other, "%s", path_of("jobs/other.epochs"));
    assert_int_equal(link(path_of("jobs/job.epochs"), other), 0);
    assert_null(epoch_record_read(rundir, "other"));
    assert_int_equal(errno, EBADMSG);
    assert_null(epoch_record_read(rundir, "../other"));
    assert_int_equal(errno, ENOENT);
    assert_int_equal(epoch_record_remove(rundir, "job"), 0);
    assert_int_equal(symlink(other, path_of("jobs/job.epochs")), 0);
    assert_null(epoch_record_read(rundir, "job"));
    assert_int_equal(errno, ELOOP);
    assert_int_equal(epoch_record_remove(rundir, "job"), 0);
    assert_int_equal(epoch_record_remove(rundir, "other"), 0);
}

/* Any of these alone: the numbers do not fit together. */
static void test_numbers_that_do_not_fit(void **state)
{
    (void)state;
    uint32_t wrong[] = {0, 1, 2};
    for (int fault = 0; fault < 8; fault++) {
        Belay__Wire__EpochRecord record = sound_record();
        assert_int_equal(epoch_record_check(&record), 0);
        record.epoch = fault == 0 ? 0 : record.epoch;
        record.n_members = fault == 1 ? 0 : record.n_members;
        record.n_incarnations = fault == 2 ? 1 : record.n_incarnations;
        record.coordinator = fault == 3 ? 2 : record.coordinator;
        record.n_holder = fault == 4 ? 2 : record.n_holder;
        record.n_placement = fault == 5 ? 0 : record.n_placement;
        record.placement = fault == 6 ? wrong : record.placement;
        record.holder = fault == 7 ? wrong : record.holder;
        errno = 0;
        assert_int_equal(epoch_record_check(&record), -1);
        assert_int_equal(errno, EBADMSG);
        size_t length = 0;
        uint8_t *bytes = epoch_record_pack(&record, &length); /* also with a sum that is right */
        assert_null(epoch_record_unpack(bytes, length, "job"));
        free(bytes);
    }
}

/* Cut short, longer, or with any byte changed. */
static void test_damage_is_found(void **state)
{
    (void)state;
    struct fuzz fuzz = fuzz_begin("damaged records");
    const Belay__Wire__EpochRecord record = sound_record();
    size_t length = 0;
    uint8_t *sound = epoch_record_pack(&record, &length), bytes[512];
    assert_true(length < sizeof bytes / 2);
    expect_sound(epoch_record_unpack(sound, length, "job"));
    for (size_t cut = 0; cut < length; cut++)
        assert_null(epoch_record_unpack(sound, cut, "job"));
    for (unsigned round = 0; round < fuzz_rounds(ROUNDS); round++) {
        size_t damaged = length;
        memcpy(bytes, sound, length);
        fuzz_damage(&fuzz, bytes, &damaged, sizeof bytes);
        bool is_same = damaged == length && !memcmp(bytes, sound, length);
        Belay__Wire__EpochRecord *read = epoch_record_unpack(bytes, damaged, "job");
        if (is_same)
            expect_sound(read);
        else
            assert_null(read);
    }
    free(sound);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_written_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_write_that_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_interrupted_write, setup, teardown),
        cmocka_unit_test_setup_teardown(test_another_jobs_record_is_none, setup, teardown),
        cmocka_unit_test(test_numbers_that_do_not_fit),
        cmocka_unit_test(test_damage_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
