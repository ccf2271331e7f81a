/* rebuilder.c - the rebuilder of an epoch: who asks for what, and what comes. */
#include "node-agent/member/rebuild_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/log.h"

/* A share that comes. */
struct arrival {
    struct making *making;
    struct rebuild_note note;
    struct share_intake intake; /* not of tables */
};

static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count);
static int on_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                      struct transfer_intake *intake);
static void on_lost(void *context, uint32_t node);

static const struct remotes_ops remotes_ops = {.word = on_word, .offered = on_offered, .lost = on_lost};

struct rebuilder *rebuilder_create(struct job *job, struct remotes *remotes, const struct epoch_start *start,
                                   rebuilder_done_f *done, void *context)
{
    struct rebuilder *rebuilder = calloc(1, sizeof *rebuilder);
    if (!rebuilder)
        return NULL;
    *rebuilder = (struct rebuilder){.job = job,
                                    .remotes = remotes,
                                    .start = start,
                                    .own = epoch_start_index(start, job->config->node),
                                    .done = done,
                                    .context = context};
    remotes_hear(remotes, REMOTES_SHARES, &remotes_ops, rebuilder);
    return rebuilder;
}

void rebuilder_destroy(struct rebuilder *rebuilder)
{
    if (!rebuilder)
        return;
    rebuilder_stop(rebuilder);
    giving_end_all_lent(rebuilder);
    while (rebuilder->givings) {
        struct giving *giving = rebuilder->givings;
        rebuilder->givings = giving->next;
        store_image_unpin(rebuilder->job->store, &giving->pin);
        giving->rebuilder = NULL;
        if (giving->outgoing) {
            outgoing_cancel(giving->outgoing); /* it is not told of its end */
            giving->outgoing = NULL;
            giving_destroy(giving);
        } else {
            share_cancel(giving->share); /* on_given() follows */
        }
    }
    remotes_hear(rebuilder->remotes, REMOTES_SHARES, NULL, NULL);
    free(rebuilder);
}

void rebuilder_stop(struct rebuilder *rebuilder)
{
    while (rebuilder->makings) {
        struct making *making = rebuilder->makings;
        rebuilder->makings = making->next;
        making->rebuilder = NULL;
        for (struct giving *own = making->own; own; own = own->next)
            store_image_unpin(rebuilder->job->store, &own->pin);
        making_unref(making);
    }
}

uint64_t rebuilder_bytes(const struct rebuilder *rebuilder)
{
    uint64_t bytes = 0;
    for (const struct making *making = rebuilder->makings; making; making = making->next)
        bytes += __atomic_load_n(&making->got, __ATOMIC_RELAXED);
    return bytes;
}

bool rebuilder_is_busy(const struct rebuilder *rebuilder)
{
    for (const struct making *making = rebuilder->makings; making; making = making->next)
        if (making->is_busy)
            return true;
    return false;
}

struct rebuild_note rebuild_note_of(const struct rebuilder *rebuilder, enum rebuild_kind kind,
                                    enum rebuild_what what, uint32_t rank, uint32_t position)
{
    return (struct rebuild_note){.magic = REBUILD_MAGIC,
                                 .kind = kind,
                                 .what = what,
                                 .epoch = rebuilder->start->epoch,
                                 .rank = rank,
                                 .position = position,
                                 .ranks = rebuilder->start->rank_count,
                                 .line = rebuilder->start->line};
}

/* Of a word, pieces may follow it. */
static bool read_note(const struct rebuilder *rebuilder, const void *bytes, size_t count,
                      struct rebuild_note *note)
{
    if (count < sizeof *note)
        return false;
    memcpy(note, bytes, sizeof *note);
    return note->magic == REBUILD_MAGIC && note->epoch == rebuilder->start->epoch &&
           note->ranks == rebuilder->start->rank_count && note->rank < note->ranks && note->line > 0 &&
           note->line == rebuilder->start->line && note->position < PARITY_MEMBERS_MAX;
}

uint32_t rebuild_source_of(const struct epoch_rebuild *plan, enum rebuild_what what, uint32_t position)
{
    return what == REBUILD_TABLES                  ? plan->tables
           : position >= plan->data + plan->parity ? EPOCH_NOBODY
           : what == REBUILD_IMAGE                 ? plan->images[position]
           : what == REBUILD_PARITY                ? plan->parities[position]
                                                   : EPOCH_NOBODY;
}

struct epoch_rebuild rebuild_plan_without(const struct epoch_rebuild *plan, uint32_t without)
{
    struct epoch_rebuild other = *plan;
    if (without > 0 && without <= PARITY_MEMBERS_MAX)
        other.images[without - 1] = other.parities[without - 1] = EPOCH_NOBODY;
    return other;
}

/* ---- words and shares that come ---- */

/* 0 or an errno. */
static int give_range(struct rebuilder *rebuilder, uint32_t node, const struct rebuild_note *note,
                      const uint8_t *bytes, size_t count)
{
    struct rebuild_piece pieces[REBUILD_PIECES_MAX];
    if (count == 0 || count % sizeof pieces[0] || count > sizeof pieces)
        return EPROTO;
    memcpy(pieces, bytes, count);
    return giving_send_range(rebuilder, node, note, pieces, (uint32_t)(count / sizeof pieces[0]));
}

static void answer(struct rebuilder *rebuilder, uint32_t node, struct rebuild_note *note,
                   const uint8_t *pieces, size_t count)
{
    int code = note->kind == REBUILD_WANT_RANGE ? give_range(rebuilder, node, note, pieces, count)
               : count > 0                      ? EPROTO
                                                : giving_start(rebuilder, node, note);
    if (code == 0)
        return;
    note->kind = REBUILD_REFUSED;
    note->error = code;
    if (remotes_say(rebuilder->remotes, REMOTES_SHARES, node, note, sizeof *note) < 0)
        log_info("node %" PRIu32 " cannot be told that it gets no share", node); /* it hears of that */
}

static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count)
{
    struct rebuilder *rebuilder = context;
    struct rebuild_note note;
    if (!read_note(rebuilder, bytes, count, &note))
        return;
    if (note.kind == REBUILD_WANT || note.kind == REBUILD_WANT_RANGE) {
        answer(rebuilder, node, &note, bytes + sizeof note, count - sizeof note);
        return;
    }
    if (note.kind == REBUILD_LOADED) {
        giving_end_lent(rebuilder, note.rank, node);
        return;
    }
    struct rebuild_source *loaded = note.range ? rebuild_source_find(rebuilder, note.rank) : NULL;
    if (note.range) {
        if (loaded)
            rebuild_source_hear(loaded, node, &note);
        return;
    }
    struct making *making = note.kind == REBUILD_REFUSED ? making_find(rebuilder, note.rank) : NULL;
    if (making && making->without != note.without)
        return;
    uint32_t source =
        making ? rebuild_source_of(&making->plan, (enum rebuild_what)note.what, note.position) : EPOCH_NOBODY;
    if (source != EPOCH_NOBODY && rebuilder->start->members[source] == node)
        making_fail(making,
                    note.error == ENODATA ? "a share of it is not held any more" : strerror(note.error));
}

static void on_lost(void *context, uint32_t node)
{
    struct rebuilder *rebuilder = context;
    uint32_t index = epoch_start_index(rebuilder->start, node);
    for (struct making *making = rebuilder->makings; making; making = making->next) {
        bool is_source = making->awaits_tables && making->plan.tables == index;
        for (uint32_t i = 0; i < PARITY_MEMBERS_MAX; i++)
            is_source |= (making->images & 1u << i && making->plan.images[i] == index) ||
                         (making->parities & 1u << i && making->plan.parities[i] == index);
        if (is_source && !making->is_over) {
            making_fail(making, "the link to a node that has a share is lost");
            return;
        }
    }
}

/* Is it awaited, and from this node? Marks it as coming. Returns 0 or an errno. */
static int note_coming(struct making *making, uint32_t node, const struct rebuild_note *note)
{
    const struct rebuilder *rebuilder = making->rebuilder;
    uint32_t source = rebuild_source_of(&making->plan, (enum rebuild_what)note->what, note->position);
    uint32_t bit = 1u << note->position;
    if (source == EPOCH_NOBODY || rebuilder->start->members[source] != node)
        return EPERM;
    if (note->what == REBUILD_TABLES && making->awaits_tables && making->incoming.got == 0)
        return 0;
    uint32_t *coming = note->what == REBUILD_IMAGE ? &making->coming_images : &making->coming_parities;
    uint32_t awaited = note->what == REBUILD_IMAGE ? making->images : making->parities;
    if (note->what == REBUILD_TABLES || !(awaited & bit) || *coming & bit)
        return EALREADY;
    *coming |= bit;
    return 0;
}

static int on_bytes(void *context, uint64_t offset, const uint8_t *bytes, size_t count)
{
    struct arrival *arrival = context;
    (void)offset;
    __atomic_fetch_add(&arrival->making->got, count, __ATOMIC_RELAXED);
    return arrival->note.what == REBUILD_TABLES ? incoming_take(&arrival->making->incoming, bytes, count)
                                                : share_intake_take(&arrival->intake, bytes, count);
}

static void on_taken(void *context, int error)
{
    struct arrival *arrival = context;
    struct making *making = arrival->making;
    const struct rebuild_note *note = &arrival->note;
    bool is_tables = note->what == REBUILD_TABLES;
    bool is_whole = is_tables ? incoming_is_whole(&making->incoming) : share_intake_end(&arrival->intake);
    if (making->rebuilder && !making->is_over && (error || !is_whole)) {
        making_fail(making, error == ECONNRESET ? "the link to a node that has a share is lost"
                            : error             ? strerror(error)
                                                : "a share has not come as a whole");
    } else if (making->rebuilder && !making->is_over) {
        if (is_tables) {
            making->awaits_tables = false;
            making->has_shared = note->has_shared != 0;
            making->is_bound = note->is_bound != 0;
        } else if (note->what == REBUILD_IMAGE) {
            making->images &= ~(1u << note->position);
        } else {
            making->parities &= ~(1u << note->position);
        }
        making_go_on(making);
    }
    making_unref(making);
    free(arrival);
}

static int on_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                      struct transfer_intake *intake)
{
    struct rebuilder *rebuilder = context;
    const struct job *job = rebuilder->job;
    struct rebuild_note note;
    if (!read_note(rebuilder, tag, tag_bytes, &note) || tag_bytes != sizeof note)
        return EPROTO;
    if (note.kind == REBUILD_RANGE) {
        struct rebuild_source *loaded = rebuild_source_find(rebuilder, note.rank);
        return loaded ? rebuild_source_offered(loaded, node, &note, bytes, intake) : ECANCELED;
    }
    if (note.kind != REBUILD_SHARE)
        return EPROTO;
    struct making *making = making_find(rebuilder, note.rank);
    if (!making || making->is_over || making->without != note.without)
        return ECANCELED;
    int code = note_coming(making, node, &note);
    if (code)
        return code;
    if (bytes > store_room(job->store, job->config->settings->memory_bytes)) {
        making_fail(making, "there is not enough memory for it");
        return ENOMEM;
    }
    struct arrival *arrival = calloc(1, sizeof *arrival);
    if (!arrival)
        return ENOMEM;
    arrival->making = making;
    arrival->note = note;
    making->references++;
    share_intake_begin(&arrival->intake, &making->sum, NULL, NULL);
    *intake = (struct transfer_intake){.take = on_bytes, .done = on_taken, .context = arrival};
    return 0;
}
