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
#include "node-agent/member/set.h"
#include "node-agent/member/share.h"
#include "node-agent/store/parity_check.h"
#include "node-agent/store/parity_part.h"

#define NOTE_MAGIC 0x66697276u

enum note_kind { NOTE_NONE = 0, NOTE_WANT, NOTE_SHARE, NOTE_REFUSED };

/* A word, and the tag in front of a share. */
struct note {
    uint32_t magic;
    uint32_t kind; /* enum note_kind */
    uint32_t epoch;
    uint32_t slot, ranks; /* ranks of the world */
    int32_t error;        /* REFUSED: errno */
    uint64_t line;
    uint64_t number; /* of the comparison, at the node that compares */
};

/* Where the shares of the others are added up; shared by those that come. */
struct summing {
    uint32_t references;
    int fd;
    struct share_sum sum;
};

/* A share that comes. */
struct taking {
    struct taking *next;
    struct verifier *verifier; /* NULL: gone */
    struct summing *summing;
    uint32_t position;
    struct way way;
    struct share_intake intake;
};

/* A share that goes to a node that compares its parity. */
struct giving {
    struct giving *next;
    struct verifier *verifier; /* NULL: gone */
    struct store_pin pin;
    struct share *share;
};

struct verifier {
    struct mirror_epoch epoch;
    struct set set; /* of SCHEME_PARITY */
    bool has_set;
    scrub_damaged_f *damaged;
    void *owner;
    struct giving *givings;
    struct taking *takings;

    verify_done_f *done; /* of the check in progress; NULL: none */
    void *context;
    struct verified *list;
    size_t count, room;
    uint32_t part;   /* that is being compared */
    uint64_t number; /* of this comparison */
    struct store_pin pin;
    struct summing *summing; /* of parity; else NULL */
    uint32_t awaited;        /* mask of positions whose shares have not come */
    uint32_t coming;         /* of these, those that come */
    struct pool_work *work;
    bool is_stopped;     /* atomic: the thread is to return */
    struct verified now; /* the thread's */
};

static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count);
static int on_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                      struct transfer_intake *intake);
static void on_lost(void *context, uint32_t node);
static void go_on(struct verifier *verifier);
static bool begin_part(struct verifier *verifier);
static int ask_for_shares(struct verifier *verifier, struct belay_error *err);
static void begin_comparison(struct verifier *verifier);
static void conclude(struct verifier *verifier, enum verify_result result, const struct belay_error *err);
static void run(void *context, uint32_t part);
static void after(void *context, bool is_cancelled);
static void end(struct verifier *verifier, const struct belay_error *err);

static const struct remotes_ops remotes_ops = {.word = on_word, .offered = on_offered, .lost = on_lost};
static const struct pool_ops pool_ops = {.run = run, .done = after};

struct verifier *verifier_create(const struct mirror_epoch *epoch, scrub_damaged_f *damaged, void *context)
{
    struct verifier *verifier = calloc(1, sizeof *verifier);
    if (!verifier)
        return NULL;
    verifier->epoch = *epoch;
    verifier->damaged = damaged;
    verifier->owner = context;
    verifier->has_set = epoch->scheme == SCHEME_PARITY && epoch->member_count > 1;
    if (verifier->has_set && set_init(&verifier->set, epoch) < 0) {
        free(verifier);
        return NULL;
    }
    if (epoch->remotes)
        remotes_hear(epoch->remotes, REMOTES_CHECKS, &remotes_ops, verifier);
    return verifier;
}

static void summing_unref(struct summing *summing)
{
    if (!summing || --summing->references > 0)
        return;
    share_sum_release(&summing->sum);
    close(summing->fd);
    free(summing);
}

void verifier_destroy(struct verifier *verifier)
{
    static const struct belay_error over = {.code = ECANCELED, .text = "the epoch has ended"};
    struct store *store = verifier ? verifier->epoch.job->store : NULL;
    if (!verifier)
        return;
    if (verifier->done)
        end(verifier, &over);
    while (verifier->givings) {
        struct giving *giving = verifier->givings;
        verifier->givings = giving->next;
        store_image_unpin(store, &giving->pin);
        giving->verifier = NULL;
        share_cancel(giving->share); /* on_given() follows */
    }
    while (verifier->takings) {
        verifier->takings->verifier = NULL; /* the fabric still gives to it */
        verifier->takings = verifier->takings->next;
    }
    if (verifier->epoch.remotes)
        remotes_hear(verifier->epoch.remotes, REMOTES_CHECKS, NULL, NULL);
    if (verifier->has_set)
        set_release(&verifier->set);
    free(verifier);
}

static struct note note_of(const struct verifier *verifier, enum note_kind kind, uint32_t slot, uint64_t line,
                           uint64_t number)
{
    return (struct note){.magic = NOTE_MAGIC,
                         .kind = kind,
                         .epoch = verifier->epoch.number,
                         .slot = slot,
                         .ranks = verifier->epoch.world,
                         .line = line,
                         .number = number};
}

static bool read_note(const struct verifier *verifier, const void *bytes, size_t count, struct note *note)
{
    if (count != sizeof *note || !verifier->has_set)
        return false;
    memcpy(note, bytes, sizeof *note);
    return note->magic == NOTE_MAGIC && note->epoch == verifier->epoch.number &&
           note->ranks == verifier->epoch.world && note->slot < note->ranks && note->line > 0;
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

/* Of the slots that any other member of the set has a rank in, this node has to hold parity. */
static bool is_expected(const struct verifier *verifier, uint32_t slot)
{
    for (uint32_t i = 0; verifier->has_set && i < verifier->set.of.size; i++)
        if (i != verifier->set.of.position && set_rank(&verifier->set, i, slot) != EPOCH_NOBODY)
            return true;
    return false;
}

/* True: conclude() follows later. */
static bool begin_part(struct verifier *verifier)
{
    struct store *store = verifier->epoch.job->store;
    uint32_t part = verifier->part, ranks = store_ranks(store);
    struct belay_error err = {0};
    verifier->now = (struct verified){
        .kind = kind_of(part, ranks), .rank = part % ranks, .line = store_committed_line(store)};
    verifier->number++;
    if (store_is_damaged(store, part)) {
        belay_error_set(&err, EBADMSG, "it is damaged in memory; the next line makes it anew");
        conclude(verifier, VERIFY_DIFFERS, &err);
        return false;
    }
    if (store_image_pin(store, part, PIN_SCRUBBED, &verifier->pin, &err) < 0) {
        if (err.code == ENOENT &&
            (verifier->now.kind != VERIFY_PARITY || !is_expected(verifier, part % ranks)))
            verifier->part++;
        else
            conclude(verifier, VERIFY_UNKNOWN, &err);
        return false;
    }
    if (verifier->now.kind == VERIFY_PARITY && ask_for_shares(verifier, &err) < 0) {
        conclude(verifier, VERIFY_UNKNOWN, &err);
        return false;
    }
    if (verifier->awaited == 0)
        begin_comparison(verifier);
    return verifier->work || verifier->awaited;
}

static struct summing *summing_create(const struct job *job, struct belay_error *err)
{
    struct summing *summing = calloc(1, sizeof *summing);
    uint64_t room = store_room(job->store, job->config->settings->memory_bytes);
    if (!summing || (summing->fd = image_make_memfd(err)) < 0) {
        free(summing);
        belay_error_set(err, ENOMEM, "no memory to compare parity");
        return NULL;
    }
    summing->references = 1;
    share_sum_init(&summing->sum, summing->fd, room);
    return summing;
}

/* From all other members of the set that have a rank in the slot. */
static int ask_for_shares(struct verifier *verifier, struct belay_error *err)
{
    const struct set *set = &verifier->set;
    struct parity_holding holding = {0}, wanted;
    uint32_t slot = verifier->now.rank;
    if (parity_part_read(verifier->pin.fd, &holding, err) < 0)
        return -1;
    if (verifier->has_set)
        wanted = set_holding(set, slot);
    if (!verifier->has_set || !parity_part_is_same(&holding, &wanted))
        return belay_error_set(err, EAGAIN, "it is of a former set of nodes; the next line makes it anew");
    verifier->summing = summing_create(verifier->epoch.job, err);
    if (!verifier->summing)
        return -1;
    const struct note word = note_of(verifier, NOTE_WANT, slot, verifier->now.line, verifier->number);
    for (uint32_t i = 0; i < set->of.size; i++) {
        if (i == set->of.position || wanted.ranks[i] == EPOCH_NOBODY)
            continue;
        if (remotes_say(verifier->epoch.remotes, REMOTES_CHECKS, set_node(set, i), &word, sizeof word) < 0)
            return belay_error_errno(err, "node %" PRIu32 " cannot be asked for its blocks",
                                     set_node(set, i));
        verifier->awaited |= 1u << i;
    }
    return 0;
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
    for (uint32_t i = 0; i < verifier->set.of.size; i++) {
        uint32_t rank = set_rank(&verifier->set, i, verifier->now.rank);
        if (i != verifier->set.of.position && rank != EPOCH_NOBODY)
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
    if (rc == 0 && verifier->summing)
        rc = parity_check(fd, verifier->summing->fd, &verifier->is_stopped, &now->bytes, &now->err);
    if (rc < 0 && verifier->summing)
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
    summing_unref(verifier->summing);
    verifier->summing = NULL;
    verifier->awaited = verifier->coming = 0;
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
    summing_unref(verifier->summing);
    verifier->summing = NULL;
    verifier->awaited = verifier->coming = 0;
    verifier->done = NULL;
    verifier->list = NULL;
    verifier->count = verifier->room = 0;
    done(verifier->context, list, count, err);
    free(list);
}

/* ---- words and shares ---- */

static void on_given(void *context, int error)
{
    struct giving *giving = share_owner(context);
    struct verifier *verifier = giving->verifier;
    struct giving **at = verifier ? &verifier->givings : NULL;
    while (at && *at != giving)
        at = &(*at)->next;
    if (at) {
        *at = giving->next;
        store_image_unpin(verifier->epoch.job->store, &giving->pin);
    }
    if (verifier && error && error != ECANCELED)
        log_info("blocks for a comparison of parity have not arrived: %s", strerror(error));
    share_destroy(giving->share);
    free(giving);
}

static struct giving *giving_create(struct verifier *verifier, uint32_t rank, uint32_t position,
                                    struct belay_error *err)
{
    struct store *store = verifier->epoch.job->store;
    const struct way way = {verifier->set.of.code, verifier->set.of.position, position};
    struct giving *giving = calloc(1, sizeof *giving);
    if (!giving || store_image_pin(store, rank, PIN_SCRUBBED, &giving->pin, err) < 0) {
        free(giving);
        return NULL;
    }
    struct share_pages *pages = share_pages_of_image(giving->pin.fd, err);
    giving->verifier = verifier;
    giving->share = pages ? share_create(pages, way_route, &way, sizeof way) : NULL;
    share_pages_unref(pages);
    if (giving->share) {
        share_set_owner(giving->share, giving);
        return giving;
    }
    store_image_unpin(store, &giving->pin);
    free(giving);
    return NULL;
}

/* All blocks of this node's rank in the slot. Returns 0 or an errno. */
static int give(struct verifier *verifier, uint32_t node, const struct note *want)
{
    const struct store *store = verifier->epoch.job->store;
    uint32_t position = set_position(&verifier->set, node);
    uint32_t rank = set_rank(&verifier->set, verifier->set.of.position, want->slot);
    const struct note tag = note_of(verifier, NOTE_SHARE, want->slot, want->line, want->number);
    struct belay_error err = {.code = ENOMEM};
    if (position == EPOCH_NOBODY || position == verifier->set.of.position || rank == EPOCH_NOBODY)
        return EPERM;
    if (store_has_deltas(store) || store_image_line(store, rank) != want->line)
        return ESTALE;
    struct giving *giving = giving_create(verifier, rank, position, &err);
    if (!giving)
        return err.code;
    if (remotes_push(verifier->epoch.remotes, REMOTES_CHECKS, node, &tag, sizeof tag,
                     share_bound(giving->share), share_fill, on_given, giving->share) < 0) {
        store_image_unpin(verifier->epoch.job->store, &giving->pin);
        share_destroy(giving->share);
        free(giving);
        return EHOSTUNREACH;
    }
    giving->next = verifier->givings;
    verifier->givings = giving;
    return 0;
}

/* Whose share is awaited, and of the comparison in progress; EPOCH_NOBODY: it is not. */
static uint32_t sender_of(const struct verifier *verifier, uint32_t node, const struct note *note)
{
    uint32_t position = set_position(&verifier->set, node);
    bool is_awaited = verifier->summing && position != EPOCH_NOBODY && verifier->awaited & 1u << position &&
                      note->number == verifier->number && note->line == verifier->now.line &&
                      note->slot == verifier->now.rank;
    return is_awaited ? position : EPOCH_NOBODY;
}

static void give_up(struct verifier *verifier, uint32_t node, int error)
{
    struct belay_error err;
    belay_error_set(&err, error, "node %" PRIu32 " has not sent its blocks: %s", node,
                    error == ESTALE       ? "it is at another line"
                    : error == ECONNRESET ? "the link to it is lost"
                                          : strerror(error));
    conclude(verifier, VERIFY_UNKNOWN, &err);
    go_on(verifier);
}

static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count)
{
    struct verifier *verifier = context;
    struct note note;
    if (!read_note(verifier, bytes, count, &note))
        return;
    if (note.kind == NOTE_REFUSED && sender_of(verifier, node, &note) != EPOCH_NOBODY)
        give_up(verifier, node, note.error);
    int code = note.kind == NOTE_WANT ? give(verifier, node, &note) : 0;
    if (code == 0)
        return;
    note.kind = NOTE_REFUSED;
    note.error = code;
    if (remotes_say(verifier->epoch.remotes, REMOTES_CHECKS, node, &note, sizeof note) < 0)
        log_info("node %" PRIu32 " cannot be told that it gets no blocks", node); /* it hears of the link */
}

static void on_lost(void *context, uint32_t node)
{
    struct verifier *verifier = context;
    uint32_t position = verifier->has_set ? set_position(&verifier->set, node) : EPOCH_NOBODY;
    if (verifier->summing && position != EPOCH_NOBODY && verifier->awaited & 1u << position)
        give_up(verifier, node, ECONNRESET);
}

static uint8_t weigh(const void *context, uint64_t address)
{
    return way_weigh(&((const struct taking *)context)->way, address);
}

/* In a thread of the fabric's. */
static int on_bytes(void *context, uint64_t offset, const uint8_t *bytes, size_t count)
{
    struct taking *taking = context;
    (void)offset;
    return share_intake_take(&taking->intake, bytes, count);
}

static void on_taken(void *context, int error)
{
    struct taking *taking = context, **at;
    struct verifier *verifier = taking->verifier;
    bool is_whole = share_intake_end(&taking->intake) && error == 0;
    for (at = verifier ? &verifier->takings : NULL; at && *at != taking;)
        at = &(*at)->next;
    if (at)
        *at = taking->next;
    bool is_awaited = verifier && verifier->summing == taking->summing;
    uint32_t position = taking->position;
    summing_unref(taking->summing);
    free(taking);
    if (is_awaited && !is_whole) {
        give_up(verifier, set_node(&verifier->set, position), error ? error : EBADMSG);
    } else if (is_awaited) {
        verifier->awaited &= ~(1u << position);
        if (verifier->awaited == 0)
            begin_comparison(verifier);
        if (!verifier->summing)
            go_on(verifier);
    }
}

static int on_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                      struct transfer_intake *intake)
{
    struct verifier *verifier = context;
    const struct job *job = verifier->epoch.job;
    struct note note;
    if (!read_note(verifier, tag, tag_bytes, &note) || note.kind != NOTE_SHARE)
        return EPROTO;
    uint32_t position = sender_of(verifier, node, &note);
    if (position == EPOCH_NOBODY)
        return ECANCELED;
    if (verifier->coming & 1u << position)
        return EALREADY;
    if (bytes > store_room(job->store, job->config->settings->memory_bytes)) {
        give_up(verifier, node, ENOMEM);
        return ENOMEM;
    }
    struct taking *taking = calloc(1, sizeof *taking);
    if (!taking)
        return ENOMEM;
    *taking = (struct taking){.next = verifier->takings,
                              .verifier = verifier,
                              .summing = verifier->summing,
                              .position = position,
                              .way = {verifier->set.of.code, position, verifier->set.of.position}};
    taking->summing->references++;
    share_intake_begin(&taking->intake, &taking->summing->sum, weigh, taking);
    verifier->coming |= 1u << position;
    verifier->takings = taking;
    *intake = (struct transfer_intake){.take = on_bytes, .done = on_taken, .context = taking};
    return 0;
}
