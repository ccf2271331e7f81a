/* transfers_handlers.c - see transfers.h: handlers of the program end calls as they do natively. */
#define _GNU_SOURCE
#include "tests/programs/transfers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIPE_BYTES 65536

static volatile sig_atomic_t alarms;

static void on_alarm(int number)
{
    (void)number;
    alarms++;
}

static void alarm_after_ms(long ms, int flags)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = flags};
    struct itimerval once = {{0, 0}, {0, ms * 1000}};
    alarms = 0;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &once, NULL);
}

static void expect_interrupted(ssize_t result, const char *name)
{
    expect(result == -1 && errno == EINTR && alarms == 1, name, "not interrupted");
}

static int make_full(struct transfer *t)
{
    make_pipe(t);
    return write(t->fds[1], t->data, PIPE_BYTES) == PIPE_BYTES;
}

static void close_both(const struct transfer *t)
{
    close(t->fds[0]);
    close(t->fds[1]);
}

/* With some written the call ends with that, whatever the handler's flags say. */
static void short_writes(struct transfer *t, long ms, int flags)
{
    struct iovec parts[PARTS];
    divide(t, parts);
    make_pipe(t);
    alarm_after_ms(ms, flags);
    expect(write(t->fds[1], t->data, TOTAL) == PIPE_BYTES && alarms == 1, "write", "not what the pipe takes");
    close_both(t);
    make_pipe(t);
    alarm_after_ms(ms, flags);
    expect(writev(t->fds[1], parts, PARTS) == PIPE_BYTES && alarms == 1, "writev", "not what the pipe takes");
    close_both(t);
}

static void short_calls_on_sockets(struct transfer *t, long ms, int flags)
{
    make_pair(t);
    expect(write(t->fds[1], t->data, 1000) == 1000, "recv", "write");
    alarm_after_ms(ms, flags);
    expect(recv(t->fds[0], t->data, TOTAL, MSG_WAITALL) == 1000 && alarms == 1, "recv", "not what there was");
    alarm_after_ms(ms, flags);
    ssize_t sent = send(t->fds[1], t->data, TOTAL, 0);
    expect(sent > 0 && sent < TOTAL && alarms == 1, "send", "not interrupted");
    close_both(t);
}

/* With nothing done yet, a handler without SA_RESTART ends it. */
static void interrupted_calls(struct transfer *t, long ms)
{
    char byte, path[64];
    expect(make_full(t), "write", "a full pipe");
    alarm_after_ms(ms, 0);
    expect_interrupted(write(t->fds[1], t->data, TOTAL), "write");
    alarm_after_ms(ms, 0);
    expect_interrupted(syscall(SYS_write, t->fds[1], t->data, TOTAL), "write by itself");
    close_both(t);
    make_pipe(t);
    alarm_after_ms(ms, 0);
    expect_interrupted(read(t->fds[0], &byte, 1), "read");
    close_both(t);
    make_fifo(t);
    snprintf(path, sizeof path, "fifo-%d", program.rank);
    alarm_after_ms(ms, 0);
    expect_interrupted(open(path, O_WRONLY), "open");
    unlink(path);
}

static void interrupted_calls_on_sockets(struct transfer *t, long ms)
{
    char byte;
    int status;
    make_pair(t);
    alarm_after_ms(ms, 0);
    expect_interrupted(recv(t->fds[0], &byte, 1, 0), "recv");
    alarm_after_ms(ms, 0);
    expect_interrupted(recv(t->fds[0], t->data, TOTAL, MSG_WAITALL), "recv");
    close_both(t);
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    alarm_after_ms(ms, 0);
    expect_interrupted(waitpid(child, &status, 0), "waitpid");
    kill(child, SIGKILL);
    expect(waitpid(child, &status, 0) == child, "waitpid", "the child");
}

static void *read_later(void *argument)
{
    struct transfer *t = argument;
    char some[PIPE_BYTES];
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 2; i++) {
        pause_ms(30 * PAUSE_MS);
        expect(read(t->fds[0], some, sizeof some) > 0, "write", "the other side's read");
    }
    return NULL;
}

/* ... and after one with SA_RESTART it goes on. */
static void restarted_calls(struct transfer *t, long ms)
{
    pthread_t thread;
    expect(make_full(t), "write", "a full pipe");
    pthread_create(&thread, NULL, read_later, t);
    alarm_after_ms(ms, SA_RESTART);
    expect(write(t->fds[1], t->data, 100) == 100 && alarms == 1, "write", "not restarted");
    pthread_join(thread, NULL);
    close_both(t);
}

void transfers_handlers(int on_sockets)
{
    struct transfer t = {.name = "a call with a handler", .data = calloc(1, TOTAL)};
    for (long step = 1; step <= program.steps; step++) {
        long ms = 20 + 7 * (step % 9); /* before, at and after the moment of a line */
        if (on_sockets) {
            short_calls_on_sockets(&t, ms, 0);
            short_calls_on_sockets(&t, ms, SA_RESTART);
            interrupted_calls_on_sockets(&t, ms);
        } else {
            short_writes(&t, ms, 0);
            short_writes(&t, ms, SA_RESTART);
            interrupted_calls(&t, ms);
            restarted_calls(&t, ms);
        }
        step_of_mpi(step);
    }
    free(t.data);
}
