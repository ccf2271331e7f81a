/*
 * terminals - pseudo terminals inside a process: every step reads what the step before has written to either
 * side, looks at the settings, and writes anew. By lines, with one that is not complete yet, and as it comes;
 * copies; one whose slave is closed, one whose slave nobody has opened, one that a child has.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <poll.h>
#include <pty.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "tests/programs/incarnation.h"
#include "tests/programs/program.h"

#define DEADLINE_MS 5000

struct terminal {
    int master, slave;
};

struct terminals {
    struct program program;
    long first;
    long step;
    struct terminal by_lines, raw;
    int copy, unopened, closed, hung_up;
    int of_child; /* -1: not begun */
    long child;
};

static void check(const struct terminals *t, bool is_fine, const char *what)
{
    if (!is_fine)
        fail(&t->program, "step %ld, %s a restart: %s: %s", t->step,
             incarnation() == t->first ? "before" : "after", what, strerror(errno));
}

static void begin_one(struct terminals *t, struct terminal *one, bool by_lines)
{
    struct winsize size = {.ws_row = 17, .ws_col = by_lines ? 71 : 72};
    struct termios mode;
    check(t, openpty(&one->master, &one->slave, NULL, NULL, &size) == 0, "openpty");
    check(t, tcgetattr(one->slave, &mode) == 0, "tcgetattr");
    if (!by_lines)
        cfmakeraw(&mode);
    mode.c_lflag &= ~(unsigned)ECHO;
    mode.c_cc[VEOL] = '%';
    cfsetspeed(&mode, B19200);
    check(t, tcsetattr(one->slave, TCSANOW, &mode) == 0, "tcsetattr");
}

static int begin_closed(struct terminals *t)
{
    int master, slave;
    check(t, openpty(&master, &slave, NULL, NULL, NULL) == 0, "openpty");
    check(t, write(slave, "last\n", 5) == 5 && close(slave) == 0, "its last words");
    return master;
}

static int begin_hung_up(struct terminals *t)
{
    int master, slave;
    check(t, openpty(&master, &slave, NULL, NULL, NULL) == 0 && close(master) == 0, "openpty");
    return slave;
}

/* Between the two sides the kernel needs a moment. */
static void expect(struct terminals *t, int fd, const char *expected, const char *what)
{
    char text[128];
    size_t got = 0, wanted = strlen(expected);
    struct pollfd look = {.fd = fd, .events = POLLIN};
    while (got < wanted && poll(&look, 1, DEADLINE_MS) == 1 && (look.revents & POLLIN)) {
        ssize_t part = read(fd, text + got, wanted - got);
        check(t, part > 0, what);
        got += (size_t)part;
    }
    check(t, got == wanted && !memcmp(text, expected, got), what);
    digest_add(&t->program.digest, text, got);
}

static void put(struct terminals *t, int fd, const char *format, long number)
{
    char text[64];
    int length = snprintf(text, sizeof text, format, number);
    check(t, write(fd, text, (size_t)length) == length, text);
}

static void step_settings(struct terminals *t, const struct terminal *one, bool by_lines)
{
    struct termios mode;
    struct winsize size;
    char name[32], *slave = ttyname(one->slave);
    check(t, ptsname_r(one->master, name, sizeof name) == 0 && slave && !strcmp(name, slave), "its name");
    digest_add_number(&t->program.digest, (uint64_t)fcntl(one->slave, F_GETFL));
    digest_add_number(&t->program.digest, (uint64_t)fcntl(one->master, F_GETFL));
    check(t, tcgetattr(one->slave, &mode) == 0 && mode.c_cc[VEOL] == '%', "a character that it has set");
    check(t, cfgetospeed(&mode) == B19200 && !(mode.c_lflag & ECHO), "its settings");
    check(t, !(mode.c_lflag & ICANON) == !by_lines, "by lines");
    check(t,
          ioctl(one->slave, TIOCGWINSZ, &size) == 0 && size.ws_row == 17 &&
              size.ws_col == (by_lines ? 71 : 72),
          "its size");
}

/* A line, one that another character ends, and the beginning of one: it is complete in the next step. */
static void step_by_lines(struct terminals *t)
{
    const struct terminal *one = &t->by_lines;
    char expected[64];
    if (t->step > 1) {
        put(t, one->master, " of %ld\n", t->step);
        snprintf(expected, sizeof expected, "line %ld\n", t->step - 1);
        expect(t, one->slave, expected, "a line");
        expect(t, one->slave, "more%", "what another character ends");
        snprintf(expected, sizeof expected, "begun of %ld\n", t->step);
        expect(t, t->copy, expected, "a line that was begun before");
        snprintf(expected, sizeof expected, "answer %ld\r\n", t->step - 1);
        expect(t, one->master, expected, "an answer");
    }
    put(t, one->master, "line %ld\nmore%%begun", t->step);
    put(t, one->slave, "answer %ld\n", t->step);
}

static void step_raw(struct terminals *t)
{
    const struct terminal *one = &t->raw;
    char expected[64];
    if (t->step > 1) {
        snprintf(expected, sizeof expected, "\003\004\r%ld", t->step - 1);
        expect(t, one->slave, expected, "what came in");
        expect(t, one->master, expected, "what went out");
    }
    put(t, one->master, "\003\004\r%ld", t->step);
    put(t, one->slave, "\003\004\r%ld", t->step);
}

/* The end of a terminal comes behind what it has left. */
static void step_others(struct terminals *t)
{
    char text[16];
    struct pollfd look = {.fd = t->unopened, .events = POLLIN};
    check(t, poll(&look, 1, 0) == 0, "a terminal that nobody has opened");
    expect(t, t->closed, "last\r\n", "what was left");
    check(t, read(t->closed, text, sizeof text) == -1 && errno == EIO, "the end of one that is closed");
    close(t->closed);
    t->closed = begin_closed(t);
    check(t, read(t->hung_up, text, sizeof text) == 0, "the end of one whose master is closed");
    check(t, write(t->hung_up, text, 1) == -1 && errno == EIO, "one whose master is closed");
}

/* A restart takes the child away: its terminal ends. Then there is another one. */
static void step_child(struct terminals *t)
{
    char byte;
    struct pollfd look = {.fd = t->of_child, .events = POLLIN};
    if (t->of_child >= 0 && incarnation() == t->child)
        return;
    if (t->of_child >= 0) {
        check(t, poll(&look, 1, DEADLINE_MS) == 1 && read(t->of_child, &byte, 1) == -1 && errno == EIO,
              "the terminal of a child that is gone");
        close(t->of_child);
    }
    t->child = incarnation();
    pid_t child = forkpty(&t->of_child, NULL, NULL, NULL);
    if (child == 0)
        _exit(read(STDIN_FILENO, &byte, 1) < 0);
    check(t, child > 0, "forkpty");
}

static void finish(struct terminals *t)
{
    close(t->of_child); /* hangs up, which ends the child */
    check(t, wait(NULL) > 0, "a child");
}

int main(int argc, char **argv)
{
    struct terminals t = {.program = {.steps = 100}, .first = incarnation(), .of_child = -1};
    MPI_Init(&argc, &argv);
    program_begin(&t.program, "terminals", argc, argv);
    begin_one(&t, &t.by_lines, true);
    begin_one(&t, &t.raw, false);
    t.copy = dup(t.by_lines.slave);
    t.unopened = posix_openpt(O_RDWR | O_NOCTTY);
    t.closed = begin_closed(&t);
    t.hung_up = begin_hung_up(&t);
    for (t.step = 1; t.step <= t.program.steps; t.step++) {
        MPI_Barrier(MPI_COMM_WORLD);
        step_settings(&t, &t.by_lines, true);
        step_settings(&t, &t.raw, false);
        step_by_lines(&t);
        step_raw(&t);
        step_others(&t);
        step_child(&t);
        program_step(&t.program, t.step);
    }
    finish(&t);
    program_end(&t.program);
    MPI_Finalize();
    return 0;
}
