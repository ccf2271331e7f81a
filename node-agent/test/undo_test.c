/* undo_test - logs of several ranks and lines are undone, the latest first. */
#include <fcntl.h>
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

#include "common/wire/undo.h"
#include "node-agent/undo.h"

static char top[64], folder[UNDO_FOLDER_BYTES], file[128], other[128];

static void write_file(const char *path, const char *text)
{
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    fputs(text, stream);
    fclose(stream);
}

static void assert_file(const char *path, const char *text)
{
    char found[64] = "";
    FILE *stream = fopen(path, "r");
    assert_non_null(stream);
    size_t length = fread(found, 1, sizeof found - 1, stream);
    found[length] = '\0';
    fclose(stream);
    assert_string_equal(found, text);
}

/* Append an entry to a rank's log, or only its first bytes. */
static void log_part(unsigned line, unsigned rank, struct undo_entry entry, const char *path,
                     const char *data, size_t bytes)
{
    char name[UNDO_FOLDER_BYTES + 64], whole[1024];
    size_t path_bytes = strlen(path) + 1;
    entry.magic = UNDO_MAGIC;
    entry.path_bytes = (uint32_t)path_bytes;
    memcpy(whole, &entry, sizeof entry);
    memcpy(whole + sizeof entry, path, path_bytes);
    memcpy(whole + sizeof entry + path_bytes, data, entry.data_bytes);
    size_t all = sizeof entry + path_bytes + entry.data_bytes;
    snprintf(name, sizeof name, "%s/%u", folder, line);
    mkdir(name, 0700);
    snprintf(name, sizeof name, "%s/%u/%u.log", folder, line, rank);
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
    assert_int_equal(write(fd, whole, bytes < all ? bytes : all), bytes < all ? bytes : all);
    close(fd);
}

static void log_entry(unsigned line, unsigned rank, struct undo_entry entry, const char *path,
                      const char *data)
{
    log_part(line, rank, entry, path, data, SIZE_MAX);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(top, "/tmp/undo_test.XXXXXX");
    assert_non_null(mkdtemp(top));
    assert_int_equal(undo_folder_of(top, "", "job", folder, NULL), 0);
    assert_int_equal(undo_create(folder, NULL), 0);
    snprintf(file, sizeof file, "%s/file", top);
    snprintf(other, sizeof other, "%s/other", top);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    undo_remove(folder);
    undo_remove_base(top);
    unlink(file);
    unlink(other);
    return rmdir(top);
}

static struct undo_entry entry(enum undo_kind kind, uint64_t time_ns, uint64_t offset, uint64_t data_bytes)
{
    return (struct undo_entry){.kind = kind, .time_ns = time_ns, .offset = offset, .data_bytes = data_bytes};
}

static void test_the_earliest_record_counts(void **state)
{
    (void)state;
    write_file(file, "now it is long");
    log_entry(3, 0, entry(UNDO_LENGTH, 20, 6, 0), file, "");
    log_entry(3, 0, entry(UNDO_DATA, 21, 0, 4), file, "late");
    log_entry(3, 1, entry(UNDO_LENGTH, 10, 5, 0), file, "");
    log_entry(3, 1, entry(UNDO_DATA, 11, 0, 4), file, "then");
    assert_int_equal(undo_apply(folder, 3, NULL), 0);
    assert_file(file, "theni");
    assert_int_equal(undo_apply(folder, 3, NULL), 0);
    assert_file(file, "theni");
}

static void test_lines_that_aborted_are_undone_as_well(void **state)
{
    (void)state;
    write_file(file, "xxxx");
    log_entry(1, 0, entry(UNDO_DATA, 1, 0, 4), file, "0000"); /* before the line that counts */
    log_entry(2, 0, entry(UNDO_DATA, 2, 0, 2), file, "22");
    log_entry(5, 0, entry(UNDO_DATA, 3, 0, 4), file, "5555");
    assert_int_equal(undo_apply(folder, 2, NULL), 0);
    assert_file(file, "2255");
}

static void test_names(void **state)
{
    (void)state;
    char kept[UNDO_FOLDER_BYTES + 64];
    write_file(file, "new");
    log_entry(4, 7, entry(UNDO_CREATED, 1, 0, 0), other, "");
    struct undo_entry removed = entry(UNDO_REMOVED, 2, 0, 0);
    removed.mode = 0640;
    log_entry(4, 7, removed, file, "");
    log_entry(4, 7, entry(UNDO_RENAMED, 3, 0, strlen(file) + 1), other, file);
    snprintf(kept, sizeof kept, "%s/4/7-0.kept", folder);
    write_file(kept, "old");
    assert_int_equal(undo_apply(folder, 4, NULL), 0);
    assert_file(file, "old");
    assert_int_equal(access(other, F_OK), -1);
}

static void test_an_entry_cut_short_is_none(void **state)
{
    (void)state;
    write_file(file, "right");
    log_part(1, 0, entry(UNDO_DATA, 1, 0, 5), file, "wrong", sizeof(struct undo_entry) + strlen(file) + 3);
    assert_int_equal(undo_apply(folder, 1, NULL), 0);
    assert_file(file, "right");
}

static void test_failures_name_the_file(void **state)
{
    (void)state;
    struct belay_error err;
    write_file(file, "xxxx");
    log_entry(1, 0, entry(UNDO_DATA, 2, 0, 4), other, "gone");
    log_entry(1, 0, entry(UNDO_DATA, 1, 0, 4), file, "back");
    assert_int_equal(undo_apply(folder, 1, &err), -1);
    assert_non_null(strstr(err.text, other));
    assert_file(file, "back");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_earliest_record_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lines_that_aborted_are_undone_as_well, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_entry_cut_short_is_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failures_name_the_file, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("undo", tests, NULL, NULL);
}
