/*
 * children - processes of a rank that are there at a line, or end before the program waits for them.
 *
 * In every step: a command by system(), whose result counts; a forked child that works for a moment; and a
 * child that has ended in the step before, which is waited for now, in one of many ways. A restart must not
 * change what any of them tells.
 *
 * --mode feeding: also commands over several lines, whose output is read through a pipe (popen, and a pair of
 * sockets) and counts, as does their status. --value 1: a child of a child writes it, which waits for that,
 * or has ended.
 *
 * --mode long: also another program that runs for ever. After a restart it has been killed: a handler of
 * SIGCHLD hears of it, and waiting tells so, once. Then there is a new one.
 *
 * --mode handing: only that one, and in the second half of the steps a pipe whose writing end is on its way
 * (SCM_RIGHTS). Not for restarts: what is on its way does not come back.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/incarnation.h"
#include "tests/programs/program.h"

static struct program program = {.steps = 60};
static long step, began; /* the process that has started the one that runs for ever */
static volatile sig_atomic_t heard_of;

#define CHECK(fact)                                                                                          \
    do {                                                                                                     \
        if (!(fact))                                                                                         \
            fail(&program, "step %ld: %s (%s)", step, #fact, strerror(errno));                               \
    } while (0)

static void command(void)
{
    char text[64];
    int code = (int)((step + program.rank) % 100);
    snprintf(text, sizeof text, "sleep 0.01; exit %d", code);
    int status = system(text);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code);
    digest_add_number(&program.digest, (uint64_t)status);
}

static void worker(void)
{
    int ends[2], status;
    uint64_t answer = 0, asked = mix_number((uint64_t)step, (uint64_t)program.rank, program.seed);
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        usleep(5000);
        answer = mix_number(asked, 1, 2);
        _exit(write(ends[1], &answer, sizeof answer) != sizeof answer);
    }
    close(ends[1]);
    CHECK(child > 0 && read(ends[0], &answer, sizeof answer) == sizeof answer);
    close(ends[0]);
    bool is_alone = (step - 1) % 5 == 4 || step == 1; /* in the group: the one that has ended is in another */
    CHECK(waitpid(is_alone && !*program.mode ? -getpgrp() : child, &status, 0) == child &&
          WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(answer == mix_number(asked, 1, 2));
    digest_add_number(&program.digest, answer);
}

/* ---- one that has ended ---- */

/* By exit or by a signal, in the group of the rank or in its own. */
static pid_t end_one(long number)
{
    siginfo_t info;
    pid_t child = fork();
    if (child == 0) {
        if (number % 5 == 4)
            setpgid(0, 0);
        if (number % 3 == 2)
            raise(SIGKILL);
        _exit((int)(number % 100));
    }
    CHECK(child > 0 && waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0);
    return child;
}

static int status_of(const siginfo_t *info)
{
    return info->si_code == CLD_EXITED ? W_EXITCODE(info->si_status, 0) : W_EXITCODE(0, info->si_status);
}

/* Wait for it, in a way that depends on the number. */
static int wait_for_one(pid_t child, long number)
{
    struct rusage usage;
    siginfo_t info = {.si_pid = 0};
    int status = -1;
    if (number % 5 == 4) {
        if (number % 2)
            CHECK(waitpid(-child, &status, 0) == child);
        else
            CHECK(waitid(P_PGID, (id_t)child, &info, WEXITED) == 0 && info.si_pid == child);
    } else if (number % 5 == 3) {
        CHECK(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid == child);
        info.si_pid = 0;
        CHECK(waitid(P_PID, (id_t)child, &info, WEXITED) == 0 && info.si_pid == child);
    } else if (number % 5 == 2) {
        CHECK(wait4(child, &status, WNOHANG, &usage) == child);
    } else if (number % 5 == 1 && !*program.mode) {
        CHECK(waitpid(-1, &status, 0) == child);
    } else {
        CHECK(waitpid(child, &status, 0) == child);
    }
    CHECK(waitpid(child, NULL, 0) == -1 && errno == ECHILD);
    return info.si_pid ? status_of(&info) : status;
}

static void ended(void)
{
    static pid_t child;
    if (step > 1) {
        int status = wait_for_one(child, step - 1);
        CHECK(status == ((step - 1) % 3 == 2 ? SIGKILL : W_EXITCODE((int)((step - 1) % 100), 0)));
        digest_add_number(&program.digest, (uint64_t)status);
    }
    child = end_one(step);
}

/* ---- one that does not end ---- */

static void on_child(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    if (info->si_code == CLD_KILLED && info->si_status == SIGKILL)
        heard_of = info->si_pid;
}

static pid_t start_long(void)
{
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execlp("sleep", "sleep", "1000", NULL);
        _exit(127);
    }
    CHECK(child > 0);
    began = incarnation();
    return child;
}

static void long_one(void)
{
    static pid_t child;
    int status;
    if (!child)
        child = start_long();
    if (began == incarnation()) {
        CHECK(waitpid(child, &status, WNOHANG) == 0);
        return;
    }
    CHECK(heard_of == child);
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK(waitpid(child, &status, 0) == -1 && errno == ECHILD);
    child = start_long();
}

/* ---- one whose output is read ---- */

#define FEEDING_EVERY 10
#define FEEDING "sleep 0.4; echo begun; sleep 0.4; echo 42"

static void by_popen(char *text, size_t bytes)
{
    FILE *output = popen(program.value ? "(" FEEDING ") & exec >/dev/null; wait" : FEEDING, "r");
    CHECK(output);
    size_t got = fread(text, 1, bytes - 1, output);
    text[got] = '\0';
    CHECK(pclose(output) == 0);
}

static void by_pair(char *text, size_t bytes)
{
    int ends[2], status;
    size_t got = 0;
    ssize_t more;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        if (program.value && fork())
            _exit(0);
        dup2(ends[1], STDOUT_FILENO);
        execlp("sh", "sh", "-c", FEEDING, NULL);
        _exit(127);
    }
    close(ends[1]);
    while ((more = read(ends[0], text + got, bytes - 1 - got)) > 0)
        got += (size_t)more;
    text[got] = '\0';
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void feeding(void)
{
    char text[64];
    if (step % FEEDING_EVERY)
        return;
    if (step % (2 * FEEDING_EVERY))
        by_popen(text, sizeof text);
    else
        by_pair(text, sizeof text);
    CHECK(!strcmp(text, "begun\n42\n"));
    digest_add_number(&program.digest, strlen(text));
}

/* ---- an end that nobody has for a while ---- */

static int reader, way[2];

static struct msghdr *message_with(int **fd)
{
    static union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    static char byte = 'w';
    static struct iovec data = {.iov_base = &byte, .iov_len = 1};
    static struct msghdr message;
    message = (struct msghdr){
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.head = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    *fd = (int *)(void *)CMSG_DATA(&control.head);
    return &message;
}

static void send_writer(void)
{
    int ends[2], *sent;
    struct msghdr *message = message_with(&sent);
    CHECK(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, way) == 0);
    *sent = ends[1];
    CHECK(sendmsg(way[0], message, 0) == 1);
    close(ends[1]);
    reader = ends[0];
}

static void take_writer(void)
{
    int *got;
    char read_back = 0;
    struct msghdr *message = message_with(&got);
    CHECK(recvmsg(way[1], message, 0) == 1 && *got >= 0);
    CHECK(write(*got, "x", 1) == 1 && read(reader, &read_back, 1) == 1 && read_back == 'x');
    digest_add_number(&program.digest, (uint64_t)read_back);
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_sigaction = on_child, .sa_flags = SA_SIGINFO | SA_RESTART};
    MPI_Init(&argc, &argv);
    program_begin(&program, "children", argc, argv);
    bool is_handing = !strcmp(program.mode, "handing");
    bool is_long = is_handing || !strcmp(program.mode, "long");
    if (is_long)
        sigaction(SIGCHLD, &action, NULL);
    for (step = 1; step <= program.steps; step++) {
        if (is_long)
            long_one();
        if (is_handing && step == program.steps / 2)
            send_writer();
        if (!strcmp(program.mode, "feeding"))
            feeding();
        if (!is_handing) {
            command();
            worker();
            ended();
        }
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&program, step);
    }
    if (is_handing)
        take_writer();
    program_end(&program);
    MPI_Finalize();
    return 0;
}
