#include "cmd/outlet.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/wire/descriptor.h"

#define HURRY_S 1
#define LINE_PATIENCE_MS 100  /* how long the beginning of a line waits for its end */
#define OPEN_PATIENCE_MS 2000 /* how long others wait for the end of a line whose beginning is out */
#define CUT_PATIENCE_MS 10000 /* ... that a restarted rank has to write again */

/* What is known of a stream here. */
struct reader {
    uint64_t taken;        /* of the stream, so far: out */
    uint64_t held_end;     /* of the stream, when the beginning of a line was held back */
    int64_t held_since_ms; /* ... since then */
    bool is_cut;           /* ... and its rank has been lost */
};

/* A line whose beginning is out. */
struct open_line {
    bool is_open;
    uint32_t rank;
    int64_t since_ms;
};

struct outlet {
    int fd, wake_fd; /* of the streams */
    struct streams *head;
    char *slots; /* all ranks', NULL: their number is not known yet */
    size_t slots_bytes;
    struct reader *readers; /* STREAMS_PER_RANK for each slot */
    struct open_line open[STREAMS_PER_RANK];
    struct outlet_input input;
    pthread_t thread;
    bool is_started, is_closed[STREAMS_PER_RANK]; /* it cannot be written any more: the rest is dropped */
    bool has_held;                                /* some line's beginning waits */
    bool is_cut;                                  /* atomic: outlet_set_cut() */
    bool is_ending;                               /* the thread is to leave when all is out */
    bool is_damaged, is_hopeless;                 /* a rank's counts; the memory cannot be mapped: was told */
};

static void close_streams(struct outlet *outlet)
{
    if (outlet->slots)
        munmap(outlet->slots, outlet->slots_bytes);
    free(outlet->readers);
    if (outlet->head)
        munmap(outlet->head, STREAMS_PAGE_BYTES);
    if (outlet->fd >= 0)
        close(outlet->fd);
    if (outlet->wake_fd >= 0)
        close(outlet->wake_fd);
    outlet->slots = NULL;
    outlet->readers = NULL;
    outlet->head = NULL;
    outlet->fd = outlet->wake_fd = -1;
}

static int open_streams(struct outlet *outlet, int streams_fd, int wake_fd, struct belay_error *err)
{
    outlet->fd = streams_fd;
    outlet->wake_fd = wake_fd;
    void *head = mmap(NULL, STREAMS_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, streams_fd, 0);
    if (head == MAP_FAILED)
        return belay_error_errno(err, "cannot map the memory of standard streams");
    outlet->head = head;
    if (outlet->head->magic != STREAMS_MAGIC || outlet->head->version != STREAMS_VERSION)
        return belay_error_set(err, EPROTO,
                               "the agent is of another version; end its jobs and start it anew");
    uint64_t input_bytes = __atomic_load_n(&outlet->head->input_bytes, __ATOMIC_RELAXED);
    outlet->input.bytes = input_bytes < STREAMS_INPUT_MAX ? input_bytes : STREAMS_INPUT_MAX;
    outlet->input.has_ended = outlet->head->input_has_ended;
    return 0;
}

struct outlet *outlet_create(int streams_fd, int wake_fd, struct belay_error *err)
{
    struct outlet *outlet = calloc(1, sizeof *outlet);
    if (!outlet) {
        belay_error_set(err, ENOMEM, "out of memory");
        close(streams_fd);
        close(wake_fd);
        return NULL;
    }
    if (open_streams(outlet, streams_fd, wake_fd, err)) {
        outlet_destroy(outlet);
        return NULL;
    }
    return outlet;
}

void outlet_destroy(struct outlet *outlet)
{
    if (!outlet || outlet->is_started)
        return;
    int code = errno;
    close_streams(outlet);
    free(outlet);
    errno = code;
}

/* ---- the thread ---- */

static struct stream *stream_at(const struct outlet *outlet, uint32_t rank, int which)
{
    struct streams_rank *slot = (void *)(outlet->slots + STREAMS_SLOT_BYTES * rank);
    return &slot->streams[which];
}

static struct reader *reader_at(const struct outlet *outlet, uint32_t rank, int which)
{
    return &outlet->readers[rank * STREAMS_PER_RANK + (unsigned)which];
}

static const char *ring_at(const struct outlet *outlet, uint32_t rank, int which)
{
    return outlet->slots + (STREAMS_RING(rank, (uint64_t)which) - STREAMS_SLOT(0));
}

static void map_slots(struct outlet *outlet, uint32_t ranks)
{
    outlet->slots_bytes = STREAMS_SLOT_BYTES * ranks;
    outlet->readers = calloc((size_t)ranks * STREAMS_PER_RANK, sizeof *outlet->readers);
    void *slots = mmap(NULL, outlet->slots_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, outlet->fd,
                       (off_t)STREAMS_SLOT(0));
    if (slots == MAP_FAILED || !outlet->readers) {
        free(outlet->readers);
        outlet->readers = NULL;
        return;
    }
    outlet->slots = slots;
    for (uint32_t rank = 0; rank < ranks; rank++)
        for (int which = 0; which < STREAMS_PER_RANK; which++)
            reader_at(outlet, rank, which)->taken =
                stream_at(outlet, rank, which)->taken; /* a former arbiter's */
}

/* Map the ranks' slots once there are ranks. Without them the ranks would wait for ever for a full ring. */
static bool has_slots(struct outlet *outlet)
{
    uint32_t ranks = __atomic_load_n(&outlet->head->ranks, __ATOMIC_ACQUIRE);
    if (outlet->slots || !ranks || outlet->is_hopeless)
        return outlet->slots;
    if (ranks <= STREAMS_MAX_RANKS)
        map_slots(outlet, ranks);
    outlet->is_hopeless = !outlet->slots;
    if (outlet->is_hopeless) {
        log_error("the output of %u ranks cannot be mapped: %m (ulimit -v); the job is ended", ranks);
        kill(getpid(), SIGTERM); /* as if somebody had asked for it */
    }
    return outlet->slots;
}

/* Others may have made our output non-blocking. Returns true. */
static bool wait_until_writable(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    poll(&wait, 1, -1);
    return true;
}

/* Write what a ring holds from `from` on; it may wrap. Returns what write(2) returns. */
static ssize_t write_ring(const char *ring, uint64_t from, uint64_t count, int fd)
{
    uint64_t at = from % STREAMS_RING_BYTES, first = STREAMS_RING_BYTES - at;
    struct iovec parts[2] = {{(void *)(uintptr_t)(ring + at), count < first ? count : first},
                             {(void *)(uintptr_t)ring, count < first ? 0 : count - first}};
    ssize_t put;
    do
        put = writev(fd, parts, 2);
    while (put < 0 && (errno == EINTR || (errno == EAGAIN && wait_until_writable(fd))));
    return put;
}

/* What ranks write from now on is dropped. A reader that has gone away, as in `belay run ... | head`, is no
 * news. */
static void give_up_stream(struct outlet *outlet, int which)
{
    outlet->is_closed[which] = true;
    if (errno != EPIPE)
        log_error("standard %s cannot be written: %m; the rest of it is dropped", which ? "error" : "output");
}

/*
 * Where to stop, so that lines of different ranks do not get mixed: behind the last whole line. A beginning
 * of one is held back, but not for ever: it may be a prompt.
 */
static uint64_t end_of_lines(struct outlet *outlet, uint32_t rank, int which, uint64_t taken, uint64_t end)
{
    const char *ring = ring_at(outlet, rank, which);
    struct reader *reader = reader_at(outlet, rank, which);
    uint64_t at = end;
    while (at > taken && ring[(at - 1) % STREAMS_RING_BYTES] != '\n')
        at--;
    bool is_whole = at == end || outlet->is_ending || end - taken > STREAMS_RING_BYTES / 2;
    if (!is_whole && reader->held_end != end) {
        reader->held_end = end;
        reader->held_since_ms = clock_now_ms();
        reader->is_cut = false;
    }
    reader->is_cut |= __atomic_load_n(&outlet->is_cut, __ATOMIC_RELAXED);
    int64_t patience_ms = reader->is_cut ? CUT_PATIENCE_MS : LINE_PATIENCE_MS;
    if (is_whole || clock_now_ms() - reader->held_since_ms >= patience_ms)
        return end;
    outlet->has_held = true;
    return at;
}

/*
 * Is this another rank's line, into which nothing of this one belongs? A rank that has stood still for longer
 * than a prompt may wait (a line was being taken, the machine was busy) gets the time to end what it has
 * begun.
 */
static bool is_anothers_line(struct outlet *outlet, uint32_t rank, int which)
{
    struct open_line *open = &outlet->open[which];
    if (!open->is_open || open->rank == rank || outlet->is_ending)
        return false;
    bool is_cut = __atomic_load_n(&outlet->is_cut, __ATOMIC_RELAXED);
    open->is_open = clock_now_ms() - open->since_ms < (is_cut ? CUT_PATIENCE_MS : OPEN_PATIENCE_MS);
    outlet->has_held |= open->is_open;
    return open->is_open;
}

/* This is out of the stream's ring. */
static void note_line(struct outlet *outlet, uint32_t rank, int which, uint64_t end)
{
    struct open_line *open = &outlet->open[which];
    bool is_open = ring_at(outlet, rank, which)[(end - 1) % STREAMS_RING_BYTES] != '\n';
    if (is_open && !(open->is_open && open->rank == rank))
        *open = (struct open_line){.is_open = true, .rank = rank, .since_ms = clock_now_ms()};
    else if (!is_open && open->rank == rank)
        open->is_open = false;
}

/* No rank is further ahead than its ring is large. What it has there now is not known. */
static void skip_damage(struct outlet *outlet, uint32_t rank, int which, uint64_t end)
{
    if (!outlet->is_damaged)
        log_error("rank %u reports an impossible position in its output: some of its output is lost", rank);
    outlet->is_damaged = true;
    reader_at(outlet, rank, which)->taken = end;
    __atomic_store_n(&stream_at(outlet, rank, which)->taken, end, __ATOMIC_RELEASE);
}

static bool forward_stream(struct outlet *outlet, uint32_t rank, int which)
{
    struct stream *stream = stream_at(outlet, rank, which);
    struct reader *reader = reader_at(outlet, rank, which);
    const char *ring = ring_at(outlet, rank, which);
    uint64_t taken = reader->taken, end = stream_end_now(stream).bytes;
    if (taken == end)
        return false;
    if (end - taken > STREAMS_RING_BYTES) {
        skip_damage(outlet, rank, which, end);
        return false;
    }
    if (is_anothers_line(outlet, rank, which))
        return false;
    end = end_of_lines(outlet, rank, which, taken, end);
    bool has_found = taken < end;
    if (has_found)
        note_line(outlet, rank, which, end);
    while (taken < end) {
        ssize_t put = outlet->is_closed[which] ? (ssize_t)(end - taken)
                                               : write_ring(ring, taken, end - taken, STDOUT_FILENO + which);
        if (put < 0)
            give_up_stream(outlet, which);
        else
            __atomic_store_n(&stream->taken, reader->taken = taken += (uint64_t)put, __ATOMIC_RELEASE);
    }
    return has_found;
}

static bool forward_all(struct outlet *outlet)
{
    bool has_found = false;
    outlet->has_held = false;
    if (!has_slots(outlet))
        return false;
    for (int which = 0; which < STREAMS_PER_RANK; which++)
        if (outlet->open[which].is_open)
            has_found |= forward_stream(outlet, outlet->open[which].rank, which);
    for (uint32_t rank = 0; rank < outlet->slots_bytes / STREAMS_SLOT_BYTES; rank++)
        for (int which = 0; which < STREAMS_PER_RANK; which++)
            has_found |= forward_stream(outlet, rank, which);
    return has_found;
}

static void sleep_until_woken(struct outlet *outlet)
{
    struct pollfd wait = {.fd = outlet->wake_fd, .events = POLLIN};
    uint64_t count;
    poll(&wait, 1, outlet->has_held ? LINE_PATIENCE_MS : -1);
    ssize_t ignored = read(outlet->wake_fd, &count, sizeof count);
    (void)ignored;
}

static void *run(void *argument)
{
    struct outlet *outlet = argument;
    for (;;) {
        bool is_ending = __atomic_load_n(&outlet->is_ending, __ATOMIC_ACQUIRE);
        if (forward_all(outlet))
            continue;
        if (is_ending)
            return NULL;
        /* Whoever writes after this wakes us; who wrote before it is found by another look. */
        __atomic_store_n(&outlet->head->is_reader_asleep, 1, __ATOMIC_SEQ_CST);
        if (!forward_all(outlet) && !__atomic_load_n(&outlet->is_ending, __ATOMIC_SEQ_CST))
            sleep_until_woken(outlet);
    }
}

int outlet_streams(const struct outlet *outlet)
{
    return outlet->fd;
}

struct outlet_input *outlet_input(struct outlet *outlet)
{
    return &outlet->input;
}

uint32_t outlet_ranks(const struct outlet *outlet)
{
    return __atomic_load_n(&outlet->head->ranks, __ATOMIC_ACQUIRE);
}

int outlet_start(struct outlet *outlet, bool is_forwarded, struct belay_error *err)
{
    if (outlet->is_started)
        return 0;
    outlet->is_ending = !is_forwarded;
    while (!is_forwarded && forward_all(outlet))
        ;
    outlet->is_ending = false;
    if (!is_forwarded)
        return 0;
    int code = pthread_create(&outlet->thread, NULL, run, outlet);
    if (code)
        return belay_error_set(err, code, "cannot start a thread: %s", strerror(code));
    outlet->is_started = true;
    return 0;
}

void outlet_set_cut(struct outlet *outlet, bool is_cut)
{
    __atomic_store_n(&outlet->is_cut, is_cut, __ATOMIC_RELAXED);
}

void outlet_finish(struct outlet *outlet, bool is_hurried)
{
    struct timespec until;
    uint64_t one = 1;
    if (!outlet->is_started)
        return;
    __atomic_store_n(&outlet->is_ending, true, __ATOMIC_SEQ_CST);
    ssize_t ignored = write(outlet->wake_fd, &one, sizeof one);
    (void)ignored;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += HURRY_S;
    if (!is_hurried)
        pthread_join(outlet->thread, NULL);
    else if (pthread_timedjoin_np(outlet->thread, NULL, &until))
        return; /* it still uses the memory: its end is the process's */
    outlet->is_started = outlet->is_ending = false;
}

/* ---- another agent ---- */

static bool is_same_file(int one, int other)
{
    struct stat a, b;
    return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

/* The input so far. */
static int carry_input(const struct outlet *from, struct outlet *to)
{
    char piece[65536];
    for (uint64_t at = 0; at < from->input.bytes;) {
        uint64_t left = from->input.bytes - at;
        ssize_t got = pread(from->fd, piece, left < sizeof piece ? left : sizeof piece,
                            (off_t)(STREAMS_INPUT_OFFSET + at));
        if (got <= 0 || descriptor_put(to->fd, STREAMS_INPUT_OFFSET + at, piece, (size_t)got) < 0)
            return -1;
        at += (uint64_t)got;
    }
    to->input = from->input;
    to->head->input_bytes = from->input.bytes;
    to->head->input_has_ended = from->input.has_ended;
    return 0;
}

/* How far a rank was. All of it is out, so the rings are empty. */
static int carry_rank(const struct outlet *from, const struct outlet *to, uint32_t rank,
                      struct belay_error *err)
{
    struct streams_rank slot;
    for (int which = 0; which < STREAMS_PER_RANK; which++) {
        slot.streams[which] = *stream_at(from, rank, which);
        slot.streams[which].taken = reader_at(from, rank, which)->taken;
    }
    if (descriptor_put(to->fd, STREAMS_SLOT(rank), &slot, sizeof slot) < 0)
        return belay_error_errno(err, "cannot write to the memory of standard streams");
    return 0;
}

/* The same of all of them, in the new memory. */
static int carry_over(const struct outlet *from, struct outlet *to, struct belay_error *err)
{
    to->head->is_other_told = from->head->is_other_told;
    if (carry_input(from, to) < 0)
        return belay_error_errno(err, "cannot write to the memory of standard streams");
    for (uint32_t rank = 0; from->slots && rank < from->slots_bytes / STREAMS_SLOT_BYTES; rank++)
        if (carry_rank(from, to, rank, err) < 0)
            return -1;
    return 0;
}

int outlet_move_rank(struct outlet *from, struct outlet *to, uint32_t rank, bool with_input,
                     struct belay_error *err)
{
    if (with_input && carry_input(from, to) < 0)
        return belay_error_errno(err, "cannot write to the memory of standard streams");
    if (!has_slots(from) || rank >= from->slots_bytes / STREAMS_SLOT_BYTES)
        return 0; /* it has not written anything */
    to->head->is_other_told |= from->head->is_other_told;
    if (carry_rank(from, to, rank, err) < 0)
        return -1;
    bool is_known = to->slots && rank < to->slots_bytes / STREAMS_SLOT_BYTES;
    for (int which = 0; is_known && which < STREAMS_PER_RANK; which++)
        *reader_at(to, rank, which) = (struct reader){.taken = reader_at(from, rank, which)->taken};
    return 0;
}

int outlet_change(struct outlet *outlet, int streams_fd, int wake_fd, struct belay_error *err)
{
    bool is_same = is_same_file(outlet->fd, streams_fd);
    struct outlet old = *outlet;
    outlet_finish(outlet, false);
    outlet->slots = NULL;
    outlet->readers = NULL;
    outlet->head = NULL;
    int rc = open_streams(outlet, streams_fd, wake_fd, err);
    if (rc == 0 && !is_same)
        rc = carry_over(&old, outlet, err);
    close_streams(&old);
    return rc;
}
