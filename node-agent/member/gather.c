#include "node-agent/member/gather.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/util/log.h"
#include "node-agent/member/share.h"

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
    uint64_t number; /* of the gathering, at the node that gathers */
};

/* Where the shares of the others are added up; shared by those that come. */
struct summing {
    uint32_t references;
    int fd;          /* -1: given away */
    bool is_dropped; /* atomic: nobody wants it any more */
    struct share_sum sum;
};

struct gathering {
    struct gathering *next;
    struct gatherer *gatherer;
    uint32_t slot;
    uint64_t line, number;
    struct summing *summing;
    uint32_t awaited; /* mask of positions whose shares have not come */
    uint32_t coming;  /* of these, those that come */
    gathered_f *done;
    void *context;
};

/* A share that comes. */
struct taking {
    struct taking *next;
    struct gatherer *gatherer; /* NULL: gone */
    struct summing *summing;
    uint64_t number; /* of the gathering */
    uint32_t position;
    struct way way;
    struct share_intake intake;
};

/* A share that goes to a node that gathers. */
struct giving {
    struct giving *next;
    struct gatherer *gatherer; /* NULL: gone */
    struct store_pin pin;
    struct share *share;
};

struct gatherer {
    struct mirror_epoch epoch;
    struct set set;
    struct gathering *gatherings;
    uint64_t number; /* of the newest one */
    struct giving *givings;
    struct taking *takings;
};

static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count);
static int on_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                      struct transfer_intake *intake);
static void on_lost(void *context, uint32_t node);

static const struct remotes_ops remotes_ops = {.word = on_word, .offered = on_offered, .lost = on_lost};

struct gatherer *gatherer_create(const struct mirror_epoch *epoch)
{
    struct gatherer *gatherer = calloc(1, sizeof *gatherer);
    if (!gatherer)
        return NULL;
    gatherer->epoch = *epoch;
    if (set_init(&gatherer->set, epoch) < 0) {
        free(gatherer);
        return NULL;
    }
    remotes_hear(epoch->remotes, REMOTES_CHECKS, &remotes_ops, gatherer);
    return gatherer;
}

static void summing_unref(struct summing *summing)
{
    if (!summing || --summing->references > 0)
        return;
    share_sum_release(&summing->sum);
    if (summing->fd >= 0)
        close(summing->fd);
    free(summing);
}

void gatherer_destroy(struct gatherer *gatherer)
{
    if (!gatherer)
        return;
    while (gatherer->gatherings)
        gather_cancel(gatherer->gatherings);
    while (gatherer->givings) {
        struct giving *giving = gatherer->givings;
        gatherer->givings = giving->next;
        store_image_unpin(gatherer->epoch.job->store, &giving->pin);
        giving->gatherer = NULL;
        share_cancel(giving->share); /* on_given() follows */
    }
    while (gatherer->takings) {
        gatherer->takings->gatherer = NULL; /* the fabric still gives to it */
        gatherer->takings = gatherer->takings->next;
    }
    remotes_hear(gatherer->epoch.remotes, REMOTES_CHECKS, NULL, NULL);
    set_release(&gatherer->set);
    free(gatherer);
}

const struct set *gatherer_set(const struct gatherer *gatherer)
{
    return &gatherer->set;
}

bool gatherer_expects(const struct gatherer *gatherer, uint32_t slot)
{
    const struct set *set = &gatherer->set;
    for (uint32_t i = 0; i < set->of.size; i++)
        if (i != set->of.position && set_rank(set, i, slot) != EPOCH_NOBODY)
            return true;
    return false;
}

/* ---- what is gathered here ---- */

static struct note note_of(const struct gatherer *gatherer, enum note_kind kind, uint32_t slot, uint64_t line,
                           uint64_t number)
{
    return (struct note){.magic = NOTE_MAGIC,
                         .kind = kind,
                         .epoch = gatherer->epoch.number,
                         .slot = slot,
                         .ranks = gatherer->epoch.world,
                         .line = line,
                         .number = number};
}

static struct summing *summing_create(const struct job *job, struct belay_error *err)
{
    struct summing *summing = calloc(1, sizeof *summing);
    uint64_t room = store_room(job->store, job->config->settings->memory_bytes);
    if (!summing || (summing->fd = image_make_memfd(err)) < 0) {
        free(summing);
        belay_error_set(err, ENOMEM, "no memory to add parity up");
        return NULL;
    }
    summing->references = 1;
    share_sum_init(&summing->sum, summing->fd, room);
    return summing;
}

/* All other members of the set that have a rank in the slot. */
static int ask_all(struct gathering *gathering, struct belay_error *err)
{
    struct gatherer *gatherer = gathering->gatherer;
    const struct set *set = &gatherer->set;
    const struct note word =
        note_of(gatherer, NOTE_WANT, gathering->slot, gathering->line, gathering->number);
    for (uint32_t i = 0; i < set->of.size; i++) {
        if (i == set->of.position || set_rank(set, i, gathering->slot) == EPOCH_NOBODY)
            continue;
        if (remotes_say(gatherer->epoch.remotes, REMOTES_CHECKS, set_node(set, i), &word, sizeof word) < 0)
            return belay_error_errno(err, "node %" PRIu32 " cannot be asked for its blocks",
                                     set_node(set, i));
        gathering->awaited |= 1u << i;
    }
    return gathering->awaited ? 0 : belay_error_set(err, ENODATA, "no other node has blocks of it");
}

struct gathering *gather(struct gatherer *gatherer, uint32_t slot, uint64_t line, gathered_f *done,
                         void *context, struct belay_error *err)
{
    struct gathering *gathering = calloc(1, sizeof *gathering);
    if (!gathering) {
        belay_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    *gathering = (struct gathering){.next = gatherer->gatherings,
                                    .gatherer = gatherer,
                                    .slot = slot,
                                    .line = line,
                                    .number = ++gatherer->number,
                                    .done = done,
                                    .context = context};
    gatherer->gatherings = gathering;
    gathering->summing = summing_create(gatherer->epoch.job, err);
    if (gathering->summing && ask_all(gathering, err) == 0)
        return gathering;
    gather_cancel(gathering);
    return NULL;
}

void gather_again(struct gathering *gathering)
{
    struct gatherer *gatherer = gathering->gatherer;
    const struct note word =
        note_of(gatherer, NOTE_WANT, gathering->slot, gathering->line, gathering->number);
    for (uint32_t i = 0; i < gatherer->set.of.size; i++)
        if (gathering->awaited & ~gathering->coming & 1u << i)
            remotes_say(gatherer->epoch.remotes, REMOTES_CHECKS, set_node(&gatherer->set, i), &word,
                        sizeof word); /* or the link is lost, which on_lost() tells */
}

void gather_cancel(struct gathering *gathering)
{
    struct gathering **at = gathering ? &gathering->gatherer->gatherings : NULL;
    if (!gathering)
        return;
    while (*at != gathering)
        at = &(*at)->next;
    *at = gathering->next;
    if (gathering->summing)
        __atomic_store_n(&gathering->summing->is_dropped, true, __ATOMIC_RELAXED);
    summing_unref(gathering->summing);
    free(gathering);
}

static void end_with(struct gathering *gathering, int fd, const struct belay_error *err)
{
    gathered_f *done = gathering->done;
    void *context = gathering->context;
    gather_cancel(gathering);
    done(context, fd, err);
}

static void give_up(struct gathering *gathering, uint32_t node, int error)
{
    struct belay_error err;
    belay_error_set(&err, error, "node %" PRIu32 " has not sent its blocks: %s", node,
                    error == ESTALE       ? "it is at another line"
                    : error == ECONNRESET ? "the link to it is lost"
                                          : strerror(error));
    end_with(gathering, -1, &err);
}

/* Nobody adds to it any more: all that are awaited have come, and each comes once. */
static void conclude(struct gathering *gathering)
{
    static const struct belay_error none = {0};
    int fd = gathering->summing->fd;
    gathering->summing->fd = -1;
    end_with(gathering, fd, &none);
}

/* ---- words and shares ---- */

static bool read_note(const struct gatherer *gatherer, const void *bytes, size_t count, struct note *note)
{
    if (count != sizeof *note)
        return false;
    memcpy(note, bytes, sizeof *note);
    return note->magic == NOTE_MAGIC && note->epoch == gatherer->epoch.number &&
           note->ranks == gatherer->epoch.world && note->slot < note->ranks && note->line > 0;
}

static void on_given(void *context, int error)
{
    struct giving *giving = share_owner(context);
    struct gatherer *gatherer = giving->gatherer;
    struct giving **at = gatherer ? &gatherer->givings : NULL;
    while (at && *at != giving)
        at = &(*at)->next;
    if (at) {
        *at = giving->next;
        store_image_unpin(gatherer->epoch.job->store, &giving->pin);
    }
    if (gatherer && error && error != ECANCELED)
        log_info("blocks for parity of the committed line have not arrived: %s", strerror(error));
    share_destroy(giving->share);
    free(giving);
}

static struct giving *giving_create(struct gatherer *gatherer, uint32_t rank, uint32_t position,
                                    struct belay_error *err)
{
    struct store *store = gatherer->epoch.job->store;
    const struct way way = {gatherer->set.of.code, gatherer->set.of.position, position};
    struct giving *giving = calloc(1, sizeof *giving);
    if (!giving || store_image_pin(store, rank, PIN_SCRUBBED, &giving->pin, err) < 0) {
        free(giving);
        return NULL;
    }
    struct share_pages *pages = share_pages_of_image(giving->pin.fd, err);
    giving->gatherer = gatherer;
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
static int give(struct gatherer *gatherer, uint32_t node, const struct note *want)
{
    const struct store *store = gatherer->epoch.job->store;
    uint32_t position = set_position(&gatherer->set, node);
    uint32_t rank = set_rank(&gatherer->set, gatherer->set.of.position, want->slot);
    const struct note tag = note_of(gatherer, NOTE_SHARE, want->slot, want->line, want->number);
    struct belay_error err = {.code = ENOMEM};
    if (position == EPOCH_NOBODY || position == gatherer->set.of.position || rank == EPOCH_NOBODY)
        return EPERM;
    if (store_has_deltas(store) || store_image_line(store, rank) != want->line)
        return ESTALE;
    struct giving *giving = giving_create(gatherer, rank, position, &err);
    if (!giving)
        return err.code;
    if (remotes_push(gatherer->epoch.remotes, REMOTES_CHECKS, node, &tag, sizeof tag,
                     share_bound(giving->share), share_fill, on_given, giving->share) < 0) {
        store_image_unpin(gatherer->epoch.job->store, &giving->pin);
        share_destroy(giving->share);
        free(giving);
        return EHOSTUNREACH;
    }
    giving->next = gatherer->givings;
    gatherer->givings = giving;
    return 0;
}

/* Of which this is a word or a share, from a position whose share is awaited; NULL: of none. */
static struct gathering *find(struct gatherer *gatherer, uint32_t node, const struct note *note,
                              uint32_t *position)
{
    struct gathering *gathering = gatherer->gatherings;
    *position = set_position(&gatherer->set, node);
    while (gathering && (gathering->number != note->number || gathering->line != note->line ||
                         gathering->slot != note->slot))
        gathering = gathering->next;
    return gathering && *position != EPOCH_NOBODY && gathering->awaited & 1u << *position ? gathering : NULL;
}

static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count)
{
    struct gatherer *gatherer = context;
    struct note note;
    uint32_t position;
    if (!read_note(gatherer, bytes, count, &note))
        return;
    struct gathering *refused = note.kind == NOTE_REFUSED ? find(gatherer, node, &note, &position) : NULL;
    if (refused) {
        give_up(refused, node, note.error);
        return;
    }
    int code = note.kind == NOTE_WANT ? give(gatherer, node, &note) : 0;
    if (code == 0)
        return;
    note.kind = NOTE_REFUSED;
    note.error = code;
    if (remotes_say(gatherer->epoch.remotes, REMOTES_CHECKS, node, &note, sizeof note) < 0)
        log_info("node %" PRIu32 " cannot be told that it gets no blocks", node); /* it hears of the link */
}

/* What done() begins meanwhile is not of this node. */
static void on_lost(void *context, uint32_t node)
{
    struct gatherer *gatherer = context;
    uint32_t position = set_position(&gatherer->set, node);
    uint64_t newest = gatherer->number;
    struct gathering *gathering = gatherer->gatherings;
    while (position != EPOCH_NOBODY && gathering) {
        bool is_its = gathering->number <= newest && gathering->awaited & 1u << position;
        if (is_its)
            give_up(gathering, node, ECONNRESET);
        gathering = is_its ? gatherer->gatherings : gathering->next;
    }
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
    if (__atomic_load_n(&taking->summing->is_dropped, __ATOMIC_RELAXED)) {
        errno = ECANCELED;
        return -1;
    }
    return share_intake_take(&taking->intake, bytes, count);
}

static void on_taken(void *context, int error)
{
    struct taking *taking = context, **at;
    struct gatherer *gatherer = taking->gatherer;
    bool is_whole = share_intake_end(&taking->intake) && error == 0;
    uint32_t position = taking->position;
    for (at = gatherer ? &gatherer->takings : NULL; at && *at != taking;)
        at = &(*at)->next;
    if (at)
        *at = taking->next;
    struct gathering *gathering = gatherer ? gatherer->gatherings : NULL;
    while (gathering && gathering->number != taking->number)
        gathering = gathering->next;
    summing_unref(taking->summing);
    free(taking);
    if (gathering && !is_whole)
        give_up(gathering, set_node(&gatherer->set, position), error ? error : EBADMSG);
    else if (gathering && (gathering->awaited &= ~(1u << position)) == 0)
        conclude(gathering);
}

static int on_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                      struct transfer_intake *intake)
{
    struct gatherer *gatherer = context;
    const struct job *job = gatherer->epoch.job;
    struct note note;
    uint32_t position;
    if (!read_note(gatherer, tag, tag_bytes, &note) || note.kind != NOTE_SHARE)
        return EPROTO;
    struct gathering *gathering = find(gatherer, node, &note, &position);
    if (!gathering)
        return ECANCELED;
    if (gathering->coming & 1u << position)
        return EALREADY;
    if (bytes > store_room(job->store, job->config->settings->memory_bytes)) {
        give_up(gathering, node, ENOMEM);
        return ENOMEM;
    }
    struct taking *taking = calloc(1, sizeof *taking);
    if (!taking)
        return ENOMEM;
    *taking = (struct taking){.next = gatherer->takings,
                              .gatherer = gatherer,
                              .summing = gathering->summing,
                              .number = gathering->number,
                              .position = position,
                              .way = {gatherer->set.of.code, position, gatherer->set.of.position}};
    taking->summing->references++;
    share_intake_begin(&taking->intake, &taking->summing->sum, weigh, taking);
    gathering->coming |= 1u << position;
    gatherer->takings = taking;
    *intake = (struct transfer_intake){.take = on_bytes, .done = on_taken, .context = taking};
    return 0;
}
