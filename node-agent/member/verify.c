#include "node-agent/member/verify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/image/image.h"
#include "common/image/root.h"
#include "common/image/sums.h"
#include "common/util/array.h"
#include "common/util/log.h"
#include "node-agent/loop/pool.h"
#include "node-agent/member/gather.h"
#include "node-agent/store/parity_check.h"
#include "node-agent/store/parity_part.h"

struct verifier {
    struct mirror_epoch epoch;
    struct gatherer *gatherer; /* of SCHEME_PARITY; else NULL */
    scrub_damaged_f *damaged;
    void *owner;

    verify_done_f *done; /* of the check in progress; NULL: none */
    void *context;
    struct verified *list;
    size_t count, room;
    uint32_t part; /* that is being compared */
    struct store_pin pin;
    struct gathering *gathering; /* what parity has to be is being put together; else NULL */
    int sum;                     /* it is there; -1: not, or the part is no parity */
    struct pool_work *work;
    bool is_stopped;     /* atomic: the thread is to return */
    struct verified now; /* the thread's */
};

static void go_on(struct verifier *verifier);
static bool begin_part(struct verifier *verifier);
static int begin_gathering(struct verifier *verifier, struct belay_error *err);
static void on_gathered(void *context, int fd, const struct belay_error *err);
static void begin_comparison(struct verifier *verifier);
static void conclude(struct verifier *verifier, enum verify_result result, const struct belay_error *err);
static void run(void *context, uint32_t part);
static void after(void *context, bool is_cancelled);
static void end(struct verifier *verifier, const struct belay_error *err);

static const struct pool_ops pool_ops = {.run = run, .done = after};

struct verifier *verifier_create(const struct mirror_epoch *epoch, struct gatherer *gatherer,
                                 scrub_damaged_f *damaged, void *context)
{
    struct verifier *verifier = calloc(1, sizeof *verifier);
    if (!verifier)
        return NULL;
    verifier->epoch = *epoch;
    verifier->gatherer = gatherer;
    verifier->damaged = damaged;
    verifier->owner = context;
    verifier->sum = -1;
    return verifier;
}

void verifier_destroy(struct verifier *verifier)
{
    static const struct belay_error over = {.code = ECANCELED, .text = "the epoch has ended"};
    if (verifier && verifier->done)
        end(verifier, &over);
    free(verifier);
}

static void drop_sum(struct verifier *verifier)
{
    gather_cancel(verifier->gathering);
    verifier->gathering = NULL;
    if (verifier->sum >= 0)
        close(verifier->sum);
    verifier->sum = -1;
}

/* ---- what this node holds ---- */

int verifier_begin(struct verifier *verifier, verify_done_f *done, void *context, struct belay_error *err)
{
    const struct store *store = verifier->epoch.job->store;
    if (verifier->done)
        return belay_error_set(err, EBUSY, "the images of this node are being compared already");
    if (store_has_deltas(store))
        return belay_error_set(err, EBUSY, "a line is being brought into the images");
    verifier->done = done;
    verifier->context = context;
    verifier->count = 0;
    verifier->part = 0;
    go_on(verifier);
    return 0;
}

/* Until something has to be waited for. */
static void go_on(struct verifier *verifier)
{
    while (verifier->done && verifier->part < store_parts(verifier->epoch.job->store))
        if (begin_part(verifier))
            return;
    if (verifier->done)
        end(verifier, NULL);
}

static enum verify_kind kind_of(uint32_t part, uint32_t ranks)
{
    return part < ranks                         ? VERIFY_IMAGE
           : part < store_parity_part(ranks, 0) ? VERIFY_SHARED
           : part < store_tables_part(ranks, 0) ? VERIFY_PARITY
                                                : VERIFY_TABLES;
}

/* True: conclude() follows later. */
static bool begin_part(struct verifier *verifier)
{
    struct store *store = verifier->epoch.job->store;
    uint32_t part = verifier->part, ranks = store_ranks(store);
    struct belay_error err = {0};
    verifier->now = (struct verified){
        .kind = kind_of(part, ranks), .rank = part % ranks, .line = store_committed_line(store)};
    if (store_is_damaged(store, part)) {
        belay_error_set(&err, EBADMSG, "it is damaged in memory; the next line makes it anew");
        conclude(verifier, VERIFY_DIFFERS, &err);
        return false;
    }
    if (store_image_pin(store, part, PIN_SCRUBBED, &verifier->pin, &err) < 0) {
        if (err.code == ENOENT && (verifier->now.kind != VERIFY_PARITY || !verifier->gatherer ||
                                   !gatherer_expects(verifier->gatherer, part % ranks)))
            verifier->part++;
        else
            conclude(verifier, VERIFY_UNKNOWN, &err);
        return false;
    }
    if (verifier->now.kind == VERIFY_PARITY && begin_gathering(verifier, &err) < 0) {
        conclude(verifier, VERIFY_UNKNOWN, &err);
        return false;
    }
    if (!verifier->gathering)
        begin_comparison(verifier);
    return verifier->work || verifier->gathering;
}

/* From all other members of the set that have a rank in the slot. */
static int begin_gathering(struct verifier *verifier, struct belay_error *err)
{
    struct parity_holding holding = {0}, wanted = {0};
    uint32_t slot = verifier->now.rank;
    if (parity_part_read(verifier->pin.fd, &holding, err) < 0)
        return -1;
    if (verifier->gatherer)
        wanted = set_holding(gatherer_set(verifier->gatherer), slot);
    if (!verifier->gatherer || !parity_part_is_same(&holding, &wanted))
        return belay_error_set(err, EAGAIN, "it is of a former set of nodes, and is being made anew");
    verifier->gathering = gather(verifier->gatherer, slot, verifier->now.line, on_gathered, verifier, err);
    return verifier->gathering ? 0 : -1;
}

static void on_gathered(void *context, int fd, const struct belay_error *err)
{
    struct verifier *verifier = context;
    verifier->gathering = NULL;
    verifier->sum = fd;
    if (fd >= 0)
        begin_comparison(verifier);
    else
        conclude(verifier, VERIFY_UNKNOWN, err);
    if (!verifier->work)
        go_on(verifier);
}

/* Everything is here that it takes. */
static void begin_comparison(struct verifier *verifier)
{
    static const struct belay_error none = {.code = ENOMEM, .text = "the agent is out of memory"};
    verifier->is_stopped = false;
    verifier->work = pool_start(verifier->epoch.job->agent->loop, 1, &pool_ops, verifier);
    if (!verifier->work)
        conclude(verifier, VERIFY_UNKNOWN, &none);
}

/* What parity is of, in front of what is wrong with it. */
static int name_ranks(const struct verifier *verifier, struct belay_error *err)
{
    char text[12 * PARITY_MEMBERS_MAX] = "";
    int at = 0;
    const struct set *set = gatherer_set(verifier->gatherer);
    for (uint32_t i = 0; i < set->of.size; i++) {
        uint32_t rank = set_rank(set, i, verifier->now.rank);
        if (i != set->of.position && rank != EPOCH_NOBODY)
            at += snprintf(text + at, sizeof text - (size_t)at, "%s%" PRIu32, at ? ", " : "", rank);
    }
    return belay_error_prefix(err, "ranks %s", text);
}

static int compare(struct verifier *verifier, const struct image_view *view)
{
    struct verified *now = &verifier->now;
    int fd = verifier->pin.fd;
    bool is_tables = now->kind == VERIFY_TABLES;
    int rc = is_tables ? sums_check_tables(view, &now->err)
                       : sums_check(fd, view, &verifier->is_stopped, &now->err);
    for (uint64_t i = 0; rc == 0 && !is_tables && i < view->header->run_count; i++)
        now->bytes += view->runs[i].bytes;
    if (rc == 0 && verifier->sum >= 0)
        rc = parity_check(fd, verifier->sum, &verifier->is_stopped, &now->bytes, &now->err);
    if (rc < 0 && verifier->sum >= 0)
        return name_ranks(verifier, &now->err);
    if (rc == 0)
        rc = (is_tables ? root_of_tables : root_of_image)(fd, -1, &now->root, &now->err);
    return rc;
}

/* In a thread. */
static void run(void *context, uint32_t part)
{
    struct verifier *verifier = context;
    struct verified *now = &verifier->now;
    struct image_view view;
    (void)part;
    now->err.code = 0;
    if (image_load(verifier->pin.fd, &view, &now->err) < 0)
        return;
    if (fault_hit("agent.verify", (int)verifier->part, now->line))
        fault_flip(verifier->pin.fd, image_first_data(&view));
    if (compare(verifier, &view) == 0)
        now->err.code = 0;
    image_unload(&view);
}

static void after(void *context, bool is_cancelled)
{
    struct verifier *verifier = context;
    const struct verified *now = &verifier->now;
    struct digest known = store_part_root(verifier->epoch.job->store, verifier->part);
    struct belay_error err = now->err;
    (void)is_cancelled; /* never */
    verifier->work = NULL;
    if (err.code == 0 && now->line == store_committed_line(verifier->epoch.job->store) &&
        digest_is_known(&known) && !digest_is_equal(&known, &now->root))
        belay_error_set(&err, EBADMSG, "it is another image than the one that was committed");
    bool differs = err.code == EBADMSG || err.code == EINVAL;
    uint32_t part = verifier->part;
    bool is_committed = now->line == store_committed_line(verifier->epoch.job->store);
    conclude(verifier, differs ? VERIFY_DIFFERS : err.code ? VERIFY_UNKNOWN : VERIFY_AGREES, &err);
    if (differs && is_committed)
        verifier->damaged(verifier->owner, part, &err);
    go_on(verifier);
}

/* Of the part that is being compared: the next one is due. */
static void conclude(struct verifier *verifier, enum verify_result result, const struct belay_error *err)
{
    static const struct belay_error out_of_memory = {.code = ENOMEM, .text = "the agent is out of memory"};
    if (verifier->pin.reason != PIN_NONE)
        store_image_unpin(verifier->epoch.job->store, &verifier->pin);
    drop_sum(verifier);
    verifier->part++;
    verifier->now.result = result;
    verifier->now.err = *err;
    if (array_reserve(&verifier->list, verifier->count + 1, &verifier->room) < 0)
        end(verifier, &out_of_memory);
    else
        verifier->list[verifier->count++] = verifier->now;
}

static void end(struct verifier *verifier, const struct belay_error *err)
{
    verify_done_f *done = verifier->done;
    struct verified *list = verifier->list;
    uint32_t count = (uint32_t)verifier->count;
    __atomic_store_n(&verifier->is_stopped, true, __ATOMIC_SEQ_CST);
    pool_join(verifier->work);
    verifier->work = NULL;
    if (verifier->pin.reason != PIN_NONE)
        store_image_unpin(verifier->epoch.job->store, &verifier->pin);
    drop_sum(verifier);
    verifier->done = NULL;
    verifier->list = NULL;
    verifier->count = verifier->room = 0;
    done(verifier->context, list, count, err);
    free(list);
}
