#include "node-agent/member/load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/image/image.h"
#include "common/image/sums.h"
#include "common/util/log.h"
#include "common/util/uffd.h"
#include "node-agent/loop/pool.h"
#include "node-agent/loop/timer.h"
#include "node-agent/member/holes.h"

#define URGENT_MAX 16u    /* ranges that somebody waits for, asked for at a time */
#define OTHERS_MAX 2u     /* ... others; one, while somebody waits */
#define UNITS_MAX 16u     /* of a range that nobody waits for */
#define FAST_NS 4000000u  /* a range that came faster than this: the next one is larger ... */
#define SLOW_NS 20000000u /* ... and smaller, if it took longer: who waits now waits for its end */
#define WAITS 1024u       /* of ranges that somebody waited for, which are remembered */
#define LOOK_MS 5000      /* how often to look whether anything comes */
#define STALL_LOOKS 6u    /* without a byte: the other node has lost its way */

/* A range on its way. */
struct chunk {
    struct load_range range; /* the first member: the source knows it by this */
    struct chunk *next;
    struct load *load;
    struct holes_range hole;
    uint64_t asked_ns;
    bool is_held;           /* its bytes have begun to come */
    struct belay_error err; /* of the check */
};

/* A handle of libuv's, which is freed when that has closed it. */
struct watch {
    uv_poll_t poll;
    struct load *load;
};

struct load {
    struct load_config config;
    uint32_t references; /* the owner's, and one of each chunk */
    bool is_over;        /* the owner is told, or gone: nothing is asked for any more */
    int fd, uffd;        /* uffd: -1, the rank has none (yet); read by threads */
    struct image_view view;
    struct packed packed;
    struct holes *holes;
    struct chunk *chunks;
    uint32_t urgent_count, other_count; /* of them */
    uint32_t units;                     /* of the next range that nobody waits for */
    struct rank *process;               /* NULL: not welcomed yet */
    bool is_ready;                      /* it has mapped the image */
    uint32_t asks_seen;
    struct watch *watch;
    struct timer *look, *end;
    uint64_t begun_ns, ready_ns, ready_bytes, faults, asks, looked_bytes, touched_units;
    bool has_touched; /* somebody tells what is expected to be touched, or has told it */
    uint32_t silent_looks;
    uint64_t wait_count, fastest_ns, waits_ns[WAITS]; /* the newest ones, in a ring */
    struct belay_error err;
};

static void ask_more(struct load *load);
static bool ask_one(struct load *load);
static bool try_again(struct chunk *chunk);
static void check_chunk(void *context, uint32_t part);
static void after_check(void *context, bool is_cancelled);
static void forget(struct chunk *chunk);
static void attach(struct load *load);
static void map_what_is_here(struct load *load);
static void stop_watching(struct load *load);
static void on_fault(uv_poll_t *handle, int status, int events);
static void take_fault(struct load *load, uint64_t address);
static void map_range(const struct load *load, uint64_t offset, uint64_t end);
static void end_if_all(struct load *load);
static void let_go(struct load *load);
static void on_look(void *context);
static void on_end(void *context);

static const struct pool_ops check_ops = {.run = check_chunk, .done = after_check};

struct load *load_create(const struct load_config *config, int fd, struct belay_error *err)
{
    struct load *load = calloc(1, sizeof *load);
    if (!load) {
        belay_error_set(err, ENOMEM, "no memory to load an image");
        return NULL;
    }
    *load = (struct load){.config = *config, .references = 1, .fd = -1, .uffd = -1, .units = 1};
    load->look = timer_new(config->loop, on_look, load);
    load->end = timer_new(config->loop, on_end, load);
    int rc = load->look && load->end ? image_load(fd, &load->view, err)
                                     : belay_error_set(err, ENOMEM, "no memory to load an image");
    if (rc == 0 && (packed_begin(&load->packed, &load->view) < 0 ||
                    !(load->holes = holes_create(packed_bytes(&load->packed)))))
        rc = belay_error_set(err, ENOMEM, "no memory to load an image");
    if (rc < 0) {
        load_destroy(load);
        return NULL;
    }
    load->fd = fd;
    load->begun_ns = monotonic_ns();
    timer_start(load->look, LOOK_MS, LOOK_MS);
    ask_more(load);
    end_if_all(load);
    return load;
}

void load_destroy(struct load *load)
{
    if (!load)
        return;
    load->is_over = true;
    stop_watching(load);
    timer_destroy(load->look);
    timer_destroy(load->end);
    load->look = load->end = NULL;
    rank_unref(load->process);
    load->process = NULL;
    for (struct chunk *chunk = load->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        if (!chunk->is_held) /* nothing of it will come */
            forget(chunk);
    }
    load_unref(load);
}

void load_go_on(struct load *load)
{
    ask_more(load);
}

struct load *load_ref(struct load *load)
{
    load->references++;
    return load;
}

void load_unref(struct load *load)
{
    if (--load->references > 0)
        return;
    image_unload(&load->view);
    packed_release(&load->packed);
    holes_destroy(load->holes);
    if (load->fd >= 0)
        close(load->fd);
    if (load->uffd >= 0)
        close(load->uffd);
    free(load);
}

int load_fd(const struct load *load)
{
    return load->fd;
}

uint64_t load_total_bytes(const struct load *load)
{
    return load->view.header->total_bytes;
}

uint32_t load_rank(const struct load *load)
{
    return load->config.rank;
}

uint32_t load_node(const struct load *load)
{
    return load->config.node;
}

struct rank *load_process(const struct load *load)
{
    return load->process;
}

const struct packed *load_packed(const struct load *load)
{
    return &load->packed;
}

static int compare_ns(const void *one, const void *other)
{
    uint64_t its = *(const uint64_t *)one, others = *(const uint64_t *)other;
    return its < others ? -1 : its > others;
}

static uint64_t half_of_waits(const struct load *load)
{
    uint64_t sorted[WAITS], count = load->wait_count < WAITS ? load->wait_count : WAITS;
    if (count == 0)
        return 0;
    memcpy(sorted, load->waits_ns, count * sizeof sorted[0]);
    qsort(sorted, count, sizeof sorted[0], compare_ns);
    return sorted[count / 2];
}

static void note_wait(struct load *load, uint64_t took_ns)
{
    load->waits_ns[load->wait_count++ % WAITS] = took_ns;
    if (load->fastest_ns == 0 || took_ns < load->fastest_ns)
        load->fastest_ns = took_ns;
}

struct load_figures load_figures(const struct load *load)
{
    uint64_t bytes = packed_bytes(&load->packed);
    struct load_figures figures = {.bytes = bytes,
                                   .here_bytes = bytes - holes_left(load->holes),
                                   .faults = load->faults,
                                   .asks = load->asks,
                                   .touched_bytes = load->touched_units * HOLES_UNIT_BYTES,
                                   .touched_here_bytes = holes_preferred_here(load->holes) * HOLES_UNIT_BYTES,
                                   .elapsed_ms = (double)(monotonic_ns() - load->begun_ns) / 1e6,
                                   .first_bytes = load->ready_bytes};
    figures.half_ns = half_of_waits(load);
    figures.fastest_ns = load->fastest_ns;
    figures.first_ms = load->ready_ns ? (double)(load->ready_ns - load->begun_ns) / 1e6 : 0;
    return figures;
}

/* ---- what is asked for ---- */

bool load_begin_touched(struct load *load)
{
    bool is_first = !load->has_touched && !load->is_over;
    load->has_touched = true;
    return is_first;
}

void load_prefer(struct load *load, uint64_t start, uint64_t end)
{
    uint64_t offset = packed_from(&load->packed, start), last = packed_from(&load->packed, end);
    if (start < end && offset < last)
        load->touched_units += holes_prefer(load->holes, offset, last);
}

static void ask_more(struct load *load)
{
    while (!load->is_over && load->err.code == 0 && ask_one(load))
        ;
}

static bool ask_one(struct load *load)
{
    struct holes_range hole;
    uint32_t others_max = load->urgent_count > 0 ? 1 : OTHERS_MAX;
    bool only_urgent = load->other_count >= others_max ||
                       fault_hit("agent.load.others", (int)load->config.rank, load->faults) ||
                       (!holes_has_preferred(load->holes) &&
                        fault_hit("agent.load.rest", (int)load->config.rank, load->faults));
    if (load->urgent_count >= URGENT_MAX || !holes_next(load->holes, only_urgent, load->units, &hole))
        return false;
    struct chunk *chunk = calloc(1, sizeof *chunk);
    uint8_t *data = chunk ? image_block(hole.bytes) : NULL;
    if (!data) {
        free(chunk);
        load_fail(load, "out of memory");
        return false;
    }
    *chunk = (struct chunk){.range = {.offset = hole.offset, .bytes = hole.bytes, .data = data},
                            .next = load->chunks,
                            .load = load,
                            .hole = hole,
                            .asked_ns = monotonic_ns()};
    load->chunks = chunk;
    load->references++;
    load->asks++;
    *(hole.is_urgent ? &load->urgent_count : &load->other_count) += 1;
    fault_hit("agent.load.ask", (int)load->config.rank, load->config.line);
    if (load->config.source->ask(load->config.source_context, load, &chunk->range) == 0)
        return true;
    load_fail(load, strerror(errno));
    return false;
}

/* The next range is to take neither too long nor too many words. */
static void adapt(struct load *load, const struct chunk *chunk)
{
    uint64_t took_ns = monotonic_ns() - chunk->asked_ns;
    if (chunk->hole.is_urgent) {
        note_wait(load, took_ns);
        return;
    }
    if (took_ns < FAST_NS && load->units < UNITS_MAX)
        load->units *= 2;
    else if (took_ns > SLOW_NS && load->units > 1)
        load->units /= 2;
}

/* ---- what comes ---- */

struct load_range *load_find(const struct load *load, uint64_t offset, uint64_t bytes)
{
    struct chunk *chunk = load->chunks;
    while (chunk && (chunk->range.offset != offset || chunk->range.bytes != bytes || chunk->is_held))
        chunk = chunk->next;
    return chunk && !load->is_over ? &chunk->range : NULL;
}

void load_hold(struct load_range *range)
{
    ((struct chunk *)range)->is_held = true;
}

void load_let_go(struct load_range *range)
{
    ((struct chunk *)range)->is_held = false;
}

void load_came(struct load_range *range, int error)
{
    struct chunk *chunk = (struct chunk *)range;
    struct load *load = chunk->load;
    if (error == 0 && !load->is_over && load->err.code == 0) {
        if (fault_hit("agent.load.taken", (int)load->config.rank, load->config.line))
            range->data[0] ^= 0x10;
        chunk->is_held = true;
        if (pool_start(load->config.loop, 1, &check_ops, chunk))
            return;
        load_fail(load, "there is no memory to check it");
    } else if (error) {
        load_fail(load, error == ECONNRESET ? "the link to it is lost"
                        : error == EBADMSG  ? "what has come is not what was asked for"
                                            : strerror(error));
    }
    forget(chunk);
}

/* The sums came with the tables, and are bound by the image's root. */
static int check_piece(const struct load *load, const struct packed_piece *piece, const uint8_t *bytes,
                       struct belay_error *err)
{
    uint64_t sums[HOLES_UNIT_BYTES / IMAGE_PAGE_BYTES], wanted[HOLES_UNIT_BYTES / IMAGE_PAGE_BYTES];
    for (uint64_t at = 0, count; at < piece->bytes; at += count) {
        count = piece->bytes - at < HOLES_UNIT_BYTES ? piece->bytes - at : HOLES_UNIT_BYTES;
        ssize_t size = (ssize_t)SUMS_OF_BYTES(count);
        if (pread(load->fd, wanted, (size_t)size, (off_t)sums_offset(piece->address + at)) != size)
            return belay_error_set(err, EIO, "its sums cannot be read");
        sums_make(sums, piece->address + at, bytes + at, count);
        if (memcmp(sums, wanted, (size_t)size))
            return belay_error_set(err, EBADMSG,
                                   "what has come at address %#" PRIx64 " differs from its sums",
                                   piece->address + at);
    }
    return 0;
}

static int write_piece(const struct load *load, const struct packed_piece *piece, const uint8_t *bytes,
                       struct belay_error *err)
{
    for (uint64_t done = 0; done < piece->bytes;) {
        ssize_t count =
            pwrite(load->fd, bytes + done, piece->bytes - done, (off_t)(image_offset(piece->address) + done));
        if (count <= 0 && errno != EINTR)
            return belay_error_errno(err, "it cannot be written");
        done += count > 0 ? (uint64_t)count : 0;
    }
    return 0;
}

/* In a pool thread. Nothing of it is in the memfd before all of it is checked: the rank may see it at once.
 */
static void check_chunk(void *context, uint32_t part)
{
    struct chunk *chunk = context;
    const struct load *load = chunk->load;
    uint64_t offset = chunk->range.offset, end = offset + chunk->range.bytes;
    struct packed_piece piece;
    (void)part;
    for (uint64_t at = offset; packed_piece(&load->packed, at, end, &piece); at += piece.bytes)
        if (check_piece(load, &piece, chunk->range.data + (at - offset), &chunk->err) < 0)
            return;
    fault_hit("agent.load.write", (int)load->config.rank, load->config.line);
    for (uint64_t at = offset; packed_piece(&load->packed, at, end, &piece); at += piece.bytes)
        if (write_piece(load, &piece, chunk->range.data + (at - offset), &chunk->err) < 0)
            return;
    map_range(load, offset, end);
}

static void after_check(void *context, bool is_cancelled)
{
    struct chunk *chunk = context;
    struct load *load = chunk->load;
    (void)is_cancelled; /* never */
    if (chunk->err.code) {
        if (try_again(chunk))
            return;
        load_fail(load, chunk->err.text);
    } else {
        holes_came(load->holes, &chunk->hole);
        adapt(load, chunk);
        if (load->process && !load->is_over)
            rank_tell_arrival(load->process);
    }
    load->references++; /* for the calls below */
    forget(chunk);
    ask_more(load);
    end_if_all(load);
    load_unref(load);
}

/* What has come is not the image's, and the source may have it from elsewhere. */
static bool try_again(struct chunk *chunk)
{
    struct load *load = chunk->load;
    const struct load_source *source = load->config.source;
    if (chunk->err.code != EBADMSG || load->is_over || load->err.code || !source->ask_again)
        return false;
    chunk->err.code = 0;
    chunk->is_held = false;
    if (source->ask_again(load->config.source_context, load, &chunk->range) == 0)
        return true;
    chunk->err.code = EBADMSG;
    return false;
}

static void forget(struct chunk *chunk)
{
    struct load *load = chunk->load;
    struct chunk **at = &load->chunks;
    while (*at != chunk)
        at = &(*at)->next;
    *at = chunk->next;
    *(chunk->hole.is_urgent ? &load->urgent_count : &load->other_count) -= 1;
    free(chunk->range.data);
    free(chunk);
    load_unref(load);
}

/* Let the rank see what is in the memfd, and go on if it waits for that. What has been mapped is left alone.
 */
static void map_range(const struct load *load, uint64_t offset, uint64_t end)
{
    struct packed_piece piece;
    int uffd = __atomic_load_n(&load->uffd, __ATOMIC_ACQUIRE);
    for (uint64_t at = offset; uffd >= 0 && packed_piece(&load->packed, at, end, &piece); at += piece.bytes)
        uffd_map(uffd, piece.address, piece.address + piece.bytes);
}

/* ---- the rank ---- */

void load_welcome(struct load *load, struct rank *rank)
{
    rank_unref(load->process);
    load->process = rank_ref(rank);
    rank_begin_loading(rank);
    if (load->err.code) /* it cannot run, and the job goes on from another node */
        rank_lose(rank);
}

void load_look(struct load *load)
{
    uint64_t start, end;
    if (!load->process || load->is_over)
        return;
    uint32_t asks = RANK_FIELD(load->process, loading.asks);
    if (asks != load->asks_seen) {
        load->asks_seen = asks;
        start = RANK_FIELD(load->process, loading.ask_start);
        end = RANK_FIELD(load->process, loading.ask_end);
        if (start < end)
            holes_fault_range(load->holes, packed_from(&load->packed, start),
                              packed_from(&load->packed, end));
        rank_tell_arrival(load->process); /* it may have come already */
        ask_more(load);
    }
    if (!load->is_ready && RANK_FIELD(load->process, loading.is_ready)) {
        attach(load);
        end_if_all(load);
    }
}

/* From now on the rank waits at holes, or it has waited for all of the image. */
static void attach(struct load *load)
{
    int uffd = -1;
    fault_hit("agent.load.attach", (int)load->config.rank, load->config.line);
    load->is_ready = true;
    load->ready_ns = monotonic_ns();
    load->ready_bytes = packed_bytes(&load->packed) - holes_left(load->holes);
    if (RANK_FIELD(load->process, loading.uffd) == 0)
        return;
    uffd = rank_take_loading(load->process);
    load->watch = uffd >= 0 ? calloc(1, sizeof *load->watch) : NULL;
    if (!load->watch || uv_poll_init(load->config.loop, &load->watch->poll, uffd) < 0) {
        free(load->watch);
        load->watch = NULL;
        if (uffd >= 0)
            close(uffd);
        load_fail(load, "the rank's accesses to it cannot be caught");
        return;
    }
    load->watch->load = load;
    load->watch->poll.data = load->watch;
    __atomic_store_n(&load->uffd, uffd, __ATOMIC_RELEASE);
    if (uv_poll_start(&load->watch->poll, UV_READABLE, on_fault) < 0)
        load_fail(load, "the rank's accesses to it cannot be caught");
    map_what_is_here(load);
}

/* Ranges that had come before the rank could be caught. */
struct early {
    struct load *load;
    uint64_t count;
    struct holes_range ranges[];
};

static uint64_t list_here(const struct load *load, struct early *early)
{
    struct holes_range range;
    uint64_t count = 0;
    for (uint64_t at = 0; holes_next_here(load->holes, at, &range); at = range.offset + range.bytes) {
        if (early)
            early->ranges[count] = range;
        count++;
    }
    return count;
}

/* In a pool thread. */
static void map_early(void *context, uint32_t part)
{
    const struct early *early = context;
    (void)part;
    for (uint64_t i = 0; i < early->count; i++)
        map_range(early->load, early->ranges[i].offset, early->ranges[i].offset + early->ranges[i].bytes);
}

static void after_map(void *context, bool is_cancelled)
{
    struct early *early = context;
    (void)is_cancelled;
    load_unref(early->load);
    free(early);
}

/* So that the rank need not ask for each page of it. It can: what fails here costs time. */
static void map_what_is_here(struct load *load)
{
    static const struct pool_ops map_ops = {.run = map_early, .done = after_map};
    uint64_t count = list_here(load, NULL);
    struct early *early = count > 0 ? calloc(1, sizeof *early + count * sizeof early->ranges[0]) : NULL;
    if (!early)
        return;
    early->load = load_ref(load);
    early->count = list_here(load, early);
    if (!pool_start(load->config.loop, 1, &map_ops, early))
        after_map(early, true);
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void stop_watching(struct load *load)
{
    if (load->watch)
        uv_close((uv_handle_t *)&load->watch->poll, on_closed);
    load->watch = NULL;
}

static void on_fault(uv_poll_t *handle, int status, int events)
{
    struct watch *watch = handle->data;
    struct load *load = watch->load;
    uint64_t start, end;
    (void)events;
    if (status < 0) {
        load_fail(load, "the rank's accesses to it cannot be caught");
        return;
    }
    while (uffd_read(load->uffd, &start, &end) == UFFD_NEWS_WRITE)
        take_fault(load, start);
    ask_more(load);
}

/* What is here may just not be mapped yet. */
static void take_fault(struct load *load, uint64_t address)
{
    uint64_t offset, unit;
    load->faults++;
    fault_hit("agent.load.fault", (int)load->config.rank, load->config.line);
    if (!packed_find(&load->packed, address, &offset)) { /* nothing else is caught */
        load_fail(load, "the rank waits for a page that is not in it");
        return;
    }
    unit = offset / HOLES_UNIT_BYTES * HOLES_UNIT_BYTES;
    if (!holes_is_here(load->holes, offset)) {
        holes_fault(load->holes, offset);
        return;
    }
    map_range(load, unit, unit + HOLES_UNIT_BYTES);
    uffd_wake(load->uffd, address, address + IMAGE_PAGE_BYTES);
}

/* ---- the end ---- */

void load_fail(struct load *load, const char *why)
{
    if (load->err.code || load->is_over)
        return;
    if (load->config.is_of_parity)
        belay_error_set(&load->err, EREMOTEIO,
                        "the image of rank %" PRIu32 " cannot be made again from parity as it runs: %s",
                        load->config.rank, why);
    else
        belay_error_set(&load->err, EREMOTEIO,
                        "the image of rank %" PRIu32 " cannot be loaded from node %" PRIu32 ": %s",
                        load->config.rank, load->config.node, why);
    timer_start(load->end, 0, 0);
}

/* A rank that has been welcomed maps it first: else its accesses would be caught when nobody serves them. */
static void end_if_all(struct load *load)
{
    if (load->is_over || load->err.code || holes_left(load->holes) > 0 || (load->process && !load->is_ready))
        return;
    timer_start(load->end, 0, 0);
}

/* Parts of a run may be other memory by now: the kernel refuses what is not ours, and the rest has to be
 * found. */
static void release(int uffd, uint64_t start, uint64_t end)
{
    if (uffd_unregister(uffd, start, end) == 0 || end - start <= IMAGE_PAGE_BYTES)
        return;
    uint64_t middle = start + (end - start) / 2 / IMAGE_PAGE_BYTES * IMAGE_PAGE_BYTES;
    release(uffd, start, middle);
    release(uffd, middle, end);
}

/* Nothing is caught any more: what is absent is read from the memfd, which has all of it. */
static void let_go(struct load *load)
{
    for (uint64_t i = 0; load->uffd >= 0 && i < load->packed.count; i++) {
        const struct image_run *run = &load->packed.runs[i];
        uffd_wake(load->uffd, run->address, run->address + run->bytes);
        release(load->uffd, run->address, run->address + run->bytes);
    }
    if (load->process)
        rank_end_loading(load->process);
}

static void on_end(void *context)
{
    struct load *load = context;
    const struct belay_error err = load->err;
    if (load->is_over || (err.code == 0 && (load->process && !load->is_ready))) /* welcomed meanwhile */
        return;
    load->is_over = true;
    timer_stop(load->look);
    if (err.code == 0) {
        fault_hit("agent.load.whole", (int)load->config.rank, load->config.line);
        let_go(load);
    } else if (load->process) {
        rank_lose(load->process);
    }
    stop_watching(load);
    load->config.done(load->config.context, load, err.code ? &err : NULL);
}

static void on_look(void *context)
{
    struct load *load = context;
    uint64_t here = packed_bytes(&load->packed) - holes_left(load->holes);
    load->silent_looks = here == load->looked_bytes && load->chunks ? load->silent_looks + 1 : 0;
    load->looked_bytes = here;
    if (load->silent_looks >= STALL_LOOKS)
        load_fail(load, "nothing has come for 30 s");
}
