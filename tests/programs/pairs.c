/*
 * pairs - pairs of sockets inside a process, as event loops have them: every step reads what the step before
 * has written, looks at what they are, and writes anew. Streams, messages and packets, also empty ones; some
 * that are shut, one whose other end is gone, with something unread or without, copies, one that an epoll
 * descriptor watches, more than fits.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/programs/incarnation.h"
#include "tests/programs/program.h"

#define KINDS 3

struct pairs {
    struct program program;
    long first;
    long step;
    int pairs[KINDS][2], set[2], full[2], sent[2], shut[2], ended, copy, watching;
    int reset[2];    /* a stream, packets: the other end was closed with something unread */
    int empty[2][2]; /* messages and packets of which some are empty */
    int mute[2];     /* for datagrams, shut for writing only */
    int alone[2]; /* for datagrams, the other end was closed: nobody has written to it since, somebody has */
    int watching_numbers, reused, holder, counter; /* see begin_reused() */
    long filled, sent_bytes;
};

static const int kinds[KINDS] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};

static void check(const struct pairs *p, bool is_fine, const char *what)
{
    if (!is_fine)
        fail(&p->program, "step %ld, %s a restart: %s: %s", p->step,
             incarnation() == p->first ? "before" : "after", what, strerror(errno));
}

/* As much as fits by sendfile(), which is more than what fits by write(). */
static void begin_sent(struct pairs *p)
{
    static char data[1 << 20];
    char name[32];
    snprintf(name, sizeof name, "sent-%d", p->program.rank);
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    check(p, write(file, data, sizeof data) == sizeof data && lseek(file, 0, SEEK_SET) == 0, name);
    check(p, socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p->sent) == 0, "socketpair");
    for (ssize_t put; (put = sendfile(p->sent[0], file, NULL, 65536)) > 0;)
        p->sent_bytes += put;
    check(p, errno == EAGAIN, "a pair that is full by sendfile");
    close(file);
}

static const struct {
    int name, value;
} numbers[] = {{SO_PRIORITY, 3}, {SO_TIMESTAMP, 1}, {SO_KEEPALIVE, 1}, {SO_RCVLOWAT, 64}, {SO_PEEK_OFF, 2}};

#define NUMBERS (sizeof numbers / sizeof numbers[0])

/* Options of a pair that is used for nothing else. */
static void begin_options(struct pairs *p)
{
    const struct linger linger = {1, 7};
    check(p, socketpair(AF_UNIX, SOCK_STREAM, 0, p->set) == 0, "socketpair");
    for (size_t i = 0; i < NUMBERS; i++)
        check(p, setsockopt(p->set[0], SOL_SOCKET, numbers[i].name, &numbers[i].value, sizeof(int)) == 0,
              "an option");
    check(p, setsockopt(p->set[1], SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0, "SO_LINGER");
    check(p, write(p->set[1], "not yet", 7) == 7, "less than is waited for");
}

static void look_at_options(const struct pairs *p)
{
    struct linger linger = {0};
    socklen_t bytes = sizeof linger;
    char text[8] = "";
    for (size_t i = 0; i < NUMBERS; i++) {
        int value = -1;
        socklen_t length = sizeof value;
        check(p,
              getsockopt(p->set[0], SOL_SOCKET, numbers[i].name, &value, &length) == 0 &&
                  value == numbers[i].value,
              "an option that was set");
    }
    check(p, getsockopt(p->set[1], SOL_SOCKET, SO_LINGER, &linger, &bytes) == 0 && linger.l_linger == 7,
          "SO_LINGER");
    check(p, recv(p->set[0], text, sizeof text, MSG_PEEK | MSG_DONTWAIT) == 5 && !memcmp(text, "t yet", 5),
          "what is behind the offset to peek at");
    check(p, setsockopt(p->set[0], SOL_SOCKET, SO_PEEK_OFF, &numbers[NUMBERS - 1].value, sizeof(int)) == 0,
          "SO_PEEK_OFF");
}

static void watch(const struct pairs *p, int fd, uint64_t value)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = value};
    check(p, epoll_ctl(p->watching_numbers, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
}

/*
 * A watched descriptor is closed, a copy keeps what it stood for, and another one gets its number and is
 * watched, too; then one more, whose number stays free.
 */
static void begin_reused(struct pairs *p)
{
    int ended;
    p->watching_numbers = epoll_create1(EPOLL_CLOEXEC);
    p->reused = eventfd(1, 0);
    watch(p, p->reused, 1);
    p->holder = dup(p->reused);
    p->counter = eventfd(2, 0);
    check(p, dup3(p->counter, p->reused, O_CLOEXEC) == p->reused, "another one at the number");
    watch(p, p->reused, 2);
    ended = dup(p->holder);
    watch(p, ended, 3);
    close(ended);
}

static void step_reused(const struct pairs *p)
{
    struct epoll_event events[4];
    int count = epoll_wait(p->watching_numbers, events, 4, 0), seen = 0;
    for (int i = 0; i < count; i++)
        seen |= 1 << events[i].data.u64;
    check(p, count == 3 && seen == (1 << 1 | 1 << 2 | 1 << 3), "watches of numbers that were used again");
    check(p, fcntl(p->reused, F_GETFD) == FD_CLOEXEC, "the flag of such a number");
}

static void begin(struct pairs *p)
{
    int pair[2], room = 16384, yes = 1;
    struct timeval timeout = {.tv_sec = 7};
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 77};
    char block[1000] = "full";
    begin_options(p);
    begin_reused(p);
    for (int i = 0; i < KINDS; i++)
        check(p, socketpair(AF_UNIX, kinds[i], 0, p->pairs[i]) == 0, "socketpair");
    check(p, fcntl(p->pairs[1][0], F_SETFL, O_NONBLOCK) == 0, "F_SETFL");
    check(p, setsockopt(p->pairs[2][1], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0,
          "SO_RCVTIMEO");
    for (int i = 0; i < KINDS; i++)
        check(p, setsockopt(p->pairs[i][0], SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) == 0, "SO_PASSCRED");
    p->copy = dup(p->pairs[0][1]);
    check(p, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p->full) == 0, "socketpair");
    check(p, setsockopt(p->full[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof room) == 0, "SO_SNDBUF");
    for (ssize_t put; (put = write(p->full[0], block, sizeof block)) > 0;)
        p->filled += put;
    check(p, errno == EAGAIN, "a full pair");
    check(p,
          socketpair(AF_UNIX, SOCK_STREAM, 0, p->shut) == 0 && write(p->shut[0], "last", 4) == 4 &&
              shutdown(p->shut[0], SHUT_WR) == 0,
          "shutdown");
    check(p,
          socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0 && write(pair[1], "one", 3) == 3 &&
              write(pair[1], "two", 3) == 3 && close(pair[1]) == 0,
          "an end that is gone");
    p->ended = pair[0];
    p->watching = epoll_create1(0);
    check(p, epoll_ctl(p->watching, EPOLL_CTL_ADD, p->pairs[0][1], &event) == 0, "epoll_ctl");
}

/* Each kind keeps its messages apart, or does not. */
static void receive(struct pairs *p, int kind, int end)
{
    char text[256], expected[64];
    int length = snprintf(expected, sizeof expected, "step %ld of %d", p->step - 1, kind);
    ssize_t got = recv(p->pairs[kind][end], text, sizeof text, 0);
    bool is_stream = kinds[kind] == SOCK_STREAM;
    check(p, got == (is_stream ? length + 4 : length) && !memcmp(text, expected, (size_t)length),
          "what the step before has written");
    if (!is_stream)
        check(p, recv(p->pairs[kind][end], text, sizeof text, 0) == 4 && !memcmp(text, "next", 4),
              "the message behind it");
    digest_add(&p->program.digest, expected, (size_t)length);
}

static void step_pairs(struct pairs *p)
{
    char text[64];
    for (int kind = 0; kind < KINDS; kind++)
        for (int end = 0; end < 2; end++) {
            if (p->step > 1)
                receive(p, kind, end);
            int length = snprintf(text, sizeof text, "step %ld of %d", p->step, kind);
            check(p, write(p->pairs[kind][1 - end], text, (size_t)length) == length, "a message");
            check(p, write(p->pairs[kind][1 - end], "next", 4) == 4, "the next one");
        }
}

static void begin_reset(struct pairs *p)
{
    static const int types[2] = {SOCK_STREAM, SOCK_SEQPACKET};
    for (int i = 0; i < 2; i++) {
        int pair[2];
        check(p, socketpair(AF_UNIX, types[i], 0, pair) == 0 && write(pair[0], "unread", 6) == 6, "a pair");
        check(p, i || write(pair[1], "left", 4) == 4, "something to read");
        check(p, close(pair[1]) == 0, "closing an end");
        p->reset[i] = pair[0];
    }
}

/* The error comes once, behind what a stream holds. */
static void step_reset(struct pairs *p)
{
    char text[8];
    for (int i = 0; p->step > 1 && i < 2; i++) {
        check(p, i || read(p->reset[i], text, sizeof text) == 4, "what was left before an error");
        check(p, read(p->reset[i], text, sizeof text) == -1 && errno == ECONNRESET,
              "an end that was not read");
        check(p, read(p->reset[i], text, sizeof text) == 0, "the end behind the error");
        close(p->reset[i]);
    }
    begin_reset(p);
}

static void begin_alone(struct pairs *p)
{
    for (int i = 0; i < 2; i++) {
        int pair[2];
        check(p, socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 && send(pair[1], "left", 4, 0) == 4, "a pair");
        close(pair[1]);
        p->alone[i] = pair[0];
    }
    check(p, send(p->alone[1], "x", 1, 0) == -1 && errno == ECONNREFUSED, "nobody is there");
}

/* That nobody is there is told once, and takes what is left. */
static void step_alone(struct pairs *p)
{
    char text[8];
    if (p->step % 5 == 1) {
        check(p, recv(p->alone[0], text, sizeof text, MSG_DONTWAIT) == 4, "what was left of one alone");
        check(p, send(p->alone[0], "x", 1, 0) == -1 && errno == ECONNREFUSED, "nobody is there any more");
        close(p->alone[0]);
        close(p->alone[1]);
        begin_alone(p);
    }
    check(p, send(p->alone[1], "x", 1, 0) == -1 && errno == ENOTCONN, "one that knows that nobody is there");
    check(p, recv(p->alone[1], text, sizeof text, MSG_DONTWAIT) == -1 && errno == EAGAIN, "its messages");
}

static void begin_empty(struct pairs *p)
{
    for (int i = 0; i < 2; i++)
        check(p, socketpair(AF_UNIX, kinds[1 + i] | SOCK_NONBLOCK, 0, p->empty[i]) == 0, "socketpair");
    check(p, socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, p->mute) == 0, "socketpair");
    check(p, send(p->mute[0], "last", 4, 0) == 4 && shutdown(p->mute[0], SHUT_WR) == 0, "shutdown");
}

/* What a step has sent waits for some lines: two empty messages, others around and between them. */
static void step_empty(struct pairs *p)
{
    static const char *const texts[] = {"", "one", "", "", "two"};
    char text[8];
    if (p->step % 10 != 1)
        return;
    for (int i = 0; i < 2; i++)
        for (int at = 0; at < 5; at++) {
            ssize_t length = (ssize_t)strlen(texts[at]);
            check(p, p->step == 1 || recv(p->empty[i][1], text, sizeof text, 0) == length,
                  "an empty message or one beside it");
            check(p, p->step == 1 || !memcmp(text, texts[at], (size_t)length),
                  "a message beside an empty one");
        }
    for (int i = 0; i < 2; i++) {
        check(p, recv(p->empty[i][1], text, sizeof text, 0) == -1 && errno == EAGAIN, "no other message");
        for (int at = 0; at < 5; at++)
            check(p, send(p->empty[i][0], texts[at], strlen(texts[at]), 0) >= 0, "an empty message");
    }
}

static void step_mute(struct pairs *p)
{
    char text[8];
    check(p, send(p->mute[0], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE,
          "an end that is shut for writing");
    check(p, recv(p->mute[1], text, sizeof text, MSG_PEEK) == 4, "what was sent before");
    check(p, send(p->mute[1], "other", 5, 0) == 5 && recv(p->mute[0], text, sizeof text, 0) == 5,
          "the other direction");
}

static void step_others(struct pairs *p)
{
    char byte, text[8];
    int room = 0;
    struct timeval timeout = {0};
    struct epoll_event event;
    socklen_t bytes = sizeof room, timeout_bytes = sizeof timeout;
    look_at_options(p);
    step_reused(p);
    check(p, recv(p->copy, &byte, 1, MSG_PEEK) == 1 && byte == 's', "by the copy");
    check(p, epoll_wait(p->watching, &event, 1, 0) == 1 && event.data.u64 == 77, "epoll");
    check(p, fcntl(p->pairs[1][0], F_GETFL) & O_NONBLOCK && !(fcntl(p->pairs[1][1], F_GETFL) & O_NONBLOCK),
          "their flags");
    check(p,
          getsockopt(p->pairs[2][1], SOL_SOCKET, SO_RCVTIMEO, &timeout, &timeout_bytes) == 0 &&
              timeout.tv_sec == 7,
          "a timeout");
    check(p, getsockopt(p->full[0], SOL_SOCKET, SO_SNDBUF, &room, &bytes) == 0 && room == 32768, "SO_SNDBUF");
    check(p, recv(p->shut[1], text, sizeof text, MSG_PEEK) == 4 && !memcmp(text, "last", 4), "what was left");
    check(p, send(p->shut[0], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE, "a pair that is shut");
    check(p, recv(p->ended, text, sizeof text, MSG_PEEK) == 3 && !memcmp(text, "one", 3),
          "what was left of it");
    check(p, send(p->ended, "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE, "a pair without its other end");
}

/* All of it is there, and then the end. */
static void finish(struct pairs *p)
{
    char block[4096];
    long got = 0;
    for (ssize_t part; (part = read(p->full[1], block, sizeof block)) > 0;)
        got += part;
    check(p, got >= p->filled && errno == EAGAIN, "all that was in the full pair");
    got = 0;
    for (ssize_t part; (part = read(p->sent[1], block, sizeof block)) > 0;)
        got += part;
    check(p, got == p->sent_bytes && errno == EAGAIN, "all that was sent by sendfile");
    check(p, read(p->shut[1], block, 4) == 4 && read(p->shut[1], block, 4) == 0,
          "the end of one that is shut");
    check(p,
          read(p->ended, block, 9) == 3 && read(p->ended, block, 9) == 3 && !memcmp(block, "two", 3) &&
              read(p->ended, block, 9) == 0,
          "the end of one that has ended");
}

int main(int argc, char **argv)
{
    struct pairs p = {.program = {.steps = 100}, .first = incarnation()};
    MPI_Init(&argc, &argv);
    program_begin(&p.program, "pairs", argc, argv);
    begin(&p);
    begin_sent(&p);
    begin_alone(&p);
    begin_empty(&p);
    for (p.step = 1; p.step <= p.program.steps; p.step++) {
        MPI_Barrier(MPI_COMM_WORLD);
        step_pairs(&p);
        step_others(&p);
        step_reset(&p);
        step_alone(&p);
        step_empty(&p);
        step_mute(&p);
        program_step(&p.program, p.step);
    }
    finish(&p);
    program_end(&p.program);
    MPI_Finalize();
    return 0;
}
