/*
 * pipes - pipes in all states, inside a process and between two: every step reads what the step before has
 * written, looks at what they are, and writes anew. Packets, with both ends, with the reading one alone, and
 * between ranks; both ends in one rank and one of them in another; what nobody reads any more; ends that were
 * opened again; a pipe with a name; what several ranks may still read of a pipe that has ended; a pipe with a
 * name whose writers come late, and go. The flags of descriptors of other kinds, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/incarnation.h"
#include "tests/programs/program.h"

#define OWN "fifo-%d"
#define COMMON "fifo"
#define LATE "late-%d" /* has no writer up to the middle of a round, and none after it */
#define PACKETS 4
#define OTHERS 5
#define ROUND 8 /* steps after which pipes that have ended are made anew */

struct pipes {
    struct program program;
    long first;
    long step;
    int packets[2], ended, both, kept[2], unread, again[4], named[2], common, late, others[OTHERS];
};

static const char *const packets[PACKETS] = {"one", "three", "a", "b"};

static void check(const struct pipes *p, bool is_fine, const char *what)
{
    if (!is_fine)
        fail(&p->program, "step %ld, %s a restart: %s: %s", p->step,
             incarnation() == p->first ? "before" : "after", what, strerror(errno));
}

static int open_again(const struct pipes *p, int fd, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    fd = open(path, flags);
    check(p, fd >= 0, "opening a pipe again");
    return fd;
}

static void write_packets(const struct pipes *p, int fd)
{
    for (int i = 0; i < PACKETS; i++)
        check(p, write(fd, packets[i], strlen(packets[i])) == (ssize_t)strlen(packets[i]),
              "writing a packet");
}

static void read_packets(const struct pipes *p, int fd, const char *what)
{
    char text[64];
    for (int i = 0; i < PACKETS; i++)
        check(p,
              read(fd, text, sizeof text) == (ssize_t)strlen(packets[i]) &&
                  !memcmp(text, packets[i], strlen(packets[i])),
              what);
}

/* Packets behind one another whose writer is gone, and what no reader will take any more. */
static void begin_ended(struct pipes *p)
{
    int ends[2];
    check(p, pipe2(ends, O_DIRECT) == 0, "pipe2");
    write_packets(p, ends[1]);
    close(ends[1]);
    p->ended = ends[0];
    check(p, pipe(ends) == 0 && write(ends[1], "unread", 6) == 6 && close(ends[0]) == 0,
          "a pipe without reader");
    p->unread = ends[1];
}

static void begin(struct pipes *p)
{
    char name[32];
    check(p, pipe2(p->packets, O_DIRECT | O_NONBLOCK) == 0, "pipe2");
    check(p, pipe(p->again) == 0, "pipe");
    p->again[2] = open_again(p, p->again[1], O_RDONLY);
    p->again[3] = open_again(p, p->again[0], O_WRONLY | O_NONBLOCK);
    snprintf(name, sizeof name, OWN, p->program.rank);
    check(p, mkfifo(name, 0600) == 0, "mkfifo");
    p->named[0] = open(name, O_RDONLY | O_NONBLOCK);
    p->named[1] = open(name, O_WRONLY);
    check(p, p->named[0] >= 0 && p->named[1] >= 0, "opening a pipe with a name");
    snprintf(name, sizeof name, LATE, p->program.rank);
    check(p, mkfifo(name, 0600) == 0, "mkfifo");
    if (p->program.rank == 0)
        check(p, mkfifo(COMMON, 0600) == 0, "mkfifo");
    MPI_Barrier(MPI_COMM_WORLD);
    p->common = open(COMMON, p->program.rank == 0 ? O_RDONLY : O_WRONLY);
    check(p, p->common >= 0, "opening a pipe between ranks");
    check(p, p->program.rank == 0 || fcntl(p->common, F_SETFL, O_DIRECT) == 0, "O_DIRECT");
}

/* What was set by F_SETFL, not when they were made. */
static void begin_others(struct pipes *p)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    const int made[OTHERS] = {epoll_create1(0), eventfd(0, 0), timerfd_create(CLOCK_MONOTONIC, 0),
                              signalfd(-1, &set, 0), eventfd(0, EFD_NONBLOCK)};
    for (int i = 0; i < OTHERS; i++) {
        p->others[i] = made[i];
        check(p, fcntl(made[i], F_SETFL, i < OTHERS - 1 ? O_NONBLOCK | O_APPEND : 0) == 0, "F_SETFL");
    }
}

static void step_others(const struct pipes *p)
{
    for (int i = 0; i < OTHERS; i++)
        check(p,
              (fcntl(p->others[i], F_GETFL) & (O_NONBLOCK | O_APPEND)) ==
                  (i < OTHERS - 1 ? O_NONBLOCK | O_APPEND : 0),
              "flags of a descriptor");
}

/* All have opened an end of rank 0, or nobody has kept it: its pid has become another one on the way. */
static bool open_end(const struct pipes *p, int end, int mode, int *opened)
{
    int where[2] = {(int)getpid(), end}, said, is_open, is_renamed;
    char path[64];
    MPI_Bcast(where, 2, MPI_INT, 0, MPI_COMM_WORLD);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", where[0], where[1]);
    *opened = p->program.rank == 0 ? end : open(path, mode);
    said = *opened >= 0;
    MPI_Allreduce(&said, &is_open, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    is_renamed = getpid() != where[0];
    MPI_Bcast(&is_renamed, 1, MPI_INT, 0, MPI_COMM_WORLD);
    check(p, is_open || is_renamed, "opening another rank's pipe");
    if (!is_open && p->program.rank > 0 && *opened >= 0)
        close(*opened);
    return is_open;
}

/* Two ranks read what is left of it, and then both its end. */
static void begin_both(struct pipes *p)
{
    int ends[2] = {-1, -1};
    check(p, p->program.rank > 0 || pipe2(ends, O_DIRECT) == 0, "pipe2");
    while (!open_end(p, ends[0], O_RDONLY, &p->both))
        ;
    MPI_Barrier(MPI_COMM_WORLD);
    if (p->program.rank == 0) {
        write_packets(p, ends[1]);
        write_packets(p, ends[1]);
        close(ends[1]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void end_both(struct pipes *p)
{
    char byte;
    for (int rank = 0; rank < 2; rank++) {
        if (p->program.rank == rank)
            read_packets(p, p->both, "packets of a pipe that has ended, of two ranks");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    check(p, read(p->both, &byte, 1) == 0, "the end of a pipe of two ranks");
    close(p->both);
}

static void end_ended(struct pipes *p)
{
    char byte;
    int held = 0;
    read_packets(p, p->ended, "packets of a pipe that has ended");
    check(p, read(p->ended, &byte, 1) == 0, "the end of a pipe");
    check(p, ioctl(p->unread, FIONREAD, &held) == 0 && held == 6, "what nobody reads");
    int reader = open_again(p, p->unread, O_RDONLY | O_NONBLOCK);
    char text[8] = "";
    check(p, read(reader, text, sizeof text) == 6 && !strcmp(text, "unread"), "reading it after all");
    close(reader);
    close(p->unread);
    close(p->ended);
}

static void step_ended(struct pipes *p)
{
    if (p->step % ROUND == 1) {
        begin_ended(p);
        begin_both(p);
    }
    if (p->step % ROUND == 0) {
        end_both(p);
        end_ended(p);
    }
}

static void read_text(const struct pipes *p, int fd, const char *expected, const char *what)
{
    char text[64] = "";
    check(p, read(fd, text, sizeof text - 1) == (ssize_t)strlen(expected) && !strcmp(text, expected), what);
}

/* Three descriptors that are no copies of one another, of one pipe. */
static void step_again(struct pipes *p)
{
    if (p->step > 1)
        read_text(p, p->again[p->step % 2 ? 0 : 2], "again", "what was written by another end");
    check(p, write(p->again[p->step % 3 ? 1 : 3], "again", 5) == 5, "writing by an end");
    check(p, !(fcntl(p->again[1], F_GETFL) & O_NONBLOCK) && fcntl(p->again[3], F_GETFL) & O_NONBLOCK,
          "flags");
}

/* Whoever opens it by its name has the same pipe. */
static void step_named(struct pipes *p)
{
    char name[32];
    struct stat one, other;
    snprintf(name, sizeof name, OWN, p->program.rank);
    if (p->step > 1)
        read_text(p, p->named[0], "firstnamed", "a pipe with a name");
    check(p, write(p->named[1], "first", 5) == 5, "writing to a pipe with a name");
    int writer = open(name, O_WRONLY | O_NONBLOCK);
    check(p, writer >= 0 && write(writer, "named", 5) == 5, "writing to it by its name");
    check(p, fstat(writer, &one) == 0 && fstat(p->named[0], &other) == 0 && one.st_ino == other.st_ino,
          "fstat");
    close(writer);
}

/* poll(2) tells a pipe that has ended from one that nobody has written to yet. */
static void step_late(struct pipes *p)
{
    char name[32], byte;
    long at = p->step % ROUND;
    snprintf(name, sizeof name, LATE, p->program.rank);
    if (at == 1) {
        p->late = open(name, O_RDONLY | O_NONBLOCK | O_CREAT, 0600);
        check(p, p->late >= 0, "opening a pipe without writers");
    } else if (at == ROUND / 2) {
        int writer = open(name, O_WRONLY | O_NONBLOCK);
        check(p, writer >= 0 && write(writer, "late", 4) == 4 && close(writer) == 0, "writing late");
    }
    struct pollfd ready = {.fd = p->late, .events = POLLIN};
    bool has_begun = at == 0 || at >= ROUND / 2;
    check(p, poll(&ready, 1, 0) == has_begun && ready.revents == (has_begun ? POLLIN | POLLHUP : 0),
          "poll of a pipe with a name");
    check(p, has_begun || read(p->late, &byte, 1) == 0, "reading where nobody writes");
    if (at == 0) {
        read_text(p, p->late, "late", "what was written late");
        check(p, poll(&ready, 1, 0) == 1 && ready.revents == POLLHUP && close(p->late) == 0,
              "the end of a pipe with a name");
    }
}

/* Rank 0 has both ends, and another rank has one of them, too. */
static void begin_kept(struct pipes *p)
{
    int end;
    check(p, p->program.rank > 0 || pipe(p->kept) == 0, "pipe");
    while (!open_end(p, p->kept[1], O_WRONLY, &end))
        ;
    p->kept[1] = end;
}

static void step_kept(const struct pipes *p)
{
    char text[8] = "";
    if (p->program.rank == 0 && p->step > 1)
        check(p, read(p->kept[0], text, 4) == 4 && !strcmp(text, "kept"), "a pipe of which one rank has all");
    if (p->program.rank == 1)
        check(p, write(p->kept[1], "kept", 4) == 4, "writing to a pipe of which another rank has all");
}

static void step_packets(struct pipes *p)
{
    if (p->step > 1)
        read_packets(p, p->packets[0], "packets");
    write_packets(p, p->packets[1]);
    if (p->program.rank == 0 && p->step > 1)
        read_packets(p, p->common, "packets of another rank");
    if (p->program.rank == 1)
        write_packets(p, p->common);
}

int main(int argc, char **argv)
{
    struct pipes p = {.program = {.steps = 100}, .first = incarnation()};
    MPI_Init(&argc, &argv);
    program_begin(&p.program, "pipes", argc, argv);
    begin(&p);
    begin_others(&p);
    begin_kept(&p);
    for (p.step = 1; p.step <= p.program.steps; p.step++) {
        MPI_Barrier(MPI_COMM_WORLD);
        step_packets(&p);
        step_kept(&p);
        step_again(&p);
        step_named(&p);
        step_late(&p);
        step_ended(&p);
        step_others(&p);
        program_step(&p.program, p.step);
    }
    program_end(&p.program);
    MPI_Finalize();
    return 0;
}
