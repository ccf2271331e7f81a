/* transfers_sockets.c - see transfers.h: transfers on sockets, terminals, and the wait for a child. */
#define _GNU_SOURCE
#include "tests/programs/transfers.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define MESSAGES 5

static void call_send(struct transfer *t)
{
    fill(t);
    expect(send(t->fds[1], t->data, TOTAL, 0) == TOTAL, t->name, "not all was sent");
}

static void call_sendto_raw(struct transfer *t)
{
    fill(t);
    expect(syscall(SYS_sendto, t->fds[1], t->data, TOTAL, 0, NULL, 0) == TOTAL, t->name, "not all was sent");
}

/* A socket takes all; once from a position that is told, once from the file's own. */
static void call_sendfile(struct transfer *t)
{
    off_t offset = 0;
    const size_t half = TOTAL / 2;
    int file = open_data(t);
    expect(sendfile(t->fds[1], file, &offset, half) == (ssize_t)half && offset == (off_t)half, t->name,
           "not all was sent");
    lseek(file, offset, SEEK_SET);
    expect(sendfile(t->fds[1], file, NULL, TOTAL) == (ssize_t)(TOTAL - half), t->name,
           "not all was sent to the end");
    expect(lseek(file, 0, SEEK_CUR) == TOTAL, t->name, "its position");
    close(file);
}

static void call_sendmsg(struct transfer *t)
{
    struct iovec parts[PARTS];
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = PARTS}, before = message;
    fill(t);
    divide(t, parts);
    expect(sendmsg(t->fds[1], &message, 0) == TOTAL, t->name, "not all was sent");
    expect_unchanged(t, parts);
    expect(!memcmp(&message, &before, sizeof before), t->name, "its header has changed");
}

/* The data as several messages, the third of which is large. */
static void call_sendmmsg(struct transfer *t)
{
    static const size_t ends[MESSAGES] = {5, 60000, 240000, 240001, TOTAL};
    struct mmsghdr messages[MESSAGES];
    struct iovec parts[MESSAGES];
    memset(messages, 0, sizeof messages);
    fill(t);
    for (int i = 0; i < MESSAGES; i++) {
        size_t start = i ? ends[i - 1] : 0;
        parts[i] = (struct iovec){t->data + start, ends[i] - start};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    expect(sendmmsg(t->fds[1], messages, MESSAGES, 0) == MESSAGES, t->name, "not all was sent");
    for (int i = 0; i < MESSAGES; i++)
        expect(messages[i].msg_len == parts[i].iov_len, t->name, "a message's length");
}

static void call_receive(struct transfer *t)
{
    expect(recv(t->fds[0], t->data, TOTAL, MSG_WAITALL) == TOTAL, t->name, "not all was received");
    check_data(t, TOTAL);
}

static void call_receive_message(struct transfer *t)
{
    struct iovec parts[PARTS];
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = PARTS};
    divide(t, parts);
    expect(recvmsg(t->fds[0], &message, MSG_WAITALL) == TOTAL, t->name, "not all was received");
    expect_unchanged(t, parts);
    expect(!message.msg_controllen && !message.msg_flags, t->name, "its header");
    check_data(t, TOTAL);
}

/* The other side ends when it has taken nothing: what was sent is told, without SIGPIPE. */
static ssize_t send_somehow(int fd, int how, const struct transfer *t)
{
    struct iovec parts[PARTS];
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = PARTS};
    divide(t, parts);
    return how == 0   ? write(fd, t->data, TOTAL)
           : how == 1 ? writev(fd, parts, PARTS)
           : how == 2 ? send(fd, t->data, TOTAL, 0)
                      : sendmsg(fd, &message, 0);
}

static void call_send_in_vain(struct transfer *t)
{
    for (int how = 0; how < 4; how++) {
        int status, ends[2];
        expect(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), t->name, "socketpair");
        pid_t child = fork();
        if (child == 0) {
            pause_ms(20 * PAUSE_MS);
            _exit(0);
        }
        close(ends[0]);
        ssize_t sent = send_somehow(ends[1], how, t);
        expect(sent > 0 && sent < TOTAL, t->name, "not as much as there was room for");
        close(ends[1]);
        expect(waitpid(child, &status, 0) == child, t->name, "waitpid");
    }
}

/* As many as the socket is told to wait for. */
static void call_read_least(struct transfer *t)
{
    int least = 90000;
    expect(setsockopt(t->fds[0], SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least) == 0, t->name, "setsockopt");
    for (size_t at = 0; at < TOTAL;) {
        ssize_t got = read(t->fds[0], t->data + at, TOTAL - at);
        expect(got >= least || at + (size_t)got == TOTAL, t->name, "less than it had to wait for");
        at += (size_t)got;
    }
    check_data(t, TOTAL);
}

static void make_datagrams(struct transfer *t)
{
    expect(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, t->fds) == 0, t->name, "socketpair");
}

static void send_datagrams(struct transfer *t)
{
    for (int i = 0; i < MESSAGES; i++) {
        pause_ms(5 * PAUSE_MS);
        expect(send(t->fds[1], "datagram", (size_t)(i + 1), 0) == i + 1, t->name, "send");
    }
}

static void call_recvmmsg(struct transfer *t)
{
    struct mmsghdr messages[MESSAGES];
    struct iovec parts[MESSAGES];
    struct timespec timeout = {60, 0};
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < MESSAGES; i++) {
        parts[i] = (struct iovec){t->data + 100 * i, 100};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    expect(recvmmsg(t->fds[0], messages, MESSAGES, 0, &timeout) == MESSAGES, t->name, "too few messages");
    for (int i = 0; i < MESSAGES; i++)
        expect(messages[i].msg_len == (unsigned)i + 1, t->name, "a message's length");
    expect(timeout.tv_sec < 60 && timeout.tv_sec > 20, t->name, "what was left of the time");
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(t->fds[0], SOL_SOCKET, SO_ERROR, &error, &bytes);
    expect(!error, t->name, "an error stays");
}

/* A send that is given up after its time, with what had been sent. */
static void call_send_in_time(struct transfer *t)
{
    struct timeval timeout = {0, 20 * PAUSE_MS * 1000};
    setsockopt(t->fds[1], SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    fill(t);
    double start = seconds_now();
    ssize_t sent = send(t->fds[1], t->data, TOTAL, 0);
    double took = seconds_now() - start;
    expect(sent > 0 && sent < TOTAL && took > 0.9 * 20 * PAUSE_MS / 1000, t->name,
           "it did not wait for its time");
    drain_bytes(t, (size_t)sent);
}

/* A terminal that is to give so many bytes at once. */
static void make_terminal(struct transfer *t)
{
    struct termios raw;
    t->fds[1] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    expect(t->fds[1] >= 0 && !grantpt(t->fds[1]) && !unlockpt(t->fds[1]), t->name, "posix_openpt");
    t->fds[0] = open(ptsname(t->fds[1]), O_RDWR | O_NOCTTY | O_CLOEXEC);
    expect(t->fds[0] >= 0 && !tcgetattr(t->fds[0], &raw), t->name, "tcgetattr");
    cfmakeraw(&raw);
    raw.c_cc[VMIN] = 60;
    expect(!tcsetattr(t->fds[0], TCSANOW, &raw), t->name, "tcsetattr");
}

static void type_slowly(struct transfer *t)
{
    for (int i = 0; i < 300; i += 5) {
        pause_ms(PAUSE_MS);
        expect(write(t->fds[1], "bytes", 5) == 5, t->name, "write");
    }
}

static void call_read_terminal(struct transfer *t)
{
    char text[300];
    for (ssize_t at = 0, got; at < 300; at += got) {
        got = read(t->fds[0], text, (size_t)(300 - at));
        expect(got >= 60 || at + got == 300, t->name, "less than it had to wait for");
    }
}

/* A descriptor that comes with a message is a descriptor like others. */
static void pass_descriptor(struct transfer *t)
{
    char space[CMSG_SPACE(sizeof(int))] = "", text[] = "one";
    struct iovec part = {text, 3};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr *control = CMSG_FIRSTHDR(&message);
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(control), &fd, sizeof fd);
    pause_ms(20 * PAUSE_MS);
    expect(sendmsg(t->fds[1], &message, 0) == 3 && !close(fd), t->name, "sendmsg");
}

static void call_take_descriptor(struct transfer *t)
{
    char space[CMSG_SPACE(sizeof(int))], text[4], byte = 1;
    struct iovec part = {text, sizeof text};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    int fd = -1;
    expect(recvmsg(t->fds[0], &message, 0) == 3, t->name, "recvmsg");
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    expect(read(fd, &byte, 1) == 1 && byte == 0, t->name, "its descriptor");
    expect(close(fd) == 0, t->name, "it cannot be closed");
}

static void call_queue(struct transfer *t)
{
    char name[64], text[64];
    struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = sizeof text};
    struct timespec until;
    snprintf(name, sizeof name, "/belay-%d", (int)getpid());
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600, &attributes);
    mq_unlink(name);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20 * PAUSE_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    expect(mq_timedreceive(queue, text, sizeof text, NULL, &until) == -1 && errno == ETIMEDOUT, t->name,
           "it did not wait for its time");
    expect(mq_close(queue) == 0, t->name, "it cannot be closed");
}

/* A child, which is waited for in every way. */
static void call_wait(struct transfer *t)
{
    for (int i = 0; i < 2; i++) {
        int status = 0;
        siginfo_t info;
        pid_t child = fork();
        if (child == 0) {
            pause_ms(20 * PAUSE_MS);
            _exit(7);
        }
        if (i)
            expect(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7, t->name, "waitpid");
        else
            expect(!waitid(P_PID, (id_t)child, &info, WEXITED) && info.si_status == 7, t->name, "waitid");
    }
}

struct transfer transfers_on_sockets[] = {
    {.name = "send", .make = make_pair, .call = call_send, .other = drain},
    {.name = "sendto by itself", .make = make_pair, .call = call_sendto_raw, .other = drain},
    {.name = "write to a socket", .make = make_pair, .call = call_write, .other = drain},
    {.name = "sendfile", .make = make_pair, .call = call_sendfile, .other = drain},
    {.name = "sendmsg", .make = make_pair, .call = call_sendmsg, .other = drain},
    {.name = "sendmmsg", .make = make_pair, .call = call_sendmmsg, .other = drain},
    {.name = "recv", .make = make_pair, .call = call_receive, .other = feed},
    {.name = "recvmsg", .make = make_pair, .call = call_receive_message, .other = feed},
    {.name = "send in vain", .make = make_nothing, .call = call_send_in_vain, .other = make_nothing},
    {.name = "SO_RCVLOWAT", .make = make_pair, .call = call_read_least, .other = feed},
    {.name = "recvmmsg", .make = make_datagrams, .call = call_recvmmsg, .other = send_datagrams},
    {.name = "terminal", .make = make_terminal, .call = call_read_terminal, .other = type_slowly},
    {.name = "SCM_RIGHTS", .make = make_pair, .call = call_take_descriptor, .other = pass_descriptor},
    {.name = "queue", .make = make_nothing, .call = call_queue, .other = make_nothing},
    {.name = "wait", .make = make_nothing, .call = call_wait, .other = make_nothing},
    {.name = NULL},
};

/* Alone, since from then on other calls are made in another way, too. */
struct transfer transfers_in_time[] = {
    {.name = "SO_SNDTIMEO", .make = make_pair, .call = call_send_in_time, .other = make_nothing},
    {.name = "send", .make = make_pair, .call = call_send, .other = drain},
    {.name = "recv", .make = make_pair, .call = call_receive, .other = feed},
    {.name = NULL},
};
