/*
 * fabric.c - streams bytes from one process to another: the bare writes of a libfabric provider, and pushes
 * of node-agent/fabric through slabs, with MACs and encrypted.
 *
 *     fabric PROVIDER MIB [PAIRS [sums]]
 *
 * With PAIRS so many processes send so much each at the same time, each to a process of its own.
 * The writes go from registered memory to registered memory, as many bytes at a time as a slab has, WINDOW of
 * them under way. A push copies its bytes into slabs and out of them beside that, as an agent does. Prints
 * With `sums`, who pushes also computes the sum of each page and, in the end, the hash over all sums, as a
 * line does. `fabric_plain` is the same program without MACs and encryption (unsealed.c): what they cost is
 * the difference. Prints three lines: `raw`, `mac`, `encrypted`, each with the milliseconds until the last
 * one was done, and those of processor time of all processes.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include <sodium.h>

#include "common/image/sums.h"
#include "node-agent/fabric/endpoint.h"
#include "node-agent/fabric/fabric.h"
#include "common/secure/seal.h"

#define CHUNK_BYTES (256u << 10)
#define WINDOW 8u
#define PAIRS_MAX 16
#define SOURCE_BYTES (64u << 20) /* larger than caches; pushed again and again */

static bool has_sums; /* set before any process is forked */

/* What the receiving process tells the other one. */
struct target {
    struct fabric_address address;
    uint64_t remote, key;
};

/* How a sender and the process that measures speak: it writes a byte when it is ready, and its milliseconds
 * when it is done. It begins when the other one closes `go`. */
struct start {
    int go, ready;
};

/* One side of a push. */
struct side {
    uint64_t bytes, done;
    uint8_t *memory;
    bool has_sums;
    crypto_generichash_state root; /* over all sums */
    struct fabric_peer *peer;
    bool is_over;
};

static void fail(const char *what)
{
    fprintf(stderr, "fabric: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void fail_with(const struct belay_error *err)
{
    fprintf(stderr, "fabric: %s\n", err->text);
    exit(1);
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void wait_for_all(const struct start *start)
{
    char byte = 0;
    if (write(start->ready, &byte, 1) != 1 || read(start->go, &byte, 1) != 0)
        fail("start");
}

static uint8_t *make_memory(size_t bytes)
{
    uint8_t *memory = aligned_alloc(4096, bytes);
    if (!memory)
        fail("memory");
    memset(memory, 0x5a, bytes);
    return memory;
}

static const char *interface_of(const char *provider)
{
    return strcmp(provider, "shm") ? "127.0.0.1" : NULL;
}

/* Let others write, until it is killed. */
static void raw_receive(const char *provider, int out)
{
    struct belay_error err;
    struct endpoint_event events[WINDOW];
    int wake_fd = eventfd(0, EFD_CLOEXEC);
    struct endpoint *endpoint = endpoint_open(provider, interface_of(provider), &err);
    if (!endpoint)
        fail_with(&err);
    struct endpoint_memory *memory =
        endpoint_register(endpoint, make_memory(WINDOW * CHUNK_BYTES), WINDOW * CHUNK_BYTES, true, &err);
    if (!memory)
        fail_with(&err);
    struct target target;
    endpoint_address(endpoint, &target.address);
    endpoint_memory_name(memory, &target.remote, &target.key);
    if (write(out, &target, sizeof target) != sizeof target)
        fail("pipe");
    for (;;)
        if (endpoint_read(endpoint, events, WINDOW) == 0)
            endpoint_wait(endpoint, wake_fd, 1000);
}

static void write_all(struct endpoint *endpoint, uint64_t peer, const struct endpoint_memory *memory,
                      const uint8_t *from, const struct target *target, uint64_t chunks)
{
    struct endpoint_event events[WINDOW];
    uint64_t posted = 0, done = 0;
    int wake_fd = eventfd(0, EFD_CLOEXEC);
    while (done < chunks) {
        while (posted < chunks && posted - done < WINDOW) {
            size_t at = posted % (SOURCE_BYTES / CHUNK_BYTES) * CHUNK_BYTES;
            if (endpoint_write(endpoint, peer, memory, from + at, CHUNK_BYTES,
                               target->remote + posted % WINDOW * CHUNK_BYTES, target->key, 0) < 0)
                break;
            posted++;
        }
        if (posted == done && errno != EAGAIN)
            fail("write");
        size_t count = endpoint_read(endpoint, events, WINDOW);
        for (size_t i = 0; i < count; i++)
            if (events[i].error)
                fail("write");
        done += count;
        if (count == 0)
            endpoint_wait(endpoint, wake_fd, 5);
    }
    close(wake_fd);
}

/* Once more before that, for the connection. */
static double raw_send(const char *provider, const struct target *target, uint64_t chunks,
                       const struct start *start)
{
    struct belay_error err;
    uint64_t peer;
    struct endpoint *endpoint = endpoint_open(provider, interface_of(provider), &err);
    uint8_t *from = make_memory(SOURCE_BYTES);
    struct endpoint_memory *memory =
        endpoint ? endpoint_register(endpoint, from, SOURCE_BYTES, false, &err) : NULL;
    if (!memory)
        fail_with(&err);
    if (endpoint_add_peer(endpoint, &target->address, &peer) < 0)
        fail("peer");
    write_all(endpoint, peer, memory, from, target, WINDOW);
    wait_for_all(start);
    double begun_ms = now_ms();
    write_all(endpoint, peer, memory, from, target, chunks);
    double took_ms = now_ms() - begun_ms;
    endpoint_unregister(memory);
    endpoint_close(endpoint);
    free(from);
    return took_ms;
}

static void on_joined(void *context, struct fabric_peer *peer)
{
    ((struct side *)context)->peer = peer;
}

static void on_received(void *context, struct fabric_peer *peer, const uint8_t *bytes, size_t count)
{
    (void)context, (void)peer, (void)bytes, (void)count;
}

static void on_peer(void *context, struct fabric_peer *peer)
{
    (void)context, (void)peer;
}

static void on_lost(void *context, struct fabric_peer *peer, const char *reason)
{
    (void)context, (void)peer;
    fprintf(stderr, "fabric: the other process is lost: %s\n", reason);
    exit(1);
}

static int take(void *context, uint64_t offset, const uint8_t *bytes, size_t count)
{
    struct side *side = context;
    size_t at = offset % (SOURCE_BYTES - CHUNK_BYTES);
    memcpy(side->memory + at, bytes, count);
    return 0;
}

static void on_offered(void *context, struct fabric_peer *peer, struct fabric_pull *pull, const void *tag,
                       size_t tag_bytes, uint64_t bytes)
{
    (void)peer, (void)tag, (void)tag_bytes, (void)bytes;
    fabric_admit(pull, take, context);
}

static void on_pulled(void *context, struct fabric_pull *pull, int error)
{
    (void)context, (void)pull, (void)error;
}

static void on_pushed(void *context, struct fabric_push *push, int error)
{
    (void)push;
    errno = error;
    if (error)
        fail("push");
    ((struct side *)context)->is_over = true;
}

/* Of all whole pages of it. */
static void add_sums(struct side *side, const uint8_t *bytes, size_t count)
{
    uint64_t sums[CHUNK_BYTES / IMAGE_PAGE_BYTES];
    for (size_t at = 0, part; count - at >= IMAGE_PAGE_BYTES; at += part) {
        part = (count - at < CHUNK_BYTES ? count - at : CHUNK_BYTES) / IMAGE_PAGE_BYTES * IMAGE_PAGE_BYTES;
        sums_make(sums, side->done + at, bytes + at, part);
        crypto_generichash_update(&side->root, (const uint8_t *)sums, SUMS_OF_BYTES(part));
    }
}

static ssize_t fill(void *context, uint8_t *to, size_t room)
{
    struct side *side = context;
    uint64_t left = side->bytes - side->done;
    size_t count = left < room ? left : room, at = side->done % (SOURCE_BYTES - CHUNK_BYTES);
    memcpy(to, side->memory + at, count);
    if (side->has_sums)
        add_sums(side, to, count);
    side->done += count;
    return (ssize_t)count;
}

static const struct fabric_ops ops = {.joined = on_joined,
                                      .received = on_received,
                                      .writable = on_peer,
                                      .late = on_peer,
                                      .broken = on_peer,
                                      .lost = on_lost,
                                      .offered = on_offered,
                                      .pulled = on_pulled,
                                      .pushed = on_pushed};

static struct fabric *open_side(uv_loop_t *loop, const char *provider, enum fabric_mode mode, uint32_t node,
                                struct side *side)
{
    struct belay_error err;
    struct fabric_config config = {.provider = provider,
                                   .interface = interface_of(provider),
                                   .mode = mode,
                                   .key = {1},
                                   .self = {FABRIC_ROLE_MEMBER, node, 1},
                                   .stall_ms = 60000,
                                   .is_open = true};
    if (uv_loop_init(loop) != 0)
        fail("loop");
    *side = (struct side){.memory = make_memory(SOURCE_BYTES)};
    struct fabric *fabric = fabric_create(loop, &config, &ops, side, &err);
    if (!fabric)
        fail_with(&err);
    return fabric;
}

static void push_receive(const char *provider, enum fabric_mode mode, int out)
{
    uv_loop_t loop;
    struct side side;
    struct target target = {0};
    struct fabric *fabric = open_side(&loop, provider, mode, 1, &side);
    fabric_address(fabric, &target.address);
    if (write(out, &target, sizeof target) != sizeof target)
        fail("pipe");
    for (;;)
        uv_run(&loop, UV_RUN_ONCE);
}

static double push_send(const char *provider, enum fabric_mode mode, const struct target *target,
                        uint64_t bytes, const struct start *start)
{
    uint8_t root[crypto_generichash_BYTES];
    uv_loop_t loop;
    struct side side;
    struct fabric_identity other = {FABRIC_ROLE_MEMBER, 1, 1};
    double begun_ms = 0;
    struct fabric *fabric = open_side(&loop, provider, mode, 0, &side);
    if (!fabric_connect(fabric, &other, &target->address, NULL))
        fail("connect");
    while (!side.peer)
        uv_run(&loop, UV_RUN_ONCE);
    for (int i = 0; i < 2; i++) { /* once for the memory of both */
        side.has_sums = has_sums;
        crypto_generichash_init(&side.root, NULL, 0, sizeof root);
        side.bytes = i ? bytes : WINDOW * CHUNK_BYTES;
        side.done = 0;
        side.is_over = false;
        if (i)
            wait_for_all(start);
        begun_ms = now_ms();
        if (!fabric_push(side.peer, "", 0, side.bytes, fill, &side))
            fail("push");
        while (!side.is_over)
            uv_run(&loop, UV_RUN_ONCE);
        crypto_generichash_final(&side.root, root, sizeof root);
    }
    double took_ms = now_ms() - begun_ms;
    fabric_destroy(fabric);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    free(side.memory);
    return took_ms;
}

/* Processor time of all children that have ended. */
static double children_ms(void)
{
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

/* Fork a process that receives; *target is where to. */
static pid_t start_receiver(const char *provider, enum fabric_mode mode, struct target *target)
{
    int ends[2];
    if (pipe(ends) < 0)
        fail("pipe");
    pid_t pid = fork();
    if (pid == 0) {
        if (mode)
            push_receive(provider, mode, ends[1]);
        else
            raw_receive(provider, ends[1]);
    }
    close(ends[1]);
    if (pid < 0 || read(ends[0], target, sizeof *target) != sizeof *target)
        fail("receiver");
    close(ends[0]);
    return pid;
}

/* Fork a process that sends when `go` ends, whose other end it must not hold. */
static pid_t start_sender(const char *provider, enum fabric_mode mode, const struct target *target,
                          uint64_t mib, const struct start *start, int go_end)
{
    pid_t pid = fork();
    if (pid < 0)
        fail("sender");
    if (pid > 0)
        return pid;
    close(go_end);
    double took_ms = mode ? push_send(provider, mode, target, mib << 20, start)
                          : raw_send(provider, target, (mib << 20) / CHUNK_BYTES, start);
    _exit(write(start->ready, &took_ms, sizeof took_ms) == sizeof took_ms ? 0 : 1);
}

/* So many bytes from the senders; no more come if one of them has failed. */
static void read_exactly(int fd, void *to, size_t count)
{
    size_t done = 0;
    while (done < count) {
        ssize_t got = read(fd, (char *)to + done, count - done);
        if (got <= 0)
            exit(1);
        done += (size_t)got;
    }
}

/* Prints a line. This process has no thread when it forks. */
static void measure(const char *name, const char *provider, enum fabric_mode mode, uint64_t mib, int pairs)
{
    int go[2], ready[2], status;
    char bytes[PAIRS_MAX];
    double took_ms[PAIRS_MAX], longest_ms = 0, before_ms = children_ms();
    struct target targets[PAIRS_MAX] = {0};
    pid_t receivers[PAIRS_MAX], senders[PAIRS_MAX];
    fflush(stdout);
    for (int i = 0; i < pairs; i++)
        receivers[i] = start_receiver(provider, mode, &targets[i]);
    if (pipe(go) < 0 || pipe(ready) < 0)
        fail("pipe");
    const struct start start = {go[0], ready[1]};
    for (int i = 0; i < pairs; i++)
        senders[i] = start_sender(provider, mode, &targets[i], mib, &start, go[1]);
    close(go[0]);
    close(ready[1]);
    read_exactly(ready[0], bytes, (size_t)pairs);
    close(go[1]);
    read_exactly(ready[0], took_ms, (size_t)pairs * sizeof took_ms[0]);
    close(ready[0]);
    for (int i = 0; i < pairs; i++) {
        longest_ms = took_ms[i] > longest_ms ? took_ms[i] : longest_ms;
        waitpid(senders[i], &status, 0);
        kill(receivers[i], SIGKILL);
        waitpid(receivers[i], &status, 0);
    }
    printf("%s %.3f %.3f\n", name, longest_ms, children_ms() - before_ms);
}

int main(int argc, char **argv)
{
    struct belay_error err;
    uint64_t mib = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    int pairs = argc > 3 ? atoi(argv[3]) : 1;
    has_sums = argc == 5 && !strcmp(argv[4], "sums");
    if (argc < 3 || argc > 5 || (argc == 5 && !has_sums) || mib == 0 || pairs < 1 || pairs > PAIRS_MAX) {
        fprintf(stderr, "usage: fabric PROVIDER MIB [PAIRS [sums]] (at most %d)\n", PAIRS_MAX);
        return 2;
    }
    if (seal_prepare(&err) < 0)
        fail_with(&err);
    measure("raw", argv[1], FABRIC_MODE_NONE, mib, pairs);
    measure("mac", argv[1], FABRIC_MODE_AUTHENTICATE, mib, pairs);
    measure("encrypted", argv[1], FABRIC_MODE_ENCRYPT, mib, pairs);
    return 0;
}
