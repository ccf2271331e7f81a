/*
 * time_transfers - calls that transfer data for longer than the interval of the lines: nothing but the
 * program's own signals may end one of them early.
 *
 *     --mode pipes       (default) what a restart brings back: pipes, files, devices
 *     --mode sockets     sockets, terminals, children, which it does not
 *     --mode handlers    handlers of the program end them as they do natively
 */
#define _GNU_SOURCE
#include "tests/programs/transfers.h"

#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct program program = {.steps = 4};

void expect(int is_true, const char *name, const char *what)
{
    if (!is_true)
        fail(&program, "%s: %s (errno %d)", name, what, errno);
}

void pause_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* ---- what the other side does, and the data ---- */

static unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 31 + i / 251);
}

void fill(struct transfer *t)
{
    for (size_t i = 0; i < TOTAL; i++)
        t->data[i] = byte_at(i);
}

void check_data(const struct transfer *t, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        expect(t->data[i] == byte_at(i), t->name, "wrong data");
}

void make_pipe(struct transfer *t)
{
    expect(pipe2(t->fds, O_CLOEXEC) == 0, t->name, "pipe");
}

void drain_bytes(struct transfer *t, size_t bytes)
{
    unsigned char piece[PIECE];
    for (size_t at = 0; at < bytes;) {
        ssize_t got = read(t->fds[0], piece, bytes - at < PIECE ? bytes - at : PIECE);
        expect(got > 0, t->name, "the other side's read");
        for (ssize_t i = 0; i < got; i++)
            expect(piece[i] == byte_at(at + (size_t)i), t->name, "wrong data");
        at += (size_t)got;
        pause_ms(PAUSE_MS);
    }
}

void drain(struct transfer *t)
{
    drain_bytes(t, TOTAL);
}

void feed(struct transfer *t)
{
    unsigned char piece[PIECE];
    for (size_t at = 0; at < TOTAL;) {
        size_t bytes = TOTAL - at < PIECE ? TOTAL - at : PIECE;
        for (size_t i = 0; i < bytes; i++)
            piece[i] = byte_at(at + i);
        expect(write(t->fds[1], piece, bytes) == (ssize_t)bytes, t->name, "the other side's write");
        at += bytes;
        pause_ms(PAUSE_MS);
    }
}

/* The data in parts of all sizes, one of them empty. */
void divide(const struct transfer *t, struct iovec parts[PARTS])
{
    static const size_t ends[PARTS] = {1, 70000, 70000, 150001, 299990, TOTAL};
    for (int i = 0; i < PARTS; i++) {
        size_t start = i ? ends[i - 1] : 0;
        parts[i] = (struct iovec){t->data + start, ends[i] - start};
    }
}

void expect_unchanged(const struct transfer *t, const struct iovec parts[PARTS])
{
    struct iovec before[PARTS];
    divide(t, before);
    expect(!memcmp(before, parts, sizeof before), t->name, "its vector has changed");
}

void make_pair(struct transfer *t)
{
    expect(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, t->fds) == 0, t->name, "socketpair");
}

/* A named pipe, whose other end is opened later. */
void make_fifo(struct transfer *t)
{
    char path[64];
    snprintf(path, sizeof path, "fifo-%d", program.rank);
    unlink(path);
    expect(mkfifo(path, 0600) == 0, t->name, "mkfifo");
}

void make_nothing(struct transfer *t)
{
    (void)t;
}

/* ---- on pipes ---- */

void call_write(struct transfer *t)
{
    fill(t);
    expect(write(t->fds[1], t->data, TOTAL) == TOTAL, t->name, "not all was written");
}

/* By an instruction of its own, not the C library's. */
static void call_write_raw(struct transfer *t)
{
    fill(t);
    expect(syscall(SYS_write, t->fds[1], t->data, TOTAL) == TOTAL, t->name, "not all was written");
}

static void call_writev(struct transfer *t)
{
    struct iovec parts[PARTS];
    fill(t);
    divide(t, parts);
    expect(writev(t->fds[1], parts, PARTS) == TOTAL, t->name, "not all was written");
    expect_unchanged(t, parts);
}

static void call_pwritev2(struct transfer *t)
{
    struct iovec parts[PARTS];
    fill(t);
    divide(t, parts);
    expect(pwritev2(t->fds[1], parts, PARTS, -1, 0) == TOTAL, t->name, "not all was written");
    expect_unchanged(t, parts);
}

/* A file with the data. */
int open_data(struct transfer *t)
{
    char path[64];
    snprintf(path, sizeof path, "sent-%d", program.rank);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fill(t);
    expect(file >= 0 && write(file, t->data, TOTAL) == TOTAL && lseek(file, 0, SEEK_SET) == 0, t->name,
           "its file");
    return file;
}

/* A pipe takes what it has room for. */
static void call_sendfile_to_pipe(struct transfer *t)
{
    int file = open_data(t);
    for (size_t at = 0; at < TOTAL;) {
        ssize_t sent = sendfile(t->fds[1], file, NULL, TOTAL - at);
        expect(sent > 0, t->name, "sendfile");
        at += (size_t)sent;
        expect(lseek(file, 0, SEEK_CUR) == (off_t)at, t->name, "its position");
    }
    close(file);
}

/* From a pipe that is empty at first to a file. */
static void call_splice(struct transfer *t)
{
    char path[64];
    loff_t offset = 3;
    snprintf(path, sizeof path, "splice-%d", program.rank);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (size_t at = 0; at < TOTAL;) {
        ssize_t moved = splice(t->fds[0], NULL, file, &offset, TOTAL - at, 0);
        expect(moved > 0, t->name, "splice");
        at += (size_t)moved;
        expect(offset == (loff_t)at + 3, t->name, "its offset");
    }
    expect(pread(file, t->data, TOTAL, 3) == TOTAL, t->name, "its file");
    check_data(t, TOTAL);
    close(file);
    unlink(path);
}

static void make_pipes(struct transfer *t)
{
    int more[2];
    make_pipe(t);
    expect(pipe2(more, O_CLOEXEC) == 0, t->name, "pipe");
    t->child = more[0] << 16 | more[1];
}

/* From an empty pipe to another one. */
static void call_tee(struct transfer *t)
{
    int from = t->child >> 16, to = t->child & 0xffff;
    unsigned char original[PIECE];
    for (size_t at = 0; at < TOTAL;) {
        ssize_t moved = tee(t->fds[0], to, PIECE, 0);
        expect(moved > 0, t->name, "tee");
        expect(read(t->fds[0], original, (size_t)moved) == moved, t->name, "read");
        expect(read(from, t->data + at, (size_t)moved) == moved, t->name, "what was copied");
        at += (size_t)moved;
    }
    check_data(t, TOTAL);
}

static void call_vmsplice(struct transfer *t)
{
    fill(t);
    for (size_t at = 0; at < TOTAL;) {
        struct iovec part = {t->data + at, TOTAL - at};
        ssize_t moved = vmsplice(t->fds[1], &part, 1, 0);
        expect(moved > 0, t->name, "vmsplice");
        at += (size_t)moved;
    }
}

static int open_fifo(struct transfer *t, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "fifo-%d", program.rank);
    int fd = open(path, flags | O_CLOEXEC);
    expect(fd >= 0, t->name, "open");
    return fd;
}

static void call_open(struct transfer *t)
{
    int fd = open_fifo(t, O_RDONLY), got = 0;
    char text[3] = "";
    while (got < 2) {
        ssize_t bytes = read(fd, text + got, (size_t)(2 - got));
        expect(bytes > 0, t->name, "read");
        got += (int)bytes;
    }
    expect(!strcmp(text, "ab"), t->name, "what was read");
    close(fd);
}

static void open_later(struct transfer *t)
{
    pause_ms(25 * PAUSE_MS);
    int fd = open_fifo(t, O_WRONLY);
    expect(write(fd, "ab", 2) == 2, t->name, "write");
    close(fd);
}

/* Devices that have as much as they are asked for; nobody is on the other side. */
static void call_random(struct transfer *t)
{
    int device = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 15; i++) {
        expect(getrandom(t->data, TOTAL, 0) == TOTAL, t->name, "too few bytes");
        expect(read(device, t->data, TOTAL) == TOTAL, t->name, "too few bytes of the device");
        pause_ms(PAUSE_MS);
    }
    close(device);
}

static void call_zero(struct transfer *t)
{
    struct iovec parts[PARTS];
    int device = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    divide(t, parts);
    for (int i = 0; i < 300; i++) {
        expect(read(device, t->data, TOTAL) == TOTAL, t->name, "too few bytes");
        expect(readv(device, parts, PARTS) == TOTAL, t->name, "too few bytes for the vector");
    }
    expect_unchanged(t, parts);
    close(device);
}

static struct transfer on_pipes[] = {
    {.name = "write", .make = make_pipe, .call = call_write, .other = drain},
    {.name = "write by itself", .make = make_pipe, .call = call_write_raw, .other = drain},
    {.name = "writev", .make = make_pipe, .call = call_writev, .other = drain},
    {.name = "pwritev2", .make = make_pipe, .call = call_pwritev2, .other = drain},
    {.name = "sendfile to a pipe", .make = make_pipe, .call = call_sendfile_to_pipe, .other = drain},
    {.name = "splice", .make = make_pipe, .call = call_splice, .other = feed},
    {.name = "tee", .make = make_pipes, .call = call_tee, .other = feed},
    {.name = "vmsplice", .make = make_pipe, .call = call_vmsplice, .other = drain},
    {.name = "open", .make = make_fifo, .call = call_open, .other = open_later},
    {.name = "random", .make = make_nothing, .call = call_random, .other = make_nothing},
    {.name = "zero", .make = make_nothing, .call = call_zero, .other = make_nothing},
    {.name = NULL},
};

/* ---- all of them, once in every step ---- */

void step_of_mpi(long step)
{
    uint64_t mine = mix_number((uint64_t)program.rank, (uint64_t)step, 7), all;
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    digest_add_number(&program.digest, all);
    program_step(&program, step);
}

static void *run_side(void *argument)
{
    struct transfer *t = argument;
    int is_caller = pthread_equal(pthread_self(), t->threads[0]);
    for (long step = 0; step < program.steps; step++) {
        pthread_barrier_wait(t->together);
        (is_caller ? t->call : t->other)(t);
        pthread_barrier_wait(t->together);
    }
    return NULL;
}

static void transfer_all(struct transfer *transfers)
{
    pthread_barrier_t together;
    pthread_attr_t attributes;
    unsigned count = 0;
    while (transfers[count].name)
        count++;
    pthread_barrier_init(&together, NULL, 2 * count + 1);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    for (struct transfer *t = transfers; t->name; t++) {
        t->together = &together;
        t->data = calloc(1, TOTAL);
        t->make(t);
    }
    for (struct transfer *t = transfers; t->name; t++)
        for (int side = 0; side < 2; side++)
            pthread_create(&t->threads[side], &attributes, run_side, t);
    for (long step = 1; step <= program.steps; step++) {
        pthread_barrier_wait(&together);
        pthread_barrier_wait(&together);
        step_of_mpi(step);
    }
    for (struct transfer *t = transfers; t->name; t++)
        for (int side = 0; side < 2; side++)
            pthread_join(t->threads[side], NULL);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    program_begin(&program, "time_transfers", argc, argv);
    if (!strcmp(program.mode, "handlers"))
        transfers_handlers(0);
    else if (!strcmp(program.mode, "sockets")) {
        transfer_all(transfers_on_sockets);
        transfer_all(transfers_in_time);
        transfers_handlers(1);
    } else
        transfer_all(on_pipes);
    program_end(&program);
    MPI_Finalize();
    return 0;
}
