/* vk_stream.c - see vk_stream.h. */
#include "mpi-layer/lower/vk_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_own_signal.h"
#include "mpi-layer/lower/vk_postponed.h"
#include "mpi-layer/lower/vk_width.h"

#define PIECE_BYTES 4096     /* a pipe that poll(2) calls ready takes that many without waiting */
#define ROOM_WAIT_NS 1000000 /* between two looks at a full ring */
#define SYSCALL_BYTES 2
#define FLUSH_STEP_NS 1000000
#define FLUSH_STEPS 2000

static struct vk_streams own;
static uint32_t lock_word;

void vk_stream_start(const struct vk_streams *streams)
{
    own = *streams;
    for (int i = 0; i < STREAMS_PER_RANK && own.shared && !own.is_forwarded; i++)
        own.slot->streams[i].taken = stream_end_now(&own.slot->streams[i]).bytes;
}

static void wake_arbiter(void)
{
    uint64_t one = 1;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&own.shared->is_reader_asleep, __ATOMIC_RELAXED) &&
        __atomic_exchange_n(&own.shared->is_reader_asleep, 0, __ATOMIC_ACQ_REL))
        raw3(SYS_write, own.wake_fd, &one, sizeof one);
}

void vk_stream_go_on(void)
{
    if (!own.shared || own.rank != 0)
        return;
    own.shared->input_from = VK->input_position;
    __atomic_store_n(&own.shared->input_epoch, own.epoch, __ATOMIC_RELEASE);
    wake_arbiter();
}

void vk_stream_flush(void)
{
    const struct timespec pause = {0, FLUSH_STEP_NS};
    for (int i = 0; i < STREAMS_PER_RANK && own.shared && own.is_forwarded; i++) {
        const struct stream *stream = &own.slot->streams[i];
        for (int step = 0; step < FLUSH_STEPS; step++) {
            if (__atomic_load_n(&stream->taken, __ATOMIC_ACQUIRE) >= stream_end_now(stream).bytes)
                break;
            wake_arbiter();
            raw2(SYS_nanosleep, &pause, 0);
        }
    }
}

static bool is_same(const struct vk_stream_id *id, const struct stat *st)
{
    return id->inode && id->inode == st->st_ino && id->device == st->st_dev;
}

int vk_stream_of(const struct stat *st)
{
    for (int i = 0; i < STREAMS_PER_RANK && own.shared; i++)
        if (is_same(&own.outputs[i], st))
            return i;
    return -1;
}

/* All signals are blocked in the handler that this runs in: the holder is never interrupted. */
static void lock(void)
{
    while (__atomic_exchange_n(&lock_word, 1, __ATOMIC_ACQUIRE))
        raw0(SYS_sched_yield);
}

static void unlock(void)
{
    __atomic_store_n(&lock_word, 0, __ATOMIC_RELEASE);
}

/* ---- waiting: with the caller's own mask, so that our signal finds the rank ---- */

/*
 * Returns false if a signal came. Ours: the call is to be made again after the safe point, and goes on at
 * `done` then (it is told by its stack pointer). The application's, which comes when the trap's handler is
 * left: likewise, or, if some of it is done, the call ends with that.
 */
static bool wait_for(ucontext_t *context, long nr, struct pollfd *descriptor, int64_t timeout_ns,
                     uint64_t done)
{
    greg_t *g = context->uc_mcontext.gregs;
    struct thread *self = thread_self();
    uint64_t mask = *(const uint64_t *)(const void *)&context->uc_sigmask & ~VK_OWN_SIGNALS;
    struct timespec timeout = {0, timeout_ns};
    uint32_t before = self->pending; /* for a wrapper that this call is made in */
    self->pending = 0;
    raw_syscall(SYS_ppoll, (long)descriptor, descriptor ? 1 : 0, (long)(timeout_ns ? &timeout : 0),
                (long)&mask, 8, 0);
    uint32_t come = self->pending;
    vk_postponed_send_blocked();
    self->pending = before & ~(uint32_t)THREAD_PENDING_HANDLERS;
    if (!come)
        return true;
    if (come & THREAD_PENDING_SIGNAL)
        raw3(SYS_tgkill, self->pid, self->tid, CONTROL_SIGNAL); /* blocked here: comes after sigreturn */
    if (done && (come & THREAD_PENDING_HANDLERS)) {
        g[REG_RAX] = (greg_t)done;
        return false;
    }
    self->written_at = done ? (uint64_t)g[REG_RSP] : 0;
    self->written_bytes = done;
    g[REG_RIP] -= SYSCALL_BYTES;
    g[REG_RAX] = nr;
    self->restart_rip = done ? 0 : (uint64_t)g[REG_RIP]; /* for a signal of the application that comes, too */
    self->restart_rsp = (uint64_t)g[REG_RSP];
    return false;
}

/* Has a handler of the application run since then that ends a call which has got so far? */
static bool is_ended(const struct thread *self, struct handler_counts counts, uint64_t done)
{
    return self->handlers.all != counts.all && (done || self->handlers.ending != counts.ending);
}

/* ---- output ---- */

/* Once for all ranks and restarts: nearly every program tells times. */
static void report_difference(int which)
{
    static const char *const texts[] = {
        "belay: after the restart, what a rank wrote to standard output again is not what it had written, "
        "which stays; times that differ are harmless, results that differ are not (told once)\n",
        "belay: after the restart, what a rank wrote to standard error again is not what it had written, "
        "which stays; times that differ are harmless, results that differ are not (told once)\n"};
    uint64_t length = 0;
    if (__atomic_exchange_n(&own.shared->is_other_told, 1, __ATOMIC_RELAXED))
        return;
    while (texts[which][length])
        length++;
    raw3(SYS_write, 2, texts[which], length);
}

/*
 * Written before, by an earlier process of this rank: compared, not written. A line of which the beginning is
 * out, and which has become shorter than that, still gets its end.
 */
static uint64_t skip(int which, const char *bytes, uint64_t count, const struct stream_end *end)
{
    struct stream_end *position = &VK->outputs[which];
    uint64_t done = 0;
    bool is_behind = stream_is_behind(position, end);
    if (!is_behind)
        return 0;
    while (is_behind && done < count) {
        if (bytes[done] == '\n' && position->lines == end->lines)
            break;
        *position = stream_end_after(*position, bytes + done++, 1);
        is_behind = stream_is_behind(position, end);
    }
    if (is_behind && done == count)
        return done;
    if (position->digest != end->digest)
        report_difference(which);
    *position = *end;
    return done;
}

/* A call that writes to a stream: its parts are few enough for the kernel. */
struct output {
    int which;
    long fd;
    const struct iovec *vector;
    long parts;
    struct iovec single;
    uint64_t done;
    long result; /* of the call */
};

/* The part of the vector that begins `offset` bytes in; its length, `most` at most, in *count, 0: none. */
static const char *part_at(const struct output *o, uint64_t offset, uint64_t most, uint64_t *count)
{
    for (long i = 0; i < o->parts; i++) {
        if (offset < o->vector[i].iov_len) {
            uint64_t left = o->vector[i].iov_len - offset;
            *count = left < most ? left : most;
            return (const char *)o->vector[i].iov_base + offset;
        }
        offset -= o->vector[i].iov_len;
    }
    *count = 0;
    return NULL;
}

static uint64_t bytes_left(const struct output *o)
{
    uint64_t bytes = 0;
    for (long i = 0; i < o->parts; i++)
        bytes += o->vector[i].iov_len;
    return bytes - o->done;
}

/* All parts at once: a rank that is killed has written all of it or nothing. */
static void advance(const struct output *o, uint64_t bytes)
{
    struct stream_end *position = &VK->outputs[o->which];
    struct stream *stream = &own.slot->streams[o->which];
    uint32_t other = !(stream->turn & 1);
    for (uint64_t at = 0, count; at < bytes; at += count) {
        const char *part = part_at(o, o->done + at, bytes - at, &count);
        *position = stream_end_after(*position, part, count);
    }
    stream->ends[other] = *position;
    __atomic_store_n(&stream->turn, other, __ATOMIC_RELEASE);
    if (!own.is_forwarded) /* nothing of it is in the ring */
        stream->taken = position->bytes;
}

static void copy_to_ring(const struct output *o, uint64_t bytes, uint64_t end)
{
    char *ring = (char *)own.slot + STREAMS_PAGE_BYTES + STREAMS_RING_BYTES * (uint64_t)o->which;
    for (uint64_t at = 0, count; at < bytes; at += count) {
        const char *part = part_at(o, o->done + at, bytes - at, &count);
        for (uint64_t i = 0; i < count; i++)
            ring[(end + at + i) % STREAMS_RING_BYTES] = part[i];
    }
}

/* All or nothing, if it fits at all. Returns what went in, 0: there is no room yet. */
static long put_in_ring(const struct output *o, uint64_t end)
{
    uint64_t taken = __atomic_load_n(&own.slot->streams[o->which].taken, __ATOMIC_ACQUIRE);
    uint64_t room = STREAMS_RING_BYTES - (end - taken), bytes = bytes_left(o);
    if (bytes > STREAMS_RING_BYTES)
        bytes = room;
    if (bytes > room)
        return 0;
    copy_to_ring(o, bytes, end);
    return (long)bytes;
}

/* In the launcher's hands once it is written. */
static long put_in_descriptor(const struct output *o)
{
    struct pollfd ready = {.fd = (int)o->fd, .events = POLLOUT};
    struct timespec at_once = {0, 0};
    uint64_t count, bytes = bytes_left(o);
    bool may_wait = !(raw3(SYS_fcntl, o->fd, F_GETFL, 0) & O_NONBLOCK);
    if (may_wait && raw_syscall(SYS_ppoll, (long)&ready, 1, (long)&at_once, 0, 8, 0) <= 0)
        return 0;
    if (o->done == 0 && (bytes <= PIECE_BYTES || !may_wait))
        return raw3(SYS_writev, o->fd, o->vector, o->parts);
    const char *part = part_at(o, o->done, may_wait ? PIECE_BYTES : bytes, &count);
    return raw3(SYS_write, o->fd, part, count);
}

/* Returns bytes taken care of, 0: wait, or -errno. There are some left. */
static long put(const struct output *o)
{
    struct stream_end end = stream_end_now(&own.slot->streams[o->which]);
    uint64_t count;
    const char *part = part_at(o, o->done, bytes_left(o), &count);
    long result = (long)skip(o->which, part, count, &end);
    if (result)
        return result;
    result = own.is_forwarded ? put_in_ring(o, end.bytes) : put_in_descriptor(o);
    if (result > 0)
        advance(o, (uint64_t)result);
    if (result > 0 && own.is_forwarded)
        wake_arbiter();
    return result;
}

static void output_start(struct output *o, int which, long nr, long fd, long data, long count)
{
    o->which = which;
    o->fd = fd;
    o->single = (struct iovec){(void *)data, (size_t)count};
    o->vector = nr == SYS_write ? &o->single : (const struct iovec *)data;
    o->parts = nr == SYS_write ? 1 : count;
    o->done = 0;
}

/* False: there is no room for more now. */
static bool output_go_on(struct output *o)
{
    long result = 0;
    while (bytes_left(o)) {
        lock();
        result = put(o);
        unlock();
        if (result == 0)
            return false;
        if (result < 0)
            break;
        o->done += (uint64_t)result;
    }
    o->result = o->done ? (long)o->done : result;
    return true;
}

void vk_stream_write(ucontext_t *context, long nr, int which)
{
    greg_t *g = context->uc_mcontext.gregs;
    struct thread *self = thread_self();
    struct output output;
    struct pollfd ready = {.fd = (int)g[REG_RDI], .events = POLLOUT};
    long args[6];
    vk_arguments(g, nr, args);
    output_start(&output, which, nr, args[0], args[1], args[2]);
    const struct handler_counts counts = self->handlers;
    if (self->written_at == (uint64_t)g[REG_RSP])
        output.done = self->written_bytes;
    self->written_at = 0;
    while (!output_go_on(&output)) {
        bool is_in_time = own.is_forwarded ? wait_for(context, nr, NULL, ROOM_WAIT_NS, output.done)
                                           : wait_for(context, nr, &ready, 0, output.done);
        if (!is_in_time)
            return;
        if (is_ended(self, counts, output.done)) {
            output.result = output.done ? (long)output.done : -EINTR;
            break;
        }
    }
    g[REG_RAX] = output.result;
}

bool vk_stream_write_at_once(long nr, long fd, long data, long count, int which, uint64_t rsp, long *result)
{
    struct thread *self = thread_self();
    struct output output;
    output_start(&output, which, nr, fd, data, count);
    bool is_done = output_go_on(&output);
    self->written_at = is_done || !output.done ? 0 : rsp;
    self->written_bytes = output.done;
    *result = output.result;
    return is_done;
}

bool vk_stream_is_ended(long *result)
{
    struct thread *self = thread_self();
    if (!self->written_at || !(self->pending & THREAD_PENDING_HANDLERS))
        return false;
    *result = (long)self->written_bytes;
    self->written_at = 0;
    return true;
}

/* ---- input ---- */

bool vk_stream_is_input(long fd)
{
    struct stat st;
    return own.shared && own.rank == 0 && vk_is_rank() && vk_is_own_process() &&
           raw2(SYS_fstat, fd, &st) == 0 && is_same(&own.input, &st);
}

void vk_stream_read(ucontext_t *context, long nr)
{
    greg_t *g = context->uc_mcontext.gregs;
    struct pollfd ready = {.fd = (int)g[REG_RDI], .events = POLLIN};
    long args[6], flags = raw3(SYS_fcntl, g[REG_RDI], F_GETFL, 0);
    vk_arguments(g, nr, args);
    const struct thread *self = thread_self();
    const struct handler_counts counts = self->handlers;
    while (!(flags & O_NONBLOCK) && !ready.revents) { /* again if a handler with SA_RESTART came */
        if (!wait_for(context, nr, &ready, 0, 0))
            return;
        if (!ready.revents && is_ended(self, counts, 0)) {
            g[REG_RAX] = -EINTR;
            return;
        }
    }
    long result = raw3(nr, args[0], args[1], args[2]);
    if (result > 0)
        VK->input_position += (uint64_t)result;
    g[REG_RAX] = result;
}
