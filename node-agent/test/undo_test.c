/*
 * undo_test - logs of several ranks and lines are undone, the latest first, and only on the files that they
 * are of.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/wire/shares.h"
#include "node-agent/test/undo_log.h"

/* ---- contents ---- */

static void test_the_earliest_record_counts(void **state)
{
    (void)state;
    write_file("file", "theni");
    note_length(3, 1, "file");
    note_data(3, 1, "file", 0, 4);
    write_file("file", "lateri");
    note_length(3, 0, "file");
    note_data(3, 0, "file", 0, 4);
    write_file("file", "now it is long");
    must_apply(3, 0);
    assert_file("file", "theni\0");
    must_apply(3, 0);
    assert_file("file", "theni");
}

static void test_lines_that_aborted_are_undone_as_well(void **state)
{
    (void)state;
    write_file("file", "0000");
    note_data(1, 0, "file", 0, 4); /* before the line that counts */
    write_file("file", "22xx");
    note_data(2, 0, "file", 0, 2);
    write_file("file", "5555");
    note_data(5, 0, "file", 0, 4);
    write_file("file", "xxxx");
    must_apply(2, 0);
    assert_file("file", "2255");
}

/* A restart from a newer line leaves what an archived one needs, and a later one goes back to that. */
static void test_an_archived_line_is_gone_back_to(void **state)
{
    (void)state;
    write_file("file", "1111");
    note_data(1, 0, "file", 0, 4); /* before the archived line */
    write_file("file", "2222");
    note_data(2, 0, "file", 0, 4);
    write_file("file", "3322");
    note_data(3, 0, "file", 0, 4);
    write_file("file", "5555");
    keeps_from = 2;
    must_apply(3, 0);
    assert_file("file", "3322");
    keeps_from = 0;
    must_apply(2, 0);
    assert_file("file", "2222");
}

static void test_holes(void **state)
{
    (void)state;
    struct stat before, after;
    write_file("file", "head");
    assert_int_equal(truncate(path_of("file"), 1 << 20), 0);
    assert_int_equal(stat(path_of("file"), &before), 0);
    note_length(1, 0, "file");
    note_hole(1, 0, "file", 65536, (1 << 20) - 65536);
    int fd = open(path_of("file"), O_WRONLY | O_CLOEXEC);
    for (off_t at = 65536; at < 2 << 20; at += 4096)
        assert_int_equal(pwrite(fd, "data", 4, at), 4);
    close(fd);
    must_apply(1, 0);
    assert_int_equal(stat(path_of("file"), &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    assert_int_equal(after.st_blocks, before.st_blocks);
}

/* ---- names ---- */

static void test_names(void **state)
{
    (void)state;
    write_file("file", "old");
    struct file_id old = id_of("file");
    uint64_t created = note_created(4, 7, "other");
    write_file("other", "new");
    note_made(4, 7, "other", created);
    note_removed(4, 7, "file", false);
    note_renamed(4, 7, "other", "file", 0);
    assert_int_equal(rename(path_of("other"), path_of("file")), 0);
    must_apply(4, 0);
    assert_file("file", "old");
    assert_absent("other");
    struct file_id now = id_of("file");
    assert_true(file_id_is_same(&old, &now)); /* by a link: the same file */
}

static void test_a_copy_comes_back_as_the_file_was(void **state)
{
    (void)state;
    struct stat st;
    write_file("file", "first");
    assert_int_equal(chmod(path_of("file"), 0640), 0);
    note_data(1, 0, "file", 0, 5);
    write_file("file", "FIRST");
    note_removed(1, 0, "file", true);
    assert_int_equal(unlink(path_of("file")), 0);
    must_apply(1, 0);
    assert_file("file", "first"); /* what was noted of the former file is put into the new one */
    assert_int_equal(stat(path_of("file"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
}

static void test_nothing_comes_back_with_rights_of_its_owner(void **state)
{
    (void)state;
    struct stat st;
    for (int is_copied = 0; is_copied < 2; is_copied++) {
        write_file("file", "code");
        assert_int_equal(chmod(path_of("file"), 06755), 0);
        note_removed(1, 0, "file", is_copied);
        assert_int_equal(unlink(path_of("file")), 0);
        must_apply(1, 0);
        assert_int_equal(stat(path_of("file"), &st), 0);
        assert_int_equal(st.st_mode & 07777, 0755);
    }
}

static void test_a_fifo_that_was_removed(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    note_removed(1, 0, "fifo", false);
    assert_int_equal(unlink(path_of("fifo")), 0);
    alarm(10);
    must_apply(1, 0);
    alarm(0);
    assert_int_equal(stat(path_of("fifo"), &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
}

/* Its contents are renamed, too: paths are right when their turn comes. */
static void test_a_fifo_of_another_file_system(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(mkfifo(path_of("fifo"), 0620), 0);
    assert_int_equal(chmod(path_of("fifo"), 0620), 0);
    note_node(1, 0, "fifo");
    assert_int_equal(unlink(path_of("fifo")), 0);
    must_apply(1, 0);
    assert_int_equal(lstat(path_of("fifo"), &st), 0);
    assert_true(S_ISFIFO(st.st_mode) && (st.st_mode & 07777) == 0620);
}

/* ---- attributes ---- */

static void set_time(const char *name, time_t seconds)
{
    struct timespec times[2] = {{seconds + 7, 3}, {seconds, 5}};
    assert_int_equal(utimensat(AT_FDCWD, path_of(name), times, 0), 0);
}

static void assert_read(const char *name, time_t seconds)
{
    struct stat st;
    assert_int_equal(stat(path_of(name), &st), 0);
    assert_true(st.st_atim.tv_sec == seconds && st.st_atim.tv_nsec == 3);
}

static void assert_attributes(const char *name, mode_t mode, time_t seconds)
{
    struct stat st;
    assert_int_equal(stat(path_of(name), &st), 0);
    assert_int_equal(st.st_mode & 07777, mode);
    if (seconds)
        assert_true(st.st_mtim.tv_sec == seconds && st.st_mtim.tv_nsec == 5);
}

/* One rank writes and then takes the right to write away; another one had changed the time before. */
static void test_attributes_are_what_they_were(void **state)
{
    (void)state;
    write_file("file", "before");
    assert_int_equal(chmod(path_of("file"), 0640), 0);
    set_time("file", 1000);
    note_attributes(1, 1, "file");
    set_time("file", 2000);
    note_length(1, 0, "file");
    note_data(1, 0, "file", 0, 6);
    write_file("file", "later on");
    note_attributes(1, 0, "file");
    assert_int_equal(chmod(path_of("file"), 0400), 0);
    assert_int_equal(mkdir(path_of("folder"), 0750), 0);
    note_attributes(1, 0, "folder");
    assert_int_equal(chmod(path_of("folder"), 0500), 0);
    must_apply(1, 0);
    assert_read("file", 1007);
    assert_file("file", "before");
    assert_attributes("file", 0640, 1000);
    assert_attributes("folder", 0750, 0);
}

/* A program had it open to write before; its permissions are not the job's doing. */
static void test_a_file_that_its_owner_may_not_write(void **state)
{
    (void)state;
    write_file("file", "before");
    assert_int_equal(chmod(path_of("file"), 0644), 0);
    note_length(1, 0, "file");
    note_data(1, 0, "file", 0, 6);
    write_file("file", "later on");
    assert_int_equal(chmod(path_of("file"), 0444), 0);
    must_apply(1, 0);
    assert_file("file", "before");
    assert_attributes("file", 0444, 0);
}

static void test_attributes_of_another_file_stay(void **state)
{
    (void)state;
    write_file("file", "before");
    note_attributes(1, 0, "file");
    assert_int_equal(rename(path_of("file"), path_of("folderless")), 0);
    assert_int_equal(unlink(path_of("folderless")), 0);
    write_file("file", "other");
    assert_int_equal(chmod(path_of("file"), 0604), 0);
    must_apply(1, 1);
    assert_attributes("file", 0604, 0);
}

static void test_folders_that_were_renamed_and_removed(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path_of("one"), 0750), 0);
    write_file("one/file", "before");
    write_file("one/other", "stays");
    note_data(1, 0, "one/file", 0, 6);
    write_file("one/file", "during");
    note_renamed(1, 0, "one", "two", 0);
    assert_int_equal(rename(path_of("one"), path_of("two")), 0);
    note_data(1, 1, "two/file", 0, 6);
    write_file("two/file", "after ");
    note_removed(1, 1, "two/file", true);
    assert_int_equal(unlink(path_of("two/file")), 0);
    note_removed(1, 1, "two/other", true);
    assert_int_equal(unlink(path_of("two/other")), 0);
    note_folder(1, 1, "two");
    assert_int_equal(rmdir(path_of("two")), 0);
    must_apply(1, 0);
    assert_file("one/file", "before");
    assert_file("one/other", "stays");
    assert_absent("two");
    struct stat st;
    assert_int_equal(stat(path_of("one"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0750);
}

static void test_links_and_exchanges(void **state)
{
    (void)state;
    char target[32] = "";
    write_file("one", "1");
    write_file("two", "2");
    assert_int_equal(symlink("one", path_of("link")), 0);
    note_link(1, 0, "link");
    assert_int_equal(unlink(path_of("link")), 0);
    note_renamed(1, 0, "one", "two", RENAME_EXCHANGE);
    assert_int_equal(renameat2(AT_FDCWD, path_of("one"), AT_FDCWD, path_of("two"), RENAME_EXCHANGE), 0);
    assert_file("one", "2");
    must_apply(1, 0);
    assert_file("one", "1");
    assert_file("two", "2");
    assert_int_equal(readlink(path_of("link"), target, sizeof target - 1), 3);
    assert_string_equal(target, "one");
}

/* Their files are those of others, whatever was announced. */
/* What is new is not kept when it is removed: the old one goes back alone, on whichever side it was. */
static void test_exchanges_with_a_new_file(void **state)
{
    (void)state;
    for (int is_first = 0; is_first < 2; is_first++) {
        write_file("old", "old");
        uint64_t announced = note_created(1, 0, "new");
        write_file("new", "new");
        note_made(1, 0, "new", announced);
        note_renamed(1, 0, is_first ? "new" : "old", is_first ? "old" : "new", RENAME_EXCHANGE);
        assert_int_equal(renameat2(AT_FDCWD, path_of("old"), AT_FDCWD, path_of("new"), RENAME_EXCHANGE), 0);
        assert_int_equal(unlink(path_of("old")), 0);
        must_apply(1, 0);
        assert_file("old", "old");
        assert_absent("new");
    }
}

static void test_calls_that_failed_change_nothing(void **state)
{
    (void)state;
    write_file("file", "mine");
    note_withdrawn(1, 0, note_created(1, 0, "other"));
    note_withdrawn(1, 0, note_removed(1, 0, "file", false));
    note_withdrawn(1, 0, note_renamed(1, 0, "file", "third", 0));
    assert_int_equal(unlink(path_of("file")), 0);
    write_file("other", "somebody's");
    must_apply(1, 0);
    assert_file("other", "somebody's");
    assert_absent("file");
}

/* A rank that was killed between the note and the call, or before it could tell what it had made. */
static void test_changes_whose_end_is_not_known(void **state)
{
    (void)state;
    write_file("old", "old");
    struct undo_entry later = {.kind = UNDO_CREATED, .extent = UINT64_C(4000000000) * 1000000000};
    log_part(1, 0, later, "old", NULL, SIZE_MAX); /* it is older than the call */
    write_file("file", "still here");
    note_removed(1, 0, "file", false);
    note_renamed(1, 1, "file", "elsewhere", 0);
    note_created(1, 2, "made");
    write_file("made", "just now");
    must_apply(1, 1);
    assert_file("old", "old");
    assert_file("file", "still here");
    assert_absent("made");
}

/* Written to by one rank, removed by another which had made it: nobody wants it back. */
static void test_files_that_are_new_since_the_line(void **state)
{
    (void)state;
    uint64_t created = note_created(1, 0, "new");
    write_file("new", "text");
    note_made(1, 0, "new", created);
    note_length(1, 1, "new");
    note_data(1, 1, "new", 0, 4);
    note_renamed(1, 1, "new", "newer", 0);
    assert_int_equal(rename(path_of("new"), path_of("newer")), 0);
    note_removed(1, 1, "newer", false);
    assert_int_equal(unlink(path_of("newer")), 0);
    must_apply(1, 0);
    assert_absent("new");
    assert_absent("newer");
}

/* It was open when it was removed, and written to then. */
static void test_a_file_that_was_written_after_its_removal(void **state)
{
    (void)state;
    write_file("file", "before");
    int fd = open(path_of("file"), O_WRONLY | O_CLOEXEC);
    note_removed(1, 0, "file", false);
    struct undo_entry entry = {.kind = UNDO_DATA, .id = id_of("file"), .data_bytes = 6};
    assert_int_equal(unlink(path_of("file")), 0);
    log_part(1, 0, entry, "file (deleted)", "before", SIZE_MAX);
    assert_int_equal(write(fd, "AFTER!", 6), 6);
    close(fd);
    must_apply(1, 0);
    assert_file("file", "before");
}

/* ---- what others have done meanwhile ---- */

/* Nobody has to be told that it is not there: its rank has it open, and puts it back. */
static void test_a_file_that_its_rank_holds(void **state)
{
    (void)state;
    write_file("file", "before");
    struct undo_entry entry = {
        .kind = UNDO_DATA, .mode = UNDO_ALSO_HELD, .id = id_of("file"), .data_bytes = 6};
    log_part(1, 0, entry, "file", "before", SIZE_MAX);
    assert_int_equal(unlink(path_of("file")), 0);
    must_apply(1, 0);
    assert_absent("file");
    assert_string_equal(told, "");
}

static void test_another_file_is_left_alone(void **state)
{
    (void)state;
    write_file("gone", "xxxx");
    write_file("other", "xxxx");
    write_file("fifo", "xxxx");
    note_length(1, 0, "gone");
    note_data(1, 0, "other", 0, 4);
    note_data(1, 0, "other", 0, 2); /* told once */
    note_length(1, 0, "fifo");
    unlink(path_of("gone"));
    write_file("third", "a new one");
    assert_int_equal(rename(path_of("third"), path_of("other")), 0);
    unlink(path_of("fifo"));
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    alarm(10);
    must_apply(1, 3);
    alarm(0);
    assert_file("other", "a new one");
    assert_non_null(strstr(told, "gone is left as it is: it has been removed\n"));
    assert_non_null(strstr(told, "other is left as it is: another file is in its place\n"));
}

static void test_a_rotated_log_is_found(void **state)
{
    (void)state;
    write_file("log", "line 1\n");
    note_length(1, 0, "log");
    write_file("log", "line 1\nline 2\n");
    assert_int_equal(rename(path_of("log"), path_of("log.1")), 0);
    write_file("log", "of the next one\n");
    must_apply(1, 0);
    assert_file("log.1", "line 1\n");
    assert_file("log", "of the next one\n");
}

static void test_a_folder_behind_a_link_is_not_entered(void **state)
{
    (void)state;
    struct belay_error err;
    uint64_t left;
    assert_int_equal(mkdir(path_of("folder"), 0700), 0);
    assert_int_equal(mkdir(path_of("private"), 0700), 0);
    write_file("folder/file", "xxxx");
    write_file("private/file", "private");
    note_length(1, 0, "folder/file");
    assert_int_equal(rename(path_of("folder"), path_of("moved")), 0);
    assert_int_equal(symlink("private", path_of("folder")), 0);
    assert_int_equal(apply(1, &left, &err), -1);
    assert_non_null(strstr(err.text, "symbolic link"));
    assert_file("private/file", "private");
    unlink(path_of("folder"));
    assert_int_equal(rename(path_of("private"), path_of("folder")), 0); /* a folder, but another one */
    assert_int_equal(apply(1, &left, &err), -1);
    assert_file("folder/file", "private");
    write_file("moved/file", "xxxxyyyy");
    assert_int_equal(rename(path_of("folder"), path_of("private")), 0);
    assert_int_equal(rename(path_of("moved"), path_of("folder")), 0);
    must_apply(1, 0);
    assert_file("folder/file", "xxxx");
}

static void test_the_place_of_a_removed_file_is_taken(void **state)
{
    (void)state;
    write_file("file", "mine");
    write_file("name", "mine");
    assert_int_equal(symlink("file", path_of("link")), 0);
    assert_int_equal(mkdir(path_of("folder"), 0700), 0);
    note_removed(1, 0, "file", true);
    note_link(1, 0, "link");
    note_renamed(1, 0, "name", "name2", 0);
    unlink(path_of("file"));
    unlink(path_of("link"));
    assert_int_equal(rename(path_of("name"), path_of("name2")), 0);
    write_file("file", "another's");
    write_file("link", "another's");
    write_file("name", "another's");
    must_apply(1, 3);
    assert_file("file", "another's");
    assert_file("link", "another's");
    assert_file("name", "another's");
    assert_file("name2", "mine");
}

static void test_a_made_folder_that_holds_more_stays(void **state)
{
    (void)state;
    uint64_t created = note_created(1, 0, "folder");
    assert_int_equal(mkdir(path_of("folder"), 0700), 0);
    note_made(1, 0, "folder", created);
    write_file("folder/child", "of a child process");
    must_apply(1, 1);
    assert_file("folder/child", "of a child process");
}

static void test_a_new_file_in_the_place_of_a_made_one_stays(void **state)
{
    (void)state;
    uint64_t created = note_created(1, 0, "file");
    write_file("file", "made");
    note_made(1, 0, "file", created);
    write_file("other", "another's");
    assert_int_equal(rename(path_of("other"), path_of("file")), 0);
    must_apply(1, 1);
    assert_file("file", "another's");
}

static void test_unprotected_files_are_left_whole(void **state)
{
    (void)state;
    write_file("file", "first");
    note_length(1, 0, "file");
    note_data(1, 1, "file", 0, 2);
    note_unprotected(1, 1, "file");
    write_file("file", "second and longer");
    must_apply(1, 1);
    assert_file("file", "second and longer");
    assert_non_null(strstr(told, "it was not protected"));
}

/* What was announced, and perhaps made; what was made; what others have made under a key later. */
static void test_objects_of_system_v(void **state)
{
    (void)state;
    const int key = 0x42000000 | (getpid() & 0xffff);
    const uint64_t now_ns = (uint64_t)time(NULL) * 1000000000u, later_ns = now_ns + 3600000000000u;
    int announced = shmget(key, 4096, 0600 | IPC_CREAT | IPC_EXCL);
    int older = semget(key, 1, 0600 | IPC_CREAT | IPC_EXCL);
    int made = msgget(IPC_PRIVATE, 0600);
    struct undo_entry entry = {.kind = UNDO_SYSV_KEY, .mode = SHARE_SEGMENT, .offset = (uint32_t)key};
    entry.extent = now_ns;
    log_part(1, 0, entry, "sysv", NULL, SIZE_MAX);
    entry.mode = SHARE_SEMS;
    entry.extent = later_ns;
    log_part(1, 0, entry, "sysv", NULL, SIZE_MAX);
    entry.mode = SHARE_MESSAGES; /* there is none */
    log_part(1, 0, entry, "sysv", NULL, SIZE_MAX);
    entry = (struct undo_entry){.kind = UNDO_SYSV_ID, .mode = SHARE_MESSAGES, .offset = (uint32_t)made};
    log_part(1, 1, entry, "sysv", NULL, SIZE_MAX);
    must_apply(1, 0);
    assert_int_equal(shmctl(announced, IPC_RMID, NULL), -1);
    assert_int_equal(msgctl(made, IPC_RMID, NULL), -1);
    assert_int_equal(semctl(older, 0, IPC_RMID), 0);
}

static void test_names_are_escaped(void **state)
{
    (void)state;
    write_file("a\nb\x1b[31m\xff", "xxxx");
    note_length(1, 0, "a\nb\x1b[31m\xff");
    unlink(path_of("a\nb\x1b[31m\xff"));
    must_apply(1, 1);
    assert_non_null(strstr(told, "a\\x0ab\\x1b[31m\\xff is left"));
}

static void test_many_files_are_counted(void **state)
{
    (void)state;
    for (int i = 0; i < 30; i++) {
        char name[16];
        snprintf(name, sizeof name, "file%d", i);
        write_file(name, "x");
        note_length(1, 0, name);
        unlink(path_of(name));
    }
    must_apply(1, 30);
    assert_non_null(strstr(told, "30 files in all"));
    int lines = 0;
    for (const char *at = told; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, 11);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, undo_log_setup, undo_log_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, undo_log_setup, undo_log_teardown)
        TEST(test_the_earliest_record_counts),
        TEST(test_lines_that_aborted_are_undone_as_well),
        TEST(test_an_archived_line_is_gone_back_to),
        TEST(test_holes),
        TEST(test_names),
        TEST(test_a_copy_comes_back_as_the_file_was),
        TEST(test_nothing_comes_back_with_rights_of_its_owner),
        TEST(test_a_fifo_of_another_file_system),
        TEST(test_attributes_are_what_they_were),
        TEST(test_a_file_that_its_owner_may_not_write),
        TEST(test_attributes_of_another_file_stay),
        TEST(test_exchanges_with_a_new_file),
        TEST(test_a_fifo_that_was_removed),
        TEST(test_folders_that_were_renamed_and_removed),
        TEST(test_links_and_exchanges),
        TEST(test_calls_that_failed_change_nothing),
        TEST(test_changes_whose_end_is_not_known),
        TEST(test_files_that_are_new_since_the_line),
        TEST(test_a_file_that_was_written_after_its_removal),
        TEST(test_a_file_that_its_rank_holds),
        TEST(test_another_file_is_left_alone),
        TEST(test_a_rotated_log_is_found),
        TEST(test_a_folder_behind_a_link_is_not_entered),
        TEST(test_the_place_of_a_removed_file_is_taken),
        TEST(test_a_made_folder_that_holds_more_stays),
        TEST(test_a_new_file_in_the_place_of_a_made_one_stays),
        TEST(test_unprotected_files_are_left_whole),
        TEST(test_objects_of_system_v),
        TEST(test_names_are_escaped),
        TEST(test_many_files_are_counted),
    };
    return cmocka_run_group_tests_name("undo", tests, NULL, NULL);
}
