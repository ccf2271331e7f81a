/* undo_fail_test - what goes wrong when files are put back: logs and folders of others, failures, kills. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/mounts.h"
#include "node-agent/test/undo_log.h"

/* ---- logs that are not to be believed ---- */

static void test_an_entry_cut_short_is_none(void **state)
{
    (void)state;
    write_file("file", "right");
    struct undo_entry entry = {.kind = UNDO_DATA, .id = id_of("file"), .data_bytes = 5};
    log_part(1, 0, entry, "file", "wrong", sizeof entry + strlen(path_of("file")) + 3);
    must_apply(1, 0);
    assert_file("file", "right");
}

static void refuse_log(const char *words)
{
    struct belay_error err;
    uint64_t left;
    assert_int_equal(apply(1, &left, &err), -1);
    if (!strstr(err.text, words))
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
    assert_file("file", "right");
}

static void test_damaged_logs(void **state)
{
    static const struct undo_entry damages[] = {{.magic = 77},
                                                {.kind = 99},
                                                {.data_bytes = UINT64_MAX - 10},
                                                {.offset = UINT64_MAX},
                                                {.extent = UINT64_MAX}};
    char name[UNDO_FOLDER_BYTES + 64];
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        undo_log_setup(state);
        write_file("file", "right");
        struct undo_entry entry = damages[i];
        entry.kind = entry.kind ? entry.kind : UNDO_DATA;
        entry.id = id_of("file");
        entry.data_bytes = 0;
        uint64_t time = log_part(1, 0, entry, "file", "", SIZE_MAX);
        snprintf(name, sizeof name, "%s/1/0.log", folder.path);
        int fd = open(name, O_WRONLY | O_CLOEXEC);
        off_t at = (off_t)(sizeof(struct undo_head) + offsetof(struct undo_entry, data_bytes));
        assert_int_equal(pwrite(fd, &damages[i].data_bytes, 8, at), 8);
        close(fd);
        assert_true(time > 0);
        refuse_log("damaged");
        undo_log_teardown(state);
    }
}

static void test_heads_of_others(void **state)
{
    (void)state;
    char name[UNDO_FOLDER_BYTES + 64];
    write_file("file", "right");
    note_data(1, 0, "file", 0, 5);
    snprintf(name, sizeof name, "%s/1/0.log", folder.path);
    int fd = open(name, O_WRONLY | O_CLOEXEC);
    uint32_t version = UNDO_VERSION - 1;
    assert_int_equal(pwrite(fd, &version, 4, offsetof(struct undo_head, version)), 4);
    write_file("file", "right");
    refuse_log("another version");
    version = UNDO_VERSION;
    assert_int_equal(pwrite(fd, &version, 4, offsetof(struct undo_head, version)), 4);
    assert_int_equal(fchmod(fd, 0620), 0);
    refuse_log("not ours");
    if (geteuid() == 0) {
        assert_int_equal(fchmod(fd, 0600), 0);
        assert_int_equal(fchown(fd, 65534, 65534), 0);
        refuse_log("not ours");
    }
    close(fd);
    unlink(name);
    assert_int_equal(mkfifo(name, 0600), 0);
    alarm(10);
    refuse_log("not ours");
    alarm(0);
}

/* What was set aside is what it was said to be: a private file is not made public in the place of another. */
static void test_kept_files_that_are_others(void **state)
{
    (void)state;
    struct belay_error err;
    uint64_t left;
    char kept[UNDO_FOLDER_BYTES + 64];
    write_file("file", "right");
    write_file("private", "secret");
    assert_int_equal(chmod(path_of("private"), 0600), 0);
    assert_int_equal(chmod(path_of("file"), 0644), 0);
    note_removed(1, 0, "file", false);
    unlink(path_of("file"));
    snprintf(kept, sizeof kept, "%s/1/0-0.kept", folder.path);
    assert_int_equal(rename(kept, path_of("away")), 0);
    assert_int_equal(link(path_of("private"), kept), 0);
    assert_int_equal(apply(1, &left, &err), -1);
    assert_non_null(strstr(err.text, "is not ours"));
    assert_absent("file");
    unlink(kept);
    must_apply(1, 1);
    assert_non_null(strstr(told, "what was kept of it is gone"));
}

static void test_another_undo_folder(void **state)
{
    (void)state;
    char moved[UNDO_FOLDER_BYTES + 16], name[UNDO_FOLDER_BYTES + 64];
    write_file("file", "right");
    note_data(1, 0, "file", 0, 5);
    snprintf(moved, sizeof moved, "%s.moved", folder.path);
    assert_int_equal(rename(folder.path, moved), 0);
    assert_int_equal(mkdir(folder.path, 0700), 0);
    refuse_log("not the one");
    assert_int_equal(rmdir(folder.path), 0);
    assert_int_equal(symlink(moved, folder.path), 0);
    refuse_log("undo directory");
    undo_remove(&folder); /* nor is that removed */
    snprintf(name, sizeof name, "%s/1", moved);
    assert_int_equal(access(name, F_OK), 0);
    unlink(folder.path);
    assert_int_equal(rename(moved, folder.path), 0);
}

/* ---- where folders may be ---- */

static void test_bases(void **state)
{
    (void)state;
    struct undo_folder job;
    struct belay_error err;
    const char *base = path_of("files");
    assert_int_equal(chmod(base, 0777), 0);
    assert_int_equal(undo_folder_of(path_of("run"), base, "job", &job, NULL), 0);
    assert_int_equal(undo_create(&job, &err), -1);
    assert_non_null(strstr(err.text, "chmod +t"));
    assert_int_equal(chmod(base, 01777), 0);
    assert_int_equal(undo_create(&job, &err), 0);
    struct undo_folder again = job;
    assert_int_equal(undo_create(&again, &err), -1);
    assert_non_null(strstr(err.text, "is there already"));
    undo_remove(&job);
    assert_int_equal(symlink("/tmp", job.path), 0); /* somebody was quicker */
    assert_int_equal(undo_create(&job, &err), -1);
    assert_non_null(strstr(err.text, "is there already"));
    assert_int_equal(undo_folder_of(path_of("run"), "relative", "job", &job, &err), -1);
    assert_int_equal(undo_folder_of(path_of("run"), "/sys/kernel", "job", &job, NULL), 0);
    assert_int_equal(undo_create(&job, &err), -1);
    assert_int_not_equal(err.code, ENOENT); /* what mkdir says: EPERM, EACCES or EROFS */
}

/* Another host asks for a folder that it has made. */
static void test_a_folder_of_all_hosts(void **state)
{
    (void)state;
    struct belay_error err;
    struct mounts mounts;
    struct file_id id;
    char link[UNDO_FOLDER_BYTES + 16];
    mounts_read(&mounts);
    const struct undo_common here = {.kernel = mounts.kernel}, another = {.kernel = mounts.kernel + 1},
                             network = {.is_on_network = true};
    assert_int_equal(file_id_at(AT_FDCWD, folder.path, &id), 0);
    assert_int_equal(undo_sees_common(folder.path, &id, &here, &err), 0);
    assert_int_equal(undo_sees_common(folder.path, &id, &another, &err), -1); /* on a disk of its own */
    assert_int_equal(err.code, EXDEV);
    assert_int_equal(undo_sees_common(folder.path, &id, &network, &err), -1); /* here it is none */
    assert_int_equal(undo_sees_common("", &id, &here, &err), -1);
    assert_int_equal(undo_sees_common(path_of("none"), &id, &here, &err), -1);
    struct file_id other = id;
    other.device++;
    assert_int_equal(undo_sees_common(folder.path, &other, &here, &err), -1);
    other = id;
    other.inode++;
    assert_int_equal(undo_sees_common(folder.path, &other, &here, &err), -1);
    snprintf(link, sizeof link, "%s.link", folder.path);
    assert_int_equal(symlink(folder.path, link), 0);
    assert_int_equal(undo_sees_common(link, &id, &here, &err), -1);
    unlink(link);
    assert_int_equal(chmod(folder.path, 0750), 0);
    assert_int_equal(undo_sees_common(folder.path, &id, &here, &err), -1);
    assert_int_equal(chmod(folder.path, 0700), 0);
}

/* ---- failures ---- */

/* What can be told from outside: nothing is forgotten, and the next try ends it. */
static void test_a_failure_is_taken_up_again(void **state)
{
    (void)state;
    struct belay_error err;
    uint64_t left;
    assert_int_equal(mkdir(path_of("folder"), 0700), 0);
    write_file("folder/file", "before");
    write_file("last", "before");
    note_length(1, 0, "last");
    write_file("last", "before and after");
    note_data(1, 0, "folder/file", 0, 6);
    write_file("folder/file", "after!");
    note_removed(1, 0, "folder/file", true);
    unlink(path_of("folder/file"));
    uint64_t created = note_created(1, 0, "first");
    write_file("first", "x");
    note_made(1, 0, "first", created);
    assert_int_equal(rename(path_of("folder"), path_of("moved")), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(apply(1, &left, &err), -1);
        assert_non_null(strstr(err.text, "folder/file could not be put back"));
        assert_true(undo_has_begun(&folder));
        assert_absent("first");
        assert_file("last", "before and after"); /* its turn has not come */
    }
    struct undo_folder next = folder; /* a new job of that name must not wipe it out */
    assert_int_equal(undo_create(&next, &err), -1);
    assert_int_equal(err.code, EBUSY);
    assert_int_equal(rename(path_of("moved"), path_of("folder")), 0);
    must_apply(1, 0);
    assert_file("folder/file", "before");
    assert_file("last", "before");
    assert_false(undo_has_begun(&folder));
}

static void test_the_user_may_go_on_without(void **state)
{
    (void)state;
    struct belay_error err;
    uint64_t left;
    assert_int_equal(mkdir(path_of("folder"), 0700), 0);
    write_file("folder/file", "x");
    write_file("file", "before");
    note_length(1, 0, "file");
    write_file("file", "before and after");
    note_length(1, 0, "folder/file");
    assert_int_equal(rename(path_of("folder"), path_of("moved")), 0);
    assert_int_equal(apply(1, &left, &err), -1);
    leaves_failed = true;
    must_apply(1, 1);
    assert_non_null(strstr(told, "folder/file is left as it is"));
    assert_file("file", "before");
    assert_false(undo_has_begun(&folder));
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* As on a full disk: in the middle of a copy, and of data. */
static void test_no_room(void **state)
{
    (void)state;
    struct belay_error err;
    uint64_t left;
    signal(SIGXFSZ, SIG_IGN);
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int is_copied = 0; is_copied < 2; is_copied++) {
        write_file("file", text);
        note_length(1, 0, "file");
        note_data(1, 0, "file", 1000, 1500);
        if (is_copied) {
            note_removed(1, 0, "file", true);
            unlink(path_of("file"));
        } else {
            assert_int_equal(truncate(path_of("file"), 100), 0);
        }
        limit_files(2000);
        assert_int_equal(apply(1, &left, &err), -1);
        limit_files(RLIM_INFINITY);
        assert_int_equal(err.code, EFBIG);
        if (is_copied)
            assert_absent("file");
        must_apply(1, 0);
        struct stat st;
        assert_int_equal(stat(path_of("file"), &st), 0);
        assert_int_equal(st.st_size, sizeof text - 1);
    }
}

/* ---- kills ---- */

static const char *const points[] = {"begin", "step", "stepped", "replace", "end", "forget", "forgotten"};

/* A bit of everything, by several ranks. */
static void make_changes(void)
{
    write_file("data", "0123456789");
    write_file("old", "old");
    write_file("gone", "gone");
    assert_int_equal(mkdir(path_of("dir"), 0700), 0);
    assert_int_equal(mkdir(path_of("empty"), 0700), 0);
    write_file("dir/in", "inside");
    assert_int_equal(symlink("data", path_of("link")), 0);
    note_length(2, 0, "data");
    note_data(2, 0, "data", 0, 10);
    write_file("data", "abcdefghijklmnopq");
    note_renamed(2, 1, "dir", "dir2", 0);
    assert_int_equal(rename(path_of("dir"), path_of("dir2")), 0);
    note_data(2, 0, "dir2/in", 0, 6);
    write_file("dir2/in", "INSIDE");
    note_removed(2, 0, "dir2/in", true);
    unlink(path_of("dir2/in"));
    uint64_t created = note_created(3, 1, "dir2/in");
    write_file("dir2/in", "another one");
    note_made(3, 1, "dir2/in", created);
    note_removed(2, 0, "gone", false);
    unlink(path_of("gone"));
    note_link(3, 1, "link");
    unlink(path_of("link"));
    note_folder(3, 1, "empty");
    assert_int_equal(rmdir(path_of("empty")), 0);
    created = note_created(3, 1, "new");
    write_file("new", "new");
    note_made(3, 1, "new", created);
    note_removed(3, 1, "old", true);
    note_renamed(3, 1, "new", "old", 0);
    assert_int_equal(rename(path_of("new"), path_of("old")), 0);
}

static void assert_undone(void)
{
    char target[16] = "";
    assert_file("data", "0123456789");
    assert_file("old", "old");
    assert_file("gone", "gone");
    assert_file("dir/in", "inside");
    assert_absent("new");
    assert_absent("dir2");
    assert_int_equal(access(path_of("empty"), F_OK), 0);
    assert_int_equal(readlink(path_of("link"), target, sizeof target - 1), 4);
    assert_false(undo_has_begun(&folder));
}

/* Returns whether the child was killed at the point. */
static bool apply_until(const char *point, int number)
{
    uint64_t left;
    char fault[64];
    pid_t child = fork();
    if (child == 0) {
        snprintf(fault, sizeof fault, number ? "agent.undo.%s#%d=kill" : "agent.undo.%s=kill", point, number);
        setenv("BELAY_FAULT", fault, 1);
        _exit(apply(2, &left, NULL) == 0 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status))
        assert_int_equal(WEXITSTATUS(status), 0);
    return WIFSIGNALED(status);
}

static void test_kills_at_every_step(void **state)
{
    int kills = 0;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        bool is_of_steps = i >= 1 && i <= 3;
        for (int number = is_of_steps; number < (is_of_steps ? 20 : 1); number++) {
            undo_log_setup(state);
            make_changes();
            kills += apply_until(points[i], number);
            must_apply(2, 0);
            assert_undone();
            must_apply(2, 0);
            assert_undone();
            undo_log_teardown(state);
        }
    }
    assert_true(kills >= 4 + 2 * 12 + 3);
}

/* Not once, but at each step and again. */
static void test_an_agent_that_is_killed_all_the_time(void **state)
{
    (void)state;
    make_changes();
    for (int number = 1; number < 20; number++) {
        apply_until("step", number);
        apply_until("replace", number);
        apply_until("stepped", number);
    }
    apply_until("end", 0);
    apply_until("forget", 0);
    must_apply(2, 0);
    assert_undone();
}

static void test_steps_that_fail_once(void **state)
{
    (void)state;
    struct belay_error err;
    uint64_t left;
    make_changes();
    for (int number = 1; number < 13; number++) {
        char fault[64];
        snprintf(fault, sizeof fault, "agent.undo.step#%d=error", number);
        setenv("BELAY_FAULT", fault, 1);
        assert_int_equal(apply(2, &left, &err), -1);
        assert_int_equal(err.code, EIO);
        unsetenv("BELAY_FAULT");
    }
    must_apply(2, 0);
    assert_undone();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, undo_log_setup, undo_log_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_an_entry_cut_short_is_none),
        cmocka_unit_test(test_damaged_logs),
        TEST(test_heads_of_others),
        TEST(test_kept_files_that_are_others),
        TEST(test_another_undo_folder),
        TEST(test_a_folder_of_all_hosts),
        TEST(test_bases),
        TEST(test_a_failure_is_taken_up_again),
        TEST(test_the_user_may_go_on_without),
        TEST(test_no_room),
        cmocka_unit_test(test_kills_at_every_step),
        TEST(test_an_agent_that_is_killed_all_the_time),
        TEST(test_steps_that_fail_once),
    };
    return cmocka_run_group_tests_name("undo_fail", tests, NULL, NULL);
}
