#include "node-agent/member/line_capture.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/log.h"
#include "node-agent/capture/capture.h"
#include "node-agent/capture/crew.h"
#include "node-agent/loop/pool.h"
#include "node-agent/loop/processor.h"
#include "node-agent/member/witness.h"

/* One rank's part, which a pool thread works on. */
struct part {
    struct line_capture *whole;
    struct rank *rank; /* a reference; pool threads only give it its order */
    uint32_t number;
    pid_t pid;
    uint64_t image_room; /* see store_image_room() */
    struct capture *capture;
    struct image_header header;
    struct witness *witness; /* for tests; NULL: none was asked for */
    bool is_copied;
    /* Held while a pool thread gives the rank its order. Each has its own: the rank that wakes may take the
     * processor. */
    pthread_mutex_t order_lock;
    bool may_order; /* under the lock */
    int rc;
    struct belay_error err;
};

/* What the ranks share. */
struct shared_part {
    struct shared_capture *capture; /* NULL: no rank may share anything */
    struct shared_rank *ranks;
    bool has_notes, may_share;
    bool is_copied; /* atomic: ranks may run */
    int rc;
    struct belay_error err;
};

struct line_capture {
    struct line_capture_request request;
    const struct line_capture_ops *ops;
    void *context;
    struct part *parts;
    cpu_set_t *processors; /* that the main thread of each rank may use */
    struct shared_part shared;
    struct pool_work *work; /* the step that is being made; NULL: none */
    pthread_mutex_t stand_lock;
    bool is_told_to_stand; /* under the lock: each rank knows that others are still to be copied */
    uint32_t standing;     /* atomic: ranks that are not copied */
    uint32_t *left;        /* numbers of the parts to be copied; the number of ranks: what they share */
    bool is_failed;
    uint64_t captured_bytes;
    char lost[320];
    struct belay_error err; /* the first failure */
};

static int make_part(struct line_capture *whole, uint32_t index, struct belay_error *err);
static int list_ranks(struct line_capture *whole, struct belay_error *err);
static int make_shared(struct line_capture *whole, struct belay_error *err);
static bool start(struct line_capture *whole, uint32_t count, const struct pool_ops *ops);
static void tell_standing(struct line_capture *whole);
static void tell_copied(struct line_capture *whole);
static void do_plan(void *context, uint32_t number);
static bool needs_memory(const struct part *part);
static void after_plan(void *context, uint32_t number);
static void after_plans(void *context, bool is_cancelled);
static void do_plan_shared(void *context, uint32_t number);
static void after_plan_shared(void *context, bool is_cancelled);
static void begin_copy(struct line_capture *whole);
static uint32_t list_left(struct line_capture *whole);
static void add_need(const struct line_capture *whole, struct store_need *need);
static void do_copy(void *context, uint32_t number);
static int take_witness(struct part *part);
static void copy(struct part *part);
static void release_rank(struct part *part);
static void copy_shared(struct line_capture *whole);
static void after_copy(void *context, uint32_t number);
static void after_copies(void *context, bool is_cancelled);
static void stage(struct part *part);
static int hear_witness(struct part *part, const struct store_item *item);
static void tell_guarded(const struct part *part);
static void stage_shared(struct line_capture *whole);
static void note_failure(struct line_capture *whole, const struct part *part);
static void note_shared_failure(struct line_capture *whole);
static void fail(struct line_capture *whole, const struct belay_error *err, const char *what);
static void finish(struct line_capture *whole);
static void destroy(struct line_capture *whole);

static const struct pool_ops plan_ops = {.run = do_plan, .part_done = after_plan, .done = after_plans};
static const struct pool_ops plan_shared_ops = {.run = do_plan_shared, .done = after_plan_shared};
static const struct pool_ops copy_ops = {.run = do_copy, .part_done = after_copy, .done = after_copies};

struct line_capture *line_capture_start(const struct line_capture_request *request,
                                        const struct line_capture_ops *ops, void *context,
                                        struct belay_error *err)
{
    struct line_capture *whole = calloc(1, sizeof *whole);
    if (!whole || !(whole->parts = calloc(request->count, sizeof *whole->parts)) ||
        !(whole->processors = calloc(request->count, sizeof *whole->processors)) ||
        !(whole->left = calloc(request->count + 1, sizeof *whole->left))) {
        belay_error_set(err, ENOMEM, "no memory to begin a capture");
        free(whole ? whole->processors : NULL);
        free(whole ? whole->parts : NULL);
        free(whole);
        return NULL;
    }
    whole->request = *request;
    whole->ops = ops;
    whole->context = context;
    pthread_mutex_init(&whole->stand_lock, NULL);
    for (uint32_t i = 0; i < request->count; i++)
        pthread_mutex_init(&whole->parts[i].order_lock, NULL);
    for (uint32_t i = 0; i < request->count; i++) {
        if (make_part(whole, i, err) < 0) {
            destroy(whole);
            return NULL;
        }
    }
    if (list_ranks(whole, err) < 0 || (whole->shared.may_share && make_shared(whole, err) < 0)) {
        destroy(whole);
        return NULL;
    }
    tell_standing(whole);
    if (!start(whole, request->count, &plan_ops)) {
        belay_error_set(err, ENOMEM, "no memory to begin a capture");
        destroy(whole);
        return NULL;
    }
    return whole;
}

uint64_t line_capture_dirty_bytes(const struct line_capture *whole)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < whole->request.count; i++)
        bytes += capture_data_bytes(whole->parts[i].capture);
    return bytes + (whole->shared.capture ? shared_data_bytes(whole->shared.capture) : 0);
}

static void take_larger(uint64_t *value, double ns)
{
    *value = ns > (double)*value ? (uint64_t)ns : *value;
}

struct peer_copied line_capture_copied(const struct line_capture *whole)
{
    struct peer_copied all = {.yield_ppm = 1000000};
    for (uint32_t i = 0; i < whole->request.count; i++) {
        const struct capture_costs *costs = capture_costs(whole->parts[i].capture);
        uint64_t yield_ppm = (uint64_t)(costs->cost.yield * 1e6);
        all.ahead_bytes += costs->ahead_bytes;
        all.right_bytes += costs->right_bytes;
        all.pause_bytes += costs->pause_bytes;
        take_larger(&all.pause_ns, (double)costs->pause_ns);
        take_larger(&all.pause_model_ns, costs->pause_model_ns);
        take_larger(&all.copied_model_ns, costs->copied_model_ns);
        take_larger(&all.copy_ns_per_mib, costs->cost.copy_ns * (1 << 20));
        take_larger(&all.guard_ns_per_mib, costs->cost.guard_ns * (1 << 20));
        take_larger(&all.fault_ns_per_mib, costs->cost.fault_ns * (1 << 20));
        all.yield_ppm = yield_ppm < all.yield_ppm ? yield_ppm : all.yield_ppm;
    }
    return all;
}

struct peer_guarded line_capture_guarded(const struct line_capture *whole)
{
    struct peer_guarded all = {0};
    for (uint32_t i = 0; i < whole->request.count; i++) {
        const struct capture *capture = whole->parts[i].capture;
        struct cow_faults faults = capture_faults(capture);
        struct page_pool_waits waits = capture_waits(capture);
        uint64_t pool_bytes = memory_pool_bytes(whole->request.memories[i]);
        all.bytes += capture_guarded_bytes(capture);
        all.faults += faults.count;
        all.longest_fault_ns =
            faults.longest_ns > all.longest_fault_ns ? faults.longest_ns : all.longest_fault_ns;
        all.pool_bytes = pool_bytes > all.pool_bytes ? pool_bytes : all.pool_bytes;
        all.pool_waits += waits.count;
        all.pool_wait_ns += waits.ns;
    }
    return all;
}

const char *line_capture_lost(const struct line_capture *whole)
{
    return whole->lost;
}

const char *line_capture_complaint(const struct line_capture *whole)
{
    return whole->shared.capture ? shared_complaint(whole->shared.capture) : "";
}

void line_capture_commit(struct line_capture *whole)
{
    for (uint32_t i = 0; i < whole->request.count; i++)
        capture_commit(whole->parts[i].capture);
    if (whole->shared.capture)
        shared_commit(whole->shared.capture);
    destroy(whole);
}

void line_capture_cancel(struct line_capture *whole)
{
    if (!whole)
        return;
    for (uint32_t i = 0; i < whole->request.count; i++) {
        pthread_mutex_lock(&whole->parts[i].order_lock);
        whole->parts[i].may_order = false;
        pthread_mutex_unlock(&whole->parts[i].order_lock);
        capture_cancel(whole->parts[i].capture);
    }
    tell_copied(whole);
    if (whole->work)
        pool_cancel(whole->work);
    else
        destroy(whole);
}

/* All ranks of this node. */
static uint32_t group_of(const struct line_capture *whole)
{
    return rank_number(whole->request.ranks[0]);
}

/* Of the store: what they share. */
static uint32_t shared_part_of(const struct line_capture *whole)
{
    return whole->request.world + group_of(whole);
}

static int make_part(struct line_capture *whole, uint32_t index, struct belay_error *err)
{
    struct rank *rank = whole->request.ranks[index];
    struct capture_subject subject = {
        .memory = whole->request.memories[index],
        .program = rank_program(rank),
        .moves = &rank_control(rank)->moves,
        .is_guarding = policy_protects(whole->request.policy) && !whole->request.is_loading,
        .is_choosing = policy_chooses(whole->request.policy),
        .copying = rank_copying(rank),
        .header = {.line = whole->request.line,
                   .rank = rank_number(rank),
                   .ranks = whole->request.world,
                   .group = group_of(whole),
                   .resume_context = RANK_FIELD(rank, resume_context),
                   .layout_version = rank_layout_version(rank)},
    };
    memcpy(subject.header.identity, rank_identity(rank), sizeof subject.header.identity);
    struct part *part = &whole->parts[index];
    part->whole = whole;
    part->rank = rank_ref(rank);
    part->may_order = !policy_is_held(whole->request.policy);
    part->number = rank_number(rank);
    part->pid = rank_pid(rank);
    if (sched_getaffinity(part->pid, sizeof *whole->processors, &whole->processors[index]) < 0)
        CPU_ZERO(&whole->processors[index]);
    part->header = subject.header;
    part->image_room = store_image_room(whole->request.store, part->number);
    part->capture = capture_create(&subject);
    return part->capture ? 0 : belay_error_set(err, ENOMEM, "no memory to begin a capture");
}

/* What the ranks have noted; and what is lost at a restart, if that is asked for. -1 with ECHILD: not now. */
static int list_ranks(struct line_capture *whole, struct belay_error *err)
{
    struct shared_part *part = &whole->shared;
    part->ranks = calloc(whole->request.count, sizeof *part->ranks);
    if (!part->ranks)
        return belay_error_set(err, ENOMEM, "no memory to begin a capture");
    for (uint32_t i = 0; i < whole->request.count; i++) {
        const struct control *control = rank_control(whole->parts[i].rank);
        part->ranks[i] = (struct shared_rank){.pid = whole->parts[i].pid,
                                              .maps = capture_maps(whole->parts[i].capture),
                                              .notes_address = control->shares_address,
                                              .notes_count = control->shares_count,
                                              .number = whole->parts[i].number};
        part->has_notes |= control->shares_count > 0;
        part->may_share |= control->may_share != 0;
    }
    if (part->has_notes && whole->request.keeps_to_children &&
        notes_find_needed_child(part->ranks, whole->request.count, whole->lost, sizeof whole->lost))
        return belay_error_set(err, ECHILD, "%s", whole->lost);
    if (part->has_notes && !part->may_share)
        part->may_share = notes_meet(part->ranks, whole->request.count);
    if (part->has_notes && whole->request.wants_lost)
        notes_find_lost(part->ranks, whole->request.count, whole->lost, sizeof whole->lost);
    return 0;
}

static int make_shared(struct line_capture *whole, struct belay_error *err)
{
    struct shared_part *part = &whole->shared;
    const uint32_t count = whole->request.count;
    struct shared_request request = {
        .shared = whole->request.shared,
        .image = store_image(whole->request.store, shared_part_of(whole)),
        .ranks = part->ranks,
        .count = count,
        .header = {.line = whole->request.line,
                   .rank = shared_part_of(whole),
                   .ranks = 2 * whole->request.world,
                   .group = IMAGE_OF_SHARED},
    };
    part->capture = shared_capture_create(&request);
    return part->capture ? 0 : belay_error_set(err, ENOMEM, "no memory to begin a capture");
}

/* The first ranks run again while others still stand, and would write to these what is newer than the line.
 */
static void tell_standing(struct line_capture *whole)
{
    whole->standing = whole->request.count;
    whole->is_told_to_stand = true;
    for (uint32_t i = 0; i < whole->request.count; i++)
        rank_tell_others_stand(whole->parts[i].rank, true);
}

/* All are, or need not be any more. Once: the ranks may stand for another line when this one is released. */
static void tell_copied(struct line_capture *whole)
{
    pthread_mutex_lock(&whole->stand_lock);
    for (uint32_t i = 0; whole->is_told_to_stand && i < whole->request.count; i++)
        rank_tell_others_stand(whole->parts[i].rank, false);
    whole->is_told_to_stand = false;
    pthread_mutex_unlock(&whole->stand_lock);
}

static bool start(struct line_capture *whole, uint32_t count, const struct pool_ops *ops)
{
    whole->work = pool_start(whole->request.loop, count, ops, whole);
    return whole->work != NULL;
}

static void do_plan(void *context, uint32_t number)
{
    struct part *part = &((struct line_capture *)context)->parts[number];
    processor_follow(part->pid);
    part->rc = capture_plan(part->capture, &part->err);
    if (part->rc == 0 && !needs_memory(part))
        copy(part);
}

/* Whether it has to wait until the needs of all are known. */
static bool needs_memory(const struct part *part)
{
    const struct capture *capture = part->capture;
    return part->whole->request.memory_limit_bytes > 0 || !capture_is_delta(capture) ||
           capture_reserved_bytes(capture) < capture_bytes(capture) ||
           capture_image_bytes(capture) > part->image_room;
}

static void after_plan(void *context, uint32_t number)
{
    struct line_capture *whole = context;
    struct part *part = &whole->parts[number];
    if (part->rc == 0 && part->is_copied && !whole->is_failed)
        stage(part);
    if (part->rc < 0)
        note_failure(whole, part);
}

/* What all ranks have mapped is known now, so what they share can be planned. */
static void after_plans(void *context, bool is_cancelled)
{
    const struct belay_error err = {.code = ENOMEM, .text = "no memory to go on with the capture"};
    struct line_capture *whole = context;
    whole->work = NULL;
    if (is_cancelled) {
        destroy(whole);
        return;
    }
    if (!whole->is_failed && whole->shared.capture) {
        if (start(whole, 1, &plan_shared_ops))
            return;
        fail(whole, &err, "");
    }
    if (whole->is_failed)
        finish(whole);
    else
        begin_copy(whole);
}

static void do_plan_shared(void *context, uint32_t number)
{
    struct shared_part *part = &((struct line_capture *)context)->shared;
    (void)number;
    part->rc = shared_plan(part->capture, &part->err);
}

static void after_plan_shared(void *context, bool is_cancelled)
{
    struct line_capture *whole = context;
    whole->work = NULL;
    if (whole->shared.rc < 0)
        note_shared_failure(whole);
    if (is_cancelled)
        destroy(whole);
    else if (whole->is_failed)
        finish(whole);
    else
        begin_copy(whole);
}

static int check_room(struct line_capture *whole)
{
    struct store_need need = {0};
    add_need(whole, &need);
    return store_check_room(whole->request.store, &need, whole->request.memory_limit_bytes, &whole->err);
}

/* Every need is known now: nothing is copied that memory cannot hold. */
static void begin_copy(struct line_capture *whole)
{
    const struct belay_error err = {.code = ENOMEM, .text = "no memory to go on with the capture"};
    uint32_t left = list_left(whole);
    if (check_room(whole) < 0) { /* deltas of former lines may have been larger */
        for (uint32_t i = 0; i < whole->request.count; i++)
            capture_give_back(whole->parts[i].capture);
        whole->is_failed = check_room(whole) < 0;
    }
    if (!whole->is_failed && left > 0 && !start(whole, left, &copy_ops))
        fail(whole, &err, "");
    if (!whole->work)
        finish(whole);
}

/* What is not copied yet; what ranks share comes first, since all of them wait for it. */
static uint32_t list_left(struct line_capture *whole)
{
    uint32_t count = 0;
    if (whole->shared.capture)
        whole->left[count++] = whole->request.count;
    for (uint32_t i = 0; i < whole->request.count; i++)
        if (!whole->parts[i].is_copied)
            whole->left[count++] = i;
    return count;
}

static void add_need(const struct line_capture *whole, struct store_need *need)
{
    const struct shared_capture *shared = whole->shared.capture;
    for (uint32_t i = 0; i < whole->request.count; i++) {
        const struct capture *capture = whole->parts[i].capture;
        if (whole->parts[i].is_copied)
            continue;
        need->staged_bytes += capture_bytes(capture);
        need->reserved_bytes += capture_reserved_bytes(capture);
        if (capture_is_delta(capture))
            store_add_growth(whole->request.store, whole->parts[i].number, capture_image_bytes(capture),
                             need);
    }
    if (shared) {
        need->staged_bytes += shared_bytes(shared);
        need->reserved_bytes += shared_reserved_bytes(shared);
        if (shared_is_delta(shared))
            store_add_growth(whole->request.store, shared_part_of(whole), shared_image_bytes(shared), need);
    }
}

static void do_copy(void *context, uint32_t number)
{
    struct line_capture *whole = context;
    if (whole->left[number] == whole->request.count) {
        copy_shared(whole);
        return;
    }
    struct part *part = &whole->parts[whole->left[number]];
    processor_follow(part->pid);
    copy(part);
}

/* Before the rank runs again. */
static int take_witness(struct part *part)
{
    if (!witness_is_wanted(part->number, part->header.line))
        return 0;
    part->witness = witness_take(part->pid, &rank_control(part->rank)->layout, &part->header,
                                 rank_program(part->rank), &part->err);
    return part->witness ? 0 : -1;
}

/* What the capture has made, now that all of it is there. */
static int hear_witness(struct part *part, const struct store_item *item)
{
    const struct store *store = part->whole->request.store;
    int base = item->base_line ? store_image(store, part->number) : -1;
    if (!part->witness)
        return 0;
    if (witness_compare(part->witness, item->fd, base, &part->err) < 0) {
        log_error("line %llu, rank %u: %s", (unsigned long long)part->header.line, part->number,
                  part->err.text);
        return -1;
    }
    log_debug("line %llu, rank %u: its capture is what a full copy is", (unsigned long long)part->header.line,
              part->number);
    return 0;
}

static void copy(struct part *part)
{
    const struct line_capture *whole = part->whole;
    const struct shared_part *shared = &whole->shared;
    unsigned threads =
        crew_size(part->pid, capture_data_bytes(part->capture), whole->processors, whole->request.count);
    part->rc = capture_copy(part->capture, threads, &part->err);
    if (part->rc == 0)
        part->rc = take_witness(part);
    __atomic_store_n(&part->is_copied, part->rc == 0, __ATOMIC_SEQ_CST);
    if (part->rc == 0 && __atomic_sub_fetch(&part->whole->standing, 1, __ATOMIC_SEQ_CST) == 0)
        tell_copied(part->whole);
    if (part->rc == 0 && (!shared->capture || __atomic_load_n(&shared->is_copied, __ATOMIC_SEQ_CST)))
        release_rank(part);
    if (part->rc == 0)
        part->rc = capture_finish(part->capture, &part->err);
}

/*
 * It may run. Not by the loop: where all processors are taken, that would wait for the one that the first
 * released rank runs on, and the other ranks would wait for the loop.
 */
static void release_rank(struct part *part)
{
    pthread_mutex_lock(&part->order_lock);
    if (part->may_order)
        rank_order(part->rank, CONTROL_RUN, part->whole->request.line);
    pthread_mutex_unlock(&part->order_lock);
}

/* Ranks whose own memory is copied by now may run; each of the others when that is done. */
static void copy_shared(struct line_capture *whole)
{
    struct shared_part *shared = &whole->shared;
    shared->rc = shared_copy(shared->capture, &shared->err);
    if (shared->rc < 0)
        return;
    __atomic_store_n(&shared->is_copied, true, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < whole->request.count; i++)
        if (__atomic_load_n(&whole->parts[i].is_copied, __ATOMIC_SEQ_CST))
            release_rank(&whole->parts[i]);
}

static void after_copy(void *context, uint32_t number)
{
    struct line_capture *whole = context;
    uint32_t which = whole->left[number];
    bool is_shared = which == whole->request.count;
    const int *rc = is_shared ? &whole->shared.rc : &whole->parts[which].rc;
    if (*rc == 0 && !whole->is_failed && is_shared)
        stage_shared(whole);
    else if (*rc == 0 && !whole->is_failed)
        stage(&whole->parts[which]);
    if (*rc < 0 && is_shared)
        note_shared_failure(whole);
    else if (*rc < 0)
        note_failure(whole, &whole->parts[which]);
}

static void after_copies(void *context, bool is_cancelled)
{
    struct line_capture *whole = context;
    whole->work = NULL;
    if (is_cancelled)
        destroy(whole);
    else
        finish(whole);
}

/* If the rank has ended meanwhile, another process may have got its number: nothing of it gets into an image.
 */
static void stage(struct part *part)
{
    struct line_capture *whole = part->whole;
    if (!rank_is_alive(part->rank)) {
        part->rc = belay_error_set(&part->err, ESRCH, "its process has ended");
        return;
    }
    whole->captured_bytes += capture_copied_bytes(part->capture);
    tell_guarded(part);
    struct store_item item = {.rank = part->number,
                              .ranks = whole->request.world,
                              .here = whole->request.count,
                              .bytes = capture_bytes(part->capture),
                              .image_bytes = capture_image_bytes(part->capture)};
    item.fd = capture_take(part->capture, &item.base_line);
    part->rc = hear_witness(part, &item);
    if (part->rc < 0)
        close(item.fd);
    else
        part->rc = store_stage(whole->request.store, whole->request.line, &item, &part->err);
}

static void tell_guarded(const struct part *part)
{
    uint64_t bytes = capture_guarded_bytes(part->capture);
    struct cow_faults faults = capture_faults(part->capture);
    if (bytes > 0)
        log_debug(
            "line %llu: %llu bytes of rank %u were copied while it ran; %llu writes waited, at most %llu us",
            (unsigned long long)part->whole->request.line, (unsigned long long)bytes, part->number,
            (unsigned long long)faults.count, (unsigned long long)faults.longest_ns / 1000);
}

static void stage_shared(struct line_capture *whole)
{
    struct shared_part *part = &whole->shared;
    struct store_item item = {.rank = shared_part_of(whole),
                              .ranks = whole->request.world,
                              .here = whole->request.count,
                              .bytes = shared_bytes(part->capture),
                              .image_bytes = shared_image_bytes(part->capture)};
    whole->captured_bytes += shared_data_bytes(part->capture);
    item.fd = shared_take(part->capture, &item.base_line);
    part->rc = store_stage(whole->request.store, whole->request.line, &item, &part->err);
}

static void note_failure(struct line_capture *whole, const struct part *part)
{
    char what[32];
    snprintf(what, sizeof what, "rank %u", part->number);
    if (part->err.code == ESRCH || part->err.code == ENOENT) { /* its process has ended meanwhile */
        const struct belay_error lost = {.code = ESRCH, .text = " was lost"};
        fail(whole, &lost, what);
    } else {
        strcat(what, ": ");
        fail(whole, &part->err, what);
    }
}

static void note_shared_failure(struct line_capture *whole)
{
    const struct belay_error *err = &whole->shared.err;
    const struct belay_error lost = {.code = ESRCH, .text = "a rank was lost"};
    bool is_lost = err->code == ESRCH || err->code == ENOENT;
    fail(whole, is_lost ? &lost : err, is_lost ? "" : "shared memory: ");
}

static void fail(struct line_capture *whole, const struct belay_error *err, const char *what)
{
    if (!whole->is_failed)
        belay_error_set(&whole->err, err->code, "%s%.480s", what, err->text);
    whole->is_failed = true;
}

static void finish(struct line_capture *whole)
{
    tell_copied(whole); /* a failed one may have left some out */
    whole->ops->done(whole->captured_bytes, whole->is_failed ? whole->err.text : NULL, whole->context);
}

static void destroy(struct line_capture *whole)
{
    tell_copied(whole);
    pthread_mutex_destroy(&whole->stand_lock);
    for (uint32_t i = 0; i < whole->request.count; i++) {
        capture_destroy(whole->parts[i].capture);
        witness_destroy(whole->parts[i].witness);
        rank_unref(whole->parts[i].rank);
        pthread_mutex_destroy(&whole->parts[i].order_lock);
    }
    free(whole->processors);
    free(whole->left);
    shared_capture_destroy(whole->shared.capture);
    free(whole->shared.ranks);
    free(whole->parts);
    free(whole);
}
