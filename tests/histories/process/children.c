/*
 * children.c - forked children: what they get of their parent's memory and descriptors, a part of the history
 * that they do themselves, memory that both share, how they end.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/histories/memory/areas.h"
#include "tests/histories/process/child.h"
#include "tests/histories/core/choice.h"
#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/core/world.h"
#include "tests/programs/incarnation.h"

#define CHILD_KINDS "memory,heap,stack,code"
#define COMMON_BYTES (16 * PAGE)
#define STEPS_OF_CHILDREN 1000000

static struct child child;

static int tell(int report)
{
    dprintf(report, "%s %016llx", journal_has_wrong() ? "wrong" : "right",
            (unsigned long long)journal_digest());
    return 0;
}

static void told(void)
{
    say(" %s, status %x", child.text, (unsigned)child.status);
}

/* ---- looking ---- */

static int look(int report)
{
    return areas_are_right(true) ? dprintf(report, "right") - 5 : dprintf(report, "wrong");
}

static void act_look(void)
{
    child_fork(look, &child);
    told();
}

/* ---- a part of the history ---- */

static int do_some(int report)
{
    long first = STEPS_OF_CHILDREN + world.step * 100, count = 5 + world.step % 20;
    areas_be_childs();
    choice_only(CHILD_KINDS);
    for (long step = first; step < first + count; step++) {
        struct choice choice = choice_of(world.rank, step);
        if (!choice.kind)
            continue;
        journal_begin(step, choice.kind->name, choice.operation->name);
        choice.operation->act();
        journal_end();
    }
    journal_begin(first, "child", "end");
    areas_are_right(false);
    journal_end();
    return tell(report);
}

static void act_history(void)
{
    child_fork(do_some, &child);
    told();
}

/* ---- shared ---- */

static char *common;
static uint64_t number;

static int write_common(int report)
{
    (void)report;
    fill(common, COMMON_BYTES / 2, number);
    return 0;
}

/* The child writes, the parent reads. */
static void act_share(void)
{
    if (!common)
        common = mmap(NULL, COMMON_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    number = roll();
    child_fork(write_common, &child);
    say_bytes(common, COMMON_BYTES);
}

/* ---- ends ---- */

static int end_how;

static int end_somehow(int report)
{
    (void)report;
    if (end_how < 0)
        return -end_how;
    signal(end_how, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    raise(end_how);
    return 99;
}

static void act_end(void)
{
    end_how = (int)PICK_ONE(-1, -7, -255, SIGTERM, SIGKILL, SIGUSR1);
    say(" %d", end_how);
    child_fork(end_somehow, &child);
    told();
}

/* A child that is stopped and goes on; waitid sees both. Done again if a restart has taken it. */
static bool stop_and_go_on(void)
{
    siginfo_t info = {.si_pid = 0};
    long before = incarnation();
    pid_t pid = fork();
    if (pid == 0) {
        raise(SIGSTOP);
        _exit(3);
    }
    bool is_done = pid > 0 && waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT) == 0 &&
                   info.si_code == CLD_STOPPED && kill(pid, SIGCONT) == 0;
    is_done = is_done && waitid(P_PID, (id_t)pid, &info, WEXITED) == 0;
    if (!is_done && incarnation() == before)
        wrong("a stopped child: %s", error_name(errno));
    if (is_done)
        say(" code %d status %d", info.si_code, info.si_status);
    return is_done || incarnation() == before;
}

static void act_stop(void)
{
    while (!stop_and_go_on())
        ;
}

static int have_child(int report)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(dprintf(report, "grandchild "));
    waitpid(pid, &status, 0);
    return dprintf(report, "child") + WEXITSTATUS(status);
}

static void act_grandchild(void)
{
    child_fork(have_child, &child);
    told();
}

static void act_system(void)
{
    long before;
    int status;
    do {
        before = incarnation();
        status = system("exit 4");
    } while (status == -1 && incarnation() != before);
    say(" %x", (unsigned)status);
}

/* ---- ended, and not waited for yet ---- */

#define LEFT 4

static pid_t left[LEFT]; /* 0: none */
static int left_how[LEFT];

static void act_leave(void)
{
    siginfo_t info;
    int at = (int)pick(LEFT), how = (int)PICK_ONE(-3, -200, SIGTERM, SIGKILL);
    say(" %d: %d", at, how);
    if (left[at])
        return;
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGTERM, SIG_DFL);
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        if (how > 0)
            raise(how);
        _exit(-how);
    }
    int result;
    while ((result = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT)) < 0 && errno == EINTR)
        ;
    if (result < 0) { /* SIGCHLD is ignored */
        say(" %s", error_name(errno));
        return;
    }
    left[at] = pid;
    left_how[at] = how;
}

static void act_collect(void)
{
    siginfo_t info = {.si_pid = 0};
    int at = (int)pick(LEFT), way = (int)pick(3), status = -1;
    if (!left[at]) {
        say(" none");
        return;
    }
    if (way == 0)
        waitid(P_PID, (id_t)left[at], &info, WEXITED | WNOWAIT);
    pid_t got = way == 1 ? wait4(left[at], &status, WNOHANG, NULL) : waitpid(left[at], &status, 0);
    bool is_right =
        got == left[at] && (left_how[at] > 0 ? WIFSIGNALED(status) && WTERMSIG(status) == left_how[at]
                                             : WIFEXITED(status) && WEXITSTATUS(status) == -left_how[at]);
    if (!is_right || (way == 0 && info.si_pid != left[at]))
        wrong("a child that has ended: %x (%s)", (unsigned)status, error_name(errno));
    if (waitpid(left[at], NULL, WNOHANG) != -1 || errno != ECHILD)
        wrong("a child ends twice");
    say(" %x", (unsigned)status);
    left[at] = 0;
}

static const struct operation operations[] = {
    {"leave", 2, act_leave},   {"collect", 3, act_collect},
    {"look", 4, act_look},     {"history", 3, act_history},
    {"share", 2, act_share},   {"end", 2, act_end},
    {"stop", 1, act_stop},     {"grandchild", 1, act_grandchild},
    {"system", 1, act_system}, {NULL, 0, NULL},
};

const struct kind kind_children = {.name = "children", .operations = operations};
