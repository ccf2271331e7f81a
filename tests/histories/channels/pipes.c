/*
 * pipes.c - pipes, pairs of sockets and terminals with something in them. Nothing here waits: what would is
 * left out.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

#include "tests/histories/files/descriptors.h"
#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/channels/pass.h"
#include "tests/histories/channels/pipes.h"
#include "tests/histories/core/world.h"

#define HELD_MAX 12000 /* a pipe takes so much in any pieces */
#define PIECE_MAX 4000

static char buffer[HELD_MAX * 2];

static long held(int fd)
{
    int bytes = 0;
    return ioctl(fd, FIONREAD, &bytes) ? -1 : bytes;
}

static void keep_both(const int fds[2], enum descriptor_kind kind, long first_tag, long second_tag)
{
    struct descriptor *d = descriptor_keep(fds[0], kind);
    d->tag = first_tag;
    d = descriptor_keep(fds[1], kind);
    d->tag = second_tag;
}

/* ---- pipes ---- */

static void act_pipe(void)
{
    int fds[2], flags = (chance(50) ? O_NONBLOCK : 0) | (chance(50) ? O_CLOEXEC : 0);
    say(" %x", (unsigned)flags);
    if (answer(pipe2(fds, flags)))
        return;
    if (chance(30))
        answer(fcntl(fds[1], F_SETPIPE_SZ, (int)PICK_ONE(16384, 65536, 262144, 1048576)));
    keep_both(fds, DESCRIPTOR_PIPE, TAG_READ, TAG_WRITE);
}

static void act_packets(void)
{
    int fds[2];
    if (answer(pipe2(fds, O_DIRECT | O_NONBLOCK)) == 0)
        keep_both(fds, DESCRIPTOR_PIPE, TAG_READ, TAG_PACKETS);
}

static struct descriptor *choose_tagged(int kinds, long tag, long other)
{
    struct descriptor *d = descriptor_choose(kinds);
    return d && (d->tag == tag || d->tag == other) ? d : NULL;
}

/* Neither full nor without a reader: poll tells the latter. */
static bool takes(const struct descriptor *d)
{
    struct pollfd look = {.fd = d->number, .events = POLLOUT};
    return poll(&look, 1, 0) == 1 && (look.revents & POLLERR || held(d->number) < HELD_MAX - PIECE_MAX);
}

static void act_write(void)
{
    struct descriptor *d = choose_tagged(DESCRIPTOR_PIPE, TAG_WRITE, TAG_PACKETS);
    size_t bytes = pick_length(d && d->tag == TAG_PACKETS ? 500 : PIECE_MAX);
    const void *data = some_bytes(bytes);
    struct iovec piece = {(void *)data, bytes};
    bool is_vector = chance(40);
    say(" %zu", bytes);
    if (d && takes(d))
        answer(is_vector ? writev(d->number, &piece, 1) : write(d->number, data, bytes));
}

static void act_read(void)
{
    struct descriptor *d = choose_tagged(DESCRIPTOR_PIPE, TAG_READ, TAG_READ);
    size_t bytes = pick_length(HELD_MAX);
    say(" %zu", bytes);
    if (!d || !descriptor_is_ready(d, POLLIN))
        return;
    long got = answer(read(d->number, buffer, bytes));
    if (got > 0)
        say_bytes(buffer, (size_t)got);
}

/* ---- sockets ---- */

static void act_sockets(void)
{
    int fds[2], type = (int)PICK_ONE(SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM), option = 1;
    int flags = (chance(50) ? SOCK_NONBLOCK : 0) | (chance(50) ? SOCK_CLOEXEC : 0);
    say(" %d %x", type, (unsigned)flags);
    if (answer(socketpair(AF_UNIX, type | flags, 0, fds)))
        return;
    if (chance(30))
        answer(setsockopt(fds[0], SOL_SOCKET, SO_PASSCRED, &option, sizeof option));
    if (chance(20))
        answer(shutdown(fds[0], (int)PICK_ONE(SHUT_RD, SHUT_WR)));
    keep_both(fds, DESCRIPTOR_SOCKET, TAG_NONE, TAG_NONE);
}

static bool takes_more(const struct descriptor *d)
{
    int queued = 0;
    return descriptor_is_ready(d, POLLOUT) && ioctl(d->number, TIOCOUTQ, &queued) == 0 && queued < 40000;
}

static void act_send(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_SOCKET);
    size_t bytes = pick_length(PIECE_MAX);
    const void *data = some_bytes(bytes);
    say(" %zu", bytes);
    if (!d || !takes_more(d))
        return;
    answer(chance(50) ? send(d->number, data, bytes, MSG_NOSIGNAL) : write(d->number, data, bytes));
}

static void act_receive(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_SOCKET);
    size_t bytes = pick_length(PIECE_MAX);
    int flags = chance(30) ? MSG_PEEK : 0;
    say(" %zu", bytes);
    if (!d || !descriptor_is_ready(d, POLLIN))
        return;
    long got = answer(recv(d->number, buffer, bytes, flags | MSG_DONTWAIT));
    if (got > 0)
        say_bytes(buffer, (size_t)got);
}

/* Some of the messages have no bytes. Of a pair whose other end is closed or shut these are lost, so this one
 * stays as it is. */
static void act_empty_messages(void)
{
    static int pair[2];
    int type = (int)PICK_ONE(SOCK_SEQPACKET, SOCK_DGRAM), end = (int)pick(2);
    bool is_sent = chance(60), is_peeked = chance(30);
    size_t bytes = chance(50) ? 0 : pick_length(100);
    if (!pair[1] && answer(socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair)))
        return;
    say(" %d", end);
    if (is_sent) {
        answer(send(pair[end], some_bytes(bytes), bytes, MSG_NOSIGNAL));
        return;
    }
    long got = answer(recv(pair[end], buffer, sizeof buffer, is_peeked ? MSG_PEEK : 0));
    if (got >= 0)
        say_bytes(buffer, (size_t)got);
}

/* A descriptor that stays on its way until somebody receives; at most one in a pair. */
static struct flight {
    int pair[2];
    enum descriptor_kind kind; /* DESCRIPTOR_NONE: nothing is on its way */
    long tag;
} flight;

static void act_pass_later(void)
{
    if (flight.kind) {
        int fd = pass_receive(flight.pair[1]);
        answer(fd < 0 ? -1 : 0);
        struct descriptor *d = descriptor_keep(fd, flight.kind);
        if (d)
            d->tag = flight.tag;
        close(flight.pair[0]);
        close(flight.pair[1]);
        flight.kind = DESCRIPTOR_NONE;
        return;
    }
    struct descriptor *d = descriptor_choose(DESCRIPTOR_FILE | DESCRIPTOR_PIPE | DESCRIPTOR_EVENT);
    if (!d || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, flight.pair))
        return;
    flight.kind = answer(pass_send(flight.pair[0], d->number)) == 0 ? d->kind : DESCRIPTOR_NONE;
    flight.tag = d->tag;
}

/* ---- terminals ---- */

static void act_terminal(void)
{
    int fds[2] = {posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK), -1};
    struct termios mode;
    if (answer(fds[0] < 0 || grantpt(fds[0]) || unlockpt(fds[0]) ? -1 : 0))
        return;
    fds[1] = open(ptsname(fds[0]), O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (answer(tcgetattr(fds[1], &mode)))
        return;
    cfmakeraw(&mode);
    if (chance(40))
        mode.c_lflag |= ICANON;
    answer(tcsetattr(fds[1], TCSANOW, &mode));
    const struct winsize size = {.ws_row = (unsigned short)pick(100), .ws_col = (unsigned short)pick(100)};
    answer(ioctl(fds[0], TIOCSWINSZ, &size));
    keep_both(fds, DESCRIPTOR_TERMINAL, TAG_MASTER, TAG_SLAVE);
}

static void act_type(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_TERMINAL);
    char text[32];
    int bytes = snprintf(text, sizeof text, "line %zu\n", pick(1000));
    if (d && held(d->number) < 1000 && descriptor_is_ready(d, POLLOUT))
        answer(write(d->number, text, (size_t)bytes));
}

/* Between the two sides is a thread of the kernel, which may need a moment. */
static void act_read_terminal(void)
{
    struct descriptor *d = descriptor_choose(DESCRIPTOR_TERMINAL);
    char text[64] = "";
    struct pollfd look = {.fd = d ? d->number : -1, .events = POLLIN};
    if (!d || poll(&look, 1, 30) != 1 || !(look.revents & POLLIN))
        return;
    if (answer(read(d->number, text, 6)) > 0)
        say_bytes(text, 6);
}

static const struct operation operations[] = {
    {"pipe", 4, act_pipe},
    {"packets", 1, act_packets},
    {"write", 8, act_write},
    {"read", 6, act_read},
    {"sockets", 3, act_sockets},
    {"send", 6, act_send},
    {"empty_messages", 2, act_empty_messages},
    {"receive", 5, act_receive},
    {"pass_later", 2, act_pass_later},
    {"terminal", 2, act_terminal},
    {"type", 3, act_type},
    {"read_terminal", 3, act_read_terminal},
    {NULL, 0, NULL},
};

/* What a pipe holds, by a copy in another one. */
static void observe_pipe(int place, const struct descriptor *d)
{
    int copy[2];
    note("#%d holds %ld, size %d", place, held(d->number), fcntl(d->number, F_GETPIPE_SZ));
    if (d->tag != TAG_READ || held(d->number) <= 0 || pipe2(copy, O_CLOEXEC | O_NONBLOCK))
        return;
    fcntl(copy[1], F_SETPIPE_SZ, 1 << 20);
    ssize_t bytes = tee(d->number, copy[1], sizeof buffer, SPLICE_F_NONBLOCK);
    size_t got = 0;
    for (ssize_t more; bytes > 0 && (more = read(copy[0], buffer + got, sizeof buffer - got)) > 0;)
        got += (size_t)more;
    note_bytes("... it", buffer, got);
    close(copy[0]);
    close(copy[1]);
}

static void observe_socket(int place, const struct descriptor *d)
{
    int type = 0, option = 0;
    socklen_t length = sizeof type, option_length = sizeof option;
    getsockopt(d->number, SOL_SOCKET, SO_TYPE, &type, &length);
    getsockopt(d->number, SOL_SOCKET, SO_PASSCRED, &option, &option_length);
    ssize_t bytes = recv(d->number, buffer, sizeof buffer, MSG_PEEK | MSG_DONTWAIT);
    note("#%d type %d, passes %d, %s", place, type, option, bytes < 0 ? error_name(errno) : "");
    if (bytes >= 0)
        note_bytes("... it", buffer, (size_t)bytes);
}

static void observe_terminal(int place, const struct descriptor *d)
{
    struct termios mode;
    struct winsize size = {0};
    if (tcgetattr(d->number, &mode)) { /* its other side is closed */
        note("#%d %s", place, error_name(errno));
        return;
    }
    ioctl(d->number, TIOCGWINSZ, &size);
    note("#%d modes %x %x %x %x, %d x %d", place, mode.c_iflag, mode.c_oflag, mode.c_cflag, mode.c_lflag,
         size.ws_row, size.ws_col);
}

static void observe(void)
{
    for (int i = 0; i < DESCRIPTORS; i++) {
        const struct descriptor *d = descriptor_at(i);
        if (d->kind == DESCRIPTOR_PIPE)
            observe_pipe(i, d);
        else if (d->kind == DESCRIPTOR_SOCKET)
            observe_socket(i, d);
        else if (d->kind == DESCRIPTOR_TERMINAL)
            observe_terminal(i, d);
    }
}

const struct kind kind_pipes = {"pipes", operations, .observe = observe};
