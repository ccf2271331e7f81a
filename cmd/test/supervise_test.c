/*
 * The supervision loop: the real belay (installed.h), a fake agent with a script, and sh as the launcher.
 * Looked at: exit codes, what is said, and what the agent was asked.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/test/fake_agent.h"
#include "cmd/test/installed.h"

#define KILLS 4
#define GUARD_WAITS_MS 2500 /* and a little more */

/* ---- tests ---- */

static void test_finished(void **state)
{
    (void)state;
    assert_int_equal(run("finished", RUN("--", "sh", "-c", "echo out; exit 0")), 0);
    assert_string_equal(printed, "out\n");
    expect_silence();
    assert_string_equal(journal, "open j\nepoch 1 line 0\nended\nclose finished drop 0\n");
}

static void test_own_status_is_passed_on(void **state)
{
    (void)state;
    assert_int_equal(run("finished", RUN("sh", "-c", "exit 3")), 3);
    assert_string_equal(journal, "open j\nepoch 1 line 0\nended\nclose failed keep 3\n");
    assert_int_equal(run("finished", RUN("sh", "-c", "kill -9 $$")), 128 + SIGKILL);
}

/* mpirun's own crash is not what the program ended with. */
static void test_launcher_that_crashes_in_an_abort(void **state)
{
    (void)state;
    assert_int_equal(run("aborted", RUN("sh", "-c", "kill -11 $$")), 5);
    assert_int_equal(run("aborted", RUN("sh", "-c", "exit 6")), 6);
}

static void test_unprotected(void **state)
{
    (void)state;
    assert_int_equal(run("unprotected", RUN("sh", "-c", "exit 3")), 3);
    assert_string_equal(said,
                        "belay: nothing was protected: no MPI program turned up under the launcher (sh); a "
                        "program that loads MPI with dlopen must be named in BELAY_LATE_MPI\n");
    assert_string_equal(journal, "open j\nepoch 1 line 0\nended\nclose failed drop 3\n");
}

/* Its block about the loss looks like the end of the job; a script says what it likes. */
static void test_words_of_mpirun_are_explained(void **state)
{
    (void)state;
    write_text("mpirun", "#!/bin/sh\nexit 137\n");
    assert_int_equal(chmod(path_of("mpirun"), 0700), 0);
    assert_int_equal(run("lost\nlost\nlost\nlost", RUN("--max-restarts", "1", "./mpirun", "true")), 75);
    assert_string_equal(
        said, "belay: j: rank 2 (pid 4711) was killed by signal 9; restart 1 of 1 from the start; this "
              "answers mpirun's message above\n"
              "belay: j: rank 3 (pid 4711) was killed by signal 9; 1 restarts are used up\n");
}

/* A launcher that ends as mpirun does over a killed rank, but in this epoch. */
#define KILLED_BUT_IN(epoch) "echo $BELAY_EPOCH; test $BELAY_EPOCH = " epoch " || exit 137"

static void test_restarts(void **state)
{
    (void)state;
    assert_int_equal(run("lost lost-at-7 finished", RUN("sh", "-c", KILLED_BUT_IN("3"))), 0);
    assert_string_equal(printed, "1\n2\n3\n");
    assert_string_equal(said,
                        "belay: j: rank 2 (pid 4711) was killed by signal 9; restart 1 of 3 from the start\n"
                        "belay: j: rank 3 (pid 4711) was killed by signal 9; restart 2 of 3 from line 7\n");
    assert_string_equal(journal, "open j\nepoch 1 line 0\nended\n"
                                 "reason rank 2 (pid 4711) was killed by signal 9\nepoch 2 line 0\nended\n"
                                 "reason rank 3 (pid 4711) was killed by signal 9\nepoch 3 line 7\nended\n"
                                 "close finished drop 0\n");
}

/* A launcher may fail for a moment: two of Open MPI's that begin and end at once disturb each other. */
static void test_restart_that_fails_to_launch(void **state)
{
    (void)state;
    assert_int_equal(run("lost unprotected finished", RUN("sh", "-c", "test $BELAY_EPOCH != 2")), 0);
    expect_said("the launch ended before the program began; restart 2 of 3");
    assert_non_null(strstr(journal, "epoch 3 line 0\nended\nclose finished drop 0\n"));
}

static void test_exhausted(void **state)
{
    (void)state;
    assert_int_equal(run("lost-at-7 lost-at-7", RUN("--max-restarts", "1", "--", "sh", "-c", "exit 1")), 75);
    expect_said("1 restarts are used up");
    expect_said("'belay restart j'");
    assert_non_null(strstr(journal, "close lost keep 75"));
    assert_int_equal(run("lost", RUN("--max-restarts", "0", "--", "sh", "-c", "exit 1")), 75);
    assert_non_null(strstr(journal, "close lost drop 75"));
}

static void test_crash_loop(void **state)
{
    (void)state;
    assert_int_equal(run("rank-2-lost rank-2-lost", RUN("sh", "-c", "exit 137")), 79);
    expect_said("not restarted");
    assert_non_null(strstr(journal, "close lost keep 79"));
}

static void test_refused(void **state)
{
    (void)state;
    assert_int_equal(run("refused", RUN("true")), 77);
    assert_non_null(strstr(journal, "close failed keep 77"));
}

static void test_stop(void **state)
{
    (void)state;
    assert_int_equal(run("stop", RUN("sleep", "60")), 76);
    assert_string_equal(said, "belay: j: stopped\n");
    assert_string_equal(journal, "open j\nepoch 1 line 0\nended\nclose stopped drop 76\n");
}

static void test_signal(void **state)
{
    (void)state;
    int out, err;
    pid_t pid = start_run("lost-at-7", RUN("sh", "-c", "touch ready; exec sleep 60"), &out, &err);
    wait_ready();
    kill(pid, SIGTERM);
    assert_int_equal(finish_run(pid, out, err), 128 + SIGTERM);
    expect_silence();
    assert_string_equal(journal, "open j\nepoch 1 line 0\nended\nclose stopped drop 143\n");
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

static void test_second_signal_kills(void **state)
{
    (void)state;
    int out, err;
    pid_t pid = start_run("lost", RUN("sh", "-c", "trap '' INT; touch ready; exec sleep 60"), &out, &err);
    wait_ready();
    kill(pid, SIGINT);
    do { /* signals count as one if belay sees them within half a second, and a busy machine shows them late
          */
        poll(NULL, 0, 600);
        kill(pid, SIGINT);
    } while (!has_ended(pid));
    assert_int_equal(finish_run(pid, out, err), 128 + SIGINT);
    assert_non_null(strstr(journal, "ended"));
}

static void test_ignored_signals_stay_ignored(void **state)
{
    (void)state;
    int out, err;
    signal(SIGHUP, SIG_IGN);
    pid_t pid = start_run("finished", RUN("sh", "-c", "touch ready; kill -HUP $PPID; exit 5"), &out, &err);
    signal(SIGHUP, SIG_DFL);
    assert_int_equal(finish_run(pid, out, err), 5);
}

/* A script's shell has it ignored by what it starts with &, but mpirun takes it: without that the job would
 * come back. */
static void test_ignored_interrupt_ends(void **state)
{
    (void)state;
    int out, err;
    signal(SIGINT, SIG_IGN);
    pid_t pid = start_run("lost-at-7", RUN("sh", "-c", "touch ready; exec sleep 60"), &out, &err);
    signal(SIGINT, SIG_DFL);
    wait_ready();
    kill(pid, SIGINT);
    while (!has_ended(pid)) { /* sleep has inherited it, so the second one has to kill */
        poll(NULL, 0, 600);
        kill(pid, SIGINT);
    }
    assert_int_equal(finish_run(pid, out, err), 128 + SIGINT);
    expect_silence();
}

/* The reading end of a fifo, before the launcher has the other one. */
static int open_fifo(void)
{
    assert_true(mkfifo(path_of("fifo"), 0600) == 0 || errno == EEXIST);
    int fifo = open(path_of("fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fifo >= 0);
    return fifo;
}

/* What the launcher writes there, with a deadline. 0: it has ended. */
static ssize_t read_fifo(int fifo, char *to, size_t room)
{
    struct pollfd ready = {.fd = fifo, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, DEADLINE_S * 1000), 1);
    return read(fifo, to, room);
}

/* belay is killed under a launcher that first does this, and the launcher ends as well. */
static void expect_end_with_belay(const char *first)
{
    char script[128], byte;
    int out, err, fifo = open_fifo();
    snprintf(script, sizeof script, "%s exec > fifo; echo; exec sleep 60", first);
    pid_t pid = start_run("finished", RUN("sh", "-c", script), &out, &err);
    assert_int_equal(read_fifo(fifo, &byte, 1), 1);
    kill(pid, SIGKILL);
    assert_int_equal(finish_run(pid, out, err), -SIGKILL);
    assert_int_equal(read_fifo(fifo, &byte, 1), 0);
    close(fifo);
}

static void test_launch_ends_with_belay(void **state)
{
    (void)state;
    expect_end_with_belay("");
}

/* As a launcher: tell of each SIGTERM, until one has come and belay is gone for longer than the guard waits.
 */
static int fifo_of_terms = -1;
static volatile sig_atomic_t terms;

static void on_term(int number)
{
    (void)number;
    terms++;
    ssize_t ignored = write(fifo_of_terms, "t", 1);
    (void)ignored;
}

static int count_terms(const char *belay, const char *fifo)
{
    fifo_of_terms = open(fifo, O_WRONLY | O_CLOEXEC);
    signal(SIGTERM, on_term);
    ssize_t ignored = write(fifo_of_terms, "r", 1);
    (void)ignored;
    while (kill(atoi(belay), 0) == 0)
        poll(NULL, 0, 1);
    for (int left_ms = GUARD_WAITS_MS; terms == 0 || left_ms > 0; left_ms--)
        poll(NULL, 0, 1);
    return 0;
}

/* belay has threads, and each of them is a parent to the kernel (cmd/guard.h). */
static void test_launch_is_told_once(void **state)
{
    static const char *const scripts[] = {"finished",
                                          "vanish-later"}; /* belay itself asks when the agent vanishes */
    (void)state;
    for (int round = 0; round < KILLS; round++) {
        char told[16] = "";
        int out, err, fifo = open_fifo();
        size_t count = 0;
        bool is_asked = round % 2;
        pid_t pid = start_run(scripts[is_asked],
                              RUN("sh", "-c", "exec lib/belay/belayd --count-terms $PPID fifo"), &out, &err);
        assert_int_equal(read_fifo(fifo, told, 1), 1);
        if (is_asked) {
            write_text("run/vanish", "");
            assert_int_equal(read_fifo(fifo, told, 1), 1);
            unlink(path_of("run/vanish"));
        }
        count = is_asked;
        kill(pid, SIGKILL);
        assert_int_equal(finish_run(pid, out, err), -SIGKILL);
        for (ssize_t got = 1; got > 0; count += (size_t)got)
            got = read_fifo(fifo, told + count, sizeof told - 1 - count);
        assert_string_equal(told, "t");
        close(fifo);
    }
}

static void test_launch_that_resists_ends_with_belay(void **state)
{
    (void)state;
    expect_end_with_belay("trap '' TERM;");
}

/* A launcher that ends only after the job was opened anew. */
#define ENDS_THE_SECOND_TIME "grep -q restart run/journal || exec sleep 60"

static void test_agent_vanishes(void **state)
{
    (void)state;
    assert_int_equal(run("vanish finished", RUN("sh", "-c", ENDS_THE_SECOND_TIME)), 0);
    expect_said("the agent has gone");
    expect_said("restart 1 of 3 from the newest line");
    assert_string_equal(
        journal, "open j\nepoch 1 line 0\nopen j restart\nepoch 2 line 7\nended\nclose finished drop 0\n");
}

static void test_agent_vanishes_without_a_line(void **state)
{
    (void)state;
    write_text("run/no-line", "");
    assert_int_equal(run("vanish finished", RUN("sh", "-c", ENDS_THE_SECOND_TIME)), 0);
    unlink(path_of("run/no-line"));
    expect_said("restart 1 of 3 from the start");
    assert_string_equal(
        journal,
        "open j\nepoch 1 line 0\nopen j restart\nopen j\nepoch 2 line 0\nended\nclose finished drop 0\n");
}

static void test_agent_vanishes_too_often(void **state)
{
    (void)state;
    assert_int_equal(run("vanish", RUN("--max-restarts", "0", "--", "sleep", "60")), 75);
    expect_said("0 restarts are used up");
}

static void test_launcher_that_cannot_run(void **state)
{
    (void)state;
    assert_int_equal(run("lost", RUN("no-such-launcher")), 127);
    assert_string_equal(said, "belay: cannot run no-such-launcher: No such file or directory\n");
    assert_string_equal(journal, "open j\nepoch 1 line 0\nclose failed drop 127\n");
    assert_int_equal(run("lost", RUN("./run/script")), 126);
}

static void test_restart_keeps_images_of_a_bad_launch(void **state)
{
    (void)state;
    char *argv[] = {"belay", "restart", "j", "--", "no-such-launcher", NULL};
    assert_int_equal(run("lost", argv), 127);
    assert_string_equal(journal, "open j restart\nepoch 2 line 7\nclose failed keep 127\n");
    write_text("run/no-line", "");
    assert_int_equal(run("lost", argv), 66);
    unlink(path_of("run/no-line"));
    assert_string_equal(said, "belay: there is no committed line\n");
}

static void test_detached(void **state)
{
    (void)state;
    assert_int_equal(
        run("finished", RUN("--detach", "--", "sh", "-c", "echo out; echo err >&2; cat; touch ready")), 0);
    assert_string_equal(printed, "j\n");
    wait_ready();
    int out = open(path_of("j.out"), O_RDONLY), err = open(path_of("j.err"), O_RDONLY);
    read_text(out, printed);
    read_text(err, said);
    close(out);
    close(err);
    assert_string_equal(printed, "out\n");
    assert_string_equal(said, "err\n");
    for (int i = 0; !strstr(journal, "close");
         i++) { /* the background process outlives the launch a little */
        assert_true(i < DEADLINE_S * 100);
        poll(NULL, 0, 10);
        int fd = open(path_of("run/journal"), O_RDONLY);
        read_text(fd, journal);
        close(fd);
    }
}

static void test_detached_failure_is_told(void **state)
{
    (void)state;
    assert_int_equal(run("finished", RUN("--detach", "--", "no-such-launcher")), 127);
    assert_string_equal(printed, "");
    expect_said("cannot run no-such-launcher");
}

/* What it says would be launched, mapped, waited for, or be the name of a file. */
static void test_answers_that_make_no_sense(void **state)
{
    (void)state;
    static const char *const lies[] = {"open-streams", "no-eventfd",      "no-eventfd-at-all",
                                       "other-name",   "relative-folder", "empty-word"};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        write_text("run/lie", lies[i]);
        assert_int_equal(run("finished", RUN("sh", "-c", "touch launched")), 70);
        expect_said("another version of Belay?");
        assert_null(strstr(journal, "ended"));
    }
    write_text("run/lie", "bad-name");
    char *unnamed[] = {"belay", "run", "--detach", "sh", "-c", "touch launched", NULL};
    assert_int_equal(run("finished", unnamed), 70);
    expect_said("another version of Belay?");
    unlink(path_of("run/lie"));
    assert_int_equal(access(path_of("launched"), F_OK), -1);
}

/* Nothing is launched in an epoch that the node has not entered as it was told. */
static void test_members_that_make_no_sense(void **state)
{
    (void)state;
    static const char *const lies[] = {"no-incarnation", "other-epoch"};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        write_text("run/lie", lies[i]);
        assert_int_equal(run("finished", RUN("sh", "-c", "touch launched")), 70);
        expect_said("another version of Belay?");
    }
    assert_int_equal(access(path_of("launched"), F_OK), -1);
    write_text("run/lie", "unknown-end"); /* whose job is lost with it */
    assert_int_equal(run("finished finished", RUN("--max-restarts", "0", "--", "true")), 75);
    expect_said("another version of Belay?");
    unlink(path_of("run/lie"));
}

/* ---- the arbiter's record ---- */

#define RECORD "run/jobs/j.epochs"
static char *const restart_j[] = {"belay", "restart", "j", "--", "sh", "-c", "exit 137", NULL};

static void forget_record(void)
{
    unlink(path_of(RECORD));
    rmdir(path_of("run/jobs"));
}

static void test_record_is_there_before_the_launch(void **state)
{
    (void)state;
    assert_int_equal(run("finished", RUN("sh", "-c", "test -s " RECORD)), 0);
    assert_int_equal(access(path_of(RECORD), F_OK), -1); /* it goes with the job */
}

/* One is lost: the other is taken up, and the newer one of both. */
static void test_restart_takes_up_the_newest_record(void **state)
{
    (void)state;
    for (int epoch = 2; epoch < 5; epoch++) { /* the fake agent knows the first */
        char expected[32];
        snprintf(expected, sizeof expected, "epoch %d line 7\n", epoch);
        assert_int_equal(
            run("lost-at-7", (char *[]){"belay", "restart", "--max-restarts", "0", "j", "--", "true", NULL}),
            75);
        assert_non_null(strstr(journal, expected));
    }
    forget_record();
    assert_int_equal(run("finished", (char *[]){"belay", "restart", "j", "--", "true", NULL}), 0);
    assert_non_null(strstr(journal, "epoch 2 line 7\n"));
    expect_said("restart from line 7");
}

static void test_damaged_record_is_as_good_as_none(void **state)
{
    (void)state;
    forget_record();
    assert_int_equal(mkdir(path_of("run/jobs"), 0700), 0);
    write_text(RECORD, "damaged");
    assert_int_equal(run("finished", (char *[]){"belay", "restart", "j", "--", "true", NULL}), 0);
    expect_said("the record of its epochs below");
    expect_said("it is damaged");
    assert_non_null(strstr(journal, "epoch 2 line 7\n"));
}

/* What was committed is known to nobody: the images must not be gone on from, nor the job begun anew. */
static void test_restart_without_a_record_is_refused(void **state)
{
    (void)state;
    write_text("run/lie", "no-record");
    assert_int_equal(run("lost", restart_j), 66);
    expect_said("the record of its epochs is lost");
    write_text("run/lie", "other-memory");
    assert_int_equal(run("lost", restart_j), 66);
    expect_said("the agent has lost its records");
    assert_non_null(strstr(journal, "close failed keep 66"));
    unlink(path_of("run/lie"));
    forget_record();
}

static void test_epochs_go_on_from_what_the_node_has_promised(void **state)
{
    (void)state;
    write_text("run/lie", "promised-9");
    assert_int_equal(run("finished", RUN("true")), 0);
    assert_non_null(strstr(journal, "epoch 10 line 0\n"));
    unlink(path_of("run/lie"));
}

/* The node's keeper has the record as well: one line for the user, and the job runs. */
static void test_disk_that_takes_no_record(void **state)
{
    (void)state;
    forget_record();
    write_text("run/jobs", "in the way");
    assert_int_equal(run("lost lost-at-7 finished", RUN("sh", "-c", KILLED_BUT_IN("3"))), 0);
    unlink(path_of("run/jobs"));
    const char *first = strstr(said, "the record of its epochs is in memory only");
    assert_non_null(first);
    assert_null(strstr(first + 1, "the record of its epochs"));
    assert_non_null(strstr(journal, "epoch 3 line 7\n"));
}

static void test_ranks_that_came_up_are_recorded_and_told(void **state)
{
    (void)state;
    write_text("run/ranks-come-up", "");
    assert_int_equal(run("finished", RUN("sh", "-c", "until test -e run/placed; do sleep 0.01; done")), 0);
    assert_non_null(strstr(journal, "epoch 1 line 0\nplaced 1 ranks 2\nended\n"));
    unlink(path_of("run/placed"));
    write_text("run/lie", "rank-twice");
    assert_int_equal(
        run("finished", RUN("sh", "-c", "until grep -q 'no line can be' stderr; do sleep 0.01; done")), 0);
    expect_said("no line can be taken of this launch");
    assert_null(strstr(journal, "placed"));
    unlink(path_of("run/lie"));
    unlink(path_of("run/ranks-come-up"));
}

/* The ranks may write anything there: their output is lost, and nothing else is. */
static void test_damaged_streams(void **state)
{
    (void)state;
    static char *const launchers[] = {"./mpirun", "sh"}; /* whose output is forwarded, and whose is not */
    write_text("mpirun", "#!/bin/sh\necho launched\n");
    assert_int_equal(chmod(path_of("mpirun"), 0700), 0);
    write_text("run/lie", "damaged-streams");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run("finished", RUN(launchers[i], "-c", "echo launched")), 0);
        assert_string_equal(printed, "launched\n");
        assert_string_equal(
            said, "belay: rank 0 reports an impossible position in its output: some of its output is lost\n");
    }
    unlink(path_of("run/lie"));
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--rundir"))
        return fake_agent_start(argv[2]);
    if (argc == 4 && !strcmp(argv[1], "--count-terms"))
        return count_terms(argv[2], argv[3]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finished),
        cmocka_unit_test(test_own_status_is_passed_on),
        cmocka_unit_test(test_launcher_that_crashes_in_an_abort),
        cmocka_unit_test(test_unprotected),
        cmocka_unit_test(test_words_of_mpirun_are_explained),
        cmocka_unit_test(test_restarts),
        cmocka_unit_test(test_restart_that_fails_to_launch),
        cmocka_unit_test(test_exhausted),
        cmocka_unit_test(test_crash_loop),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_signal),
        cmocka_unit_test(test_second_signal_kills),
        cmocka_unit_test(test_ignored_signals_stay_ignored),
        cmocka_unit_test(test_ignored_interrupt_ends),
        cmocka_unit_test(test_launch_ends_with_belay),
        cmocka_unit_test(test_launch_is_told_once),
        cmocka_unit_test(test_launch_that_resists_ends_with_belay),
        cmocka_unit_test(test_agent_vanishes),
        cmocka_unit_test(test_agent_vanishes_without_a_line),
        cmocka_unit_test(test_agent_vanishes_too_often),
        cmocka_unit_test(test_launcher_that_cannot_run),
        cmocka_unit_test(test_restart_keeps_images_of_a_bad_launch),
        cmocka_unit_test(test_detached),
        cmocka_unit_test(test_detached_failure_is_told),
        cmocka_unit_test(test_answers_that_make_no_sense),
        cmocka_unit_test(test_damaged_streams),
        cmocka_unit_test(test_members_that_make_no_sense),
        cmocka_unit_test(test_record_is_there_before_the_launch),
        cmocka_unit_test(test_restart_takes_up_the_newest_record),
        cmocka_unit_test(test_damaged_record_is_as_good_as_none),
        cmocka_unit_test(test_restart_without_a_record_is_refused),
        cmocka_unit_test(test_epochs_go_on_from_what_the_node_has_promised),
        cmocka_unit_test(test_disk_that_takes_no_record),
        cmocka_unit_test(test_ranks_that_came_up_are_recorded_and_told),
    };
    return cmocka_run_group_tests_name("supervise", tests, set_up, tear_down);
}
