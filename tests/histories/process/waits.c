/*
 * waits.c - calls that wait, in a thread, for data that the main thread gives in pieces, slowly enough for a
 * line to come in between: what arrives, and what the calls return, is the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/core/world.h"

#define BYTES_MAX (400u << 10)
#define PIECES_MAX 8
#define NAP_NS 400000

static char given[BYTES_MAX], got[BYTES_MAX];

struct wait {
    int fd;
    FILE *file;
    size_t bytes;
    long result;
    int error;
};

static void nap(void)
{
    nanosleep(&(const struct timespec){0, NAP_NS}, NULL);
}

static void *in_thread(struct wait *w, void *(*body)(void *w), pthread_t *id)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (pthread_create(id, NULL, body, w))
        wrong("no thread");
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return w;
}

static void finish(struct wait *w, long result)
{
    w->error = errno;
    w->result = result;
}

static void tell(const struct wait *w, pthread_t id)
{
    pthread_join(id, NULL);
    errno = w->error;
    answer(w->result);
}

static void make_pair(int fds[2], bool are_sockets)
{
    if (are_sockets ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) : pipe2(fds, O_CLOEXEC))
        wrong("no pair");
}

static void close_pair(const int fds[2])
{
    close(fds[0]);
    close(fds[1]);
}

/* ---- a reader waits ---- */

static void *read_all_at_once(void *argument)
{
    struct wait *w = argument;
    finish(w, recv(w->fd, got, w->bytes, MSG_WAITALL));
    return NULL;
}

static void *read_pieces(void *argument)
{
    struct wait *w = argument;
    size_t at = 0;
    for (ssize_t more = 1; at < w->bytes && more > 0; at += more > 0 ? (size_t)more : 0)
        more = read(w->fd, got + at, w->bytes - at);
    finish(w, (long)at);
    return NULL;
}

static void give_pieces(int fd, size_t bytes)
{
    size_t pieces = 1 + pick(PIECES_MAX);
    for (size_t at = 0; at < bytes;) {
        size_t piece = bytes / pieces + 1;
        piece = piece < bytes - at ? piece : bytes - at;
        nap();
        ssize_t done = write(fd, given + at, piece);
        if (done <= 0) {
            wrong("write: %s", error_name(errno));
            return;
        }
        at += (size_t)done;
    }
}

static void read_while_given(bool are_sockets, void *(*body)(void *w))
{
    int fds[2];
    pthread_t id;
    struct wait w = {.bytes = pick_length(BYTES_MAX)};
    make_pair(fds, are_sockets);
    fill(given, w.bytes, roll());
    memset(got, 0, w.bytes);
    w.fd = fds[0];
    in_thread(&w, body, &id);
    give_pieces(fds[1], w.bytes);
    tell(&w, id);
    say_bytes(got, w.bytes);
    close_pair(fds);
}

static void act_read(void)
{
    read_while_given(false, read_pieces);
}

static void act_receive_all(void)
{
    read_while_given(true, read_all_at_once);
}

/* ---- a writer waits ---- */

static void *write_all(void *argument)
{
    struct wait *w = argument;
    finish(w, write(w->fd, given, w->bytes));
    return NULL;
}

static void *writev_all(void *argument)
{
    struct wait *w = argument;
    struct iovec pieces[3] = {{given, w->bytes / 3}, {given + w->bytes / 3, w->bytes / 3}, {NULL, 0}};
    pieces[2] = (struct iovec){given + 2 * (w->bytes / 3), w->bytes - 2 * (w->bytes / 3)};
    finish(w, writev(w->fd, pieces, 3));
    return NULL;
}

static void *sendmsg_all(void *argument)
{
    struct wait *w = argument;
    struct iovec piece = {given, w->bytes};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    finish(w, sendmsg(w->fd, &message, MSG_NOSIGNAL));
    return NULL;
}

static void *sendfile_all(void *argument)
{
    struct wait *w = argument;
    off_t at = 0;
    for (ssize_t more = 1;
         at < (off_t)w->bytes && more > 0;) /* how much one call takes is the kernel's choice */
        more = sendfile(w->fd, fileno(w->file), &at, w->bytes - (size_t)at);
    finish(w, (long)at);
    return NULL;
}

static void *splice_all(void *argument)
{
    struct wait *w = argument;
    loff_t at = 0;
    for (ssize_t more = 1; at < (loff_t)w->bytes && more > 0;)
        more = splice(fileno(w->file), &at, w->fd, NULL, w->bytes - (size_t)at, 0);
    finish(w, (long)at);
    return NULL;
}

/* What is given comes from a file without a name, as far as a limit of files' sizes lets it. */
static void put_into_file(struct wait *w)
{
    struct stat stat;
    w->file = tmpfile();
    setvbuf(w->file, NULL, _IONBF, 0);
    fwrite(given, 1, w->bytes, w->file);
    if (fstat(fileno(w->file), &stat) == 0)
        w->bytes = (size_t)stat.st_size;
}

static void take_pieces(int fd, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        size_t piece = bytes - at < 60000 ? bytes - at : 60000;
        nap();
        ssize_t done = read(fd, got + at, piece);
        if (done <= 0) {
            wrong("read: %s", error_name(errno));
            return;
        }
        at += (size_t)done;
    }
}

static void write_while_taken(bool are_sockets, void *(*body)(void *w))
{
    int fds[2];
    pthread_t id;
    struct wait w = {.bytes = 150000 + pick(BYTES_MAX - 150000)}; /* more than a pipe or socket holds */
    make_pair(fds, are_sockets);
    fill(given, w.bytes, roll());
    memset(got, 0, w.bytes);
    w.fd = fds[1];
    if (body == sendfile_all || body == splice_all)
        put_into_file(&w);
    in_thread(&w, body, &id);
    take_pieces(fds[0], w.bytes);
    tell(&w, id);
    say_bytes(got, w.bytes);
    close_pair(fds);
    if (w.file)
        fclose(w.file);
}

static void act_write(void)
{
    write_while_taken(false, write_all);
}

static void act_write_socket(void)
{
    write_while_taken(true, write_all);
}

static void act_writev(void)
{
    write_while_taken(false, writev_all);
}

static void act_writev_socket(void)
{
    write_while_taken(true, writev_all);
}

static void act_sendmsg(void)
{
    write_while_taken(true, sendmsg_all);
}

static void act_sendfile(void)
{
    write_while_taken(false, sendfile_all);
}

static void act_sendfile_socket(void)
{
    write_while_taken(true, sendfile_all);
}

static void act_splice(void)
{
    write_while_taken(false, splice_all);
}

/* ---- others ---- */

static void *poll_for_input(void *argument)
{
    struct wait *w = argument;
    struct pollfd look = {.fd = w->fd, .events = POLLIN};
    finish(w, poll(&look, 1, 60000));
    return NULL;
}

static void poll_pair(bool are_sockets)
{
    int fds[2];
    pthread_t id;
    struct wait w = {.bytes = 1};
    make_pair(fds, are_sockets);
    w.fd = fds[0];
    in_thread(&w, poll_for_input, &id);
    nap();
    answer(write(fds[1], "p", 1));
    tell(&w, id);
    close_pair(fds);
}

static void act_poll(void)
{
    poll_pair(false);
}

static void act_poll_socket(void)
{
    poll_pair(true);
}

static void *wait_for_signal(void *argument)
{
    struct wait *w = argument;
    sigset_t set;
    int number = 0;
    sigemptyset(&set);
    sigaddset(&set, (int)w->bytes);
    sigwait(&set, &number);
    finish(w, number);
    return NULL;
}

/* Everything is blocked in the thread. */
static void act_signal(void)
{
    pthread_t id;
    struct wait w = {.bytes = SIGTERM};
    in_thread(&w, wait_for_signal, &id);
    nap();
    answer_error(pthread_kill(id, SIGTERM));
    tell(&w, id);
}

static void *wait_for_semaphore(void *argument)
{
    struct wait *w = argument;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    finish(w, sem_timedwait((sem_t *)(void *)given, &until));
    return NULL;
}

static void act_semaphore(void)
{
    pthread_t id;
    struct wait w = {.bytes = 0};
    sem_init((sem_t *)(void *)given, 0, 0);
    in_thread(&w, wait_for_semaphore, &id);
    nap();
    answer(sem_post((sem_t *)(void *)given));
    tell(&w, id);
}

static const struct operation operations[] = {
    {"read", 3, act_read},
    {"receive_all", 2, act_receive_all},
    {"write", 3, act_write},
    {"write_socket", 2, act_write_socket},
    {"writev", 2, act_writev},
    {"writev_socket", 2, act_writev_socket},
    {"sendmsg", 2, act_sendmsg},
    {"sendfile", 2, act_sendfile},
    {"sendfile_socket", 2, act_sendfile_socket},
    {"splice", 2, act_splice},
    {"poll", 2, act_poll},
    {"poll_socket", 2, act_poll_socket},
    {"signal", 2, act_signal},
    {"semaphore", 2, act_semaphore},
    {NULL, 0, NULL},
};

const struct kind kind_waits = {.name = "waits", .operations = operations};
