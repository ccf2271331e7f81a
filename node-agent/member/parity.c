#include "node-agent/member/parity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/image/image.h"
#include "common/util/log.h"
#include "node-agent/job/membership.h"
#include "node-agent/loop/pool.h"
#include "node-agent/store/parity_part.h"
#include "node-agent/member/set.h"
#include "node-agent/member/share.h"

#define SENDING_MAX 6u /* at a time */
#define NOTE_MAGIC 0x79746972u

enum note_kind { NOTE_NONE = 0, NOTE_PART, NOTE_HELD, NOTE_NEED_BASE, NOTE_REFUSED };

/* In front of a contribution, and the answer to it. */
struct note {
    uint32_t magic;
    uint32_t kind; /* enum note_kind */
    uint32_t epoch;
    uint32_t slot, ranks; /* ranks of the world */
    int32_t error;        /* REFUSED: errno */
    uint64_t line;
    uint64_t base_line; /* PART: of the old content; 0: that is zero */
};

/* A rank of this node on its way into parity. */
struct guard {
    struct guard *next;
    uint64_t line;
    uint32_t rank, slot;
    uint32_t awaited;                /* mask of positions that have not answered HELD */
    uint32_t whole;                  /* mask of positions that get all of it */
    uint64_t base_line;              /* of the old content; 0: everybody gets all of it */
    struct share_pages *delta, *all; /* NULL: not made (yet) */
};

/* A contribution that waits to be sent, or is being sent. */
struct sending {
    struct sending *next;
    struct parity *parity; /* NULL: cancelled */
    uint64_t line;
    uint32_t rank, slot, position;
    bool is_whole;
    struct share *share; /* NULL: it waits */
};

/* Where contributions to a slot are added up; shared by those that come. */
struct adding {
    uint32_t references;
    int fd;
    struct share_sum sum;
    struct parity_code code;
    uint32_t position; /* of this node */
};

/* The parity of a slot that is being made here. */
struct gathering {
    struct gathering *next;
    struct parity *parity;    /* NULL: gone */
    uint64_t line, base_line; /* 0: all contributions are whole */
    uint32_t slot;
    uint32_t expected, coming, arrived; /* masks of positions */
    struct parity_holding holding;
    struct adding *adding;
    struct pool_work *work; /* the part is being made */
    int part;               /* that was made; -1 */
    struct belay_error err;
    struct parity_part_request request;
};

/* A contribution that comes. */
struct taking {
    struct taking *next;
    struct parity *parity; /* NULL: gone */
    struct adding *adding;
    uint64_t line;
    uint32_t slot, position;
    struct share_intake intake;
};

struct parity {
    struct mirror_epoch epoch;
    struct set set;
    const struct parity_ops *ops;
    void *context;
    struct guard *guards;
    struct sending *sendings;
    uint32_t sending_count; /* of them those that do not wait */
    uint64_t sent_line, sent_bytes, sent_page_bytes;
    struct gathering *gatherings;
    struct taking *takings;
};

static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count);
static int on_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                      struct transfer_intake *intake);
static void on_lost(void *context, uint32_t node);
static int begin_guard(struct parity *parity, struct guard *guard, struct belay_error *err);
static void drop_guard(struct parity *parity, struct guard *guard);
static void add_sending(struct parity *parity, const struct guard *guard, uint32_t position, bool is_whole);
static void send_next(struct parity *parity);
static int begin_sending(struct sending *sending, struct belay_error *err);
static void on_sent(void *context, int error);
static int on_bytes(void *context, uint64_t offset, const uint8_t *bytes, size_t count);
static void on_taken(void *context, int error);
static void drop_gathering(struct gathering *gathering);
static void make_part(void *context, uint32_t part);
static void after_make(void *context, bool is_cancelled);

static const struct remotes_ops remotes_ops = {.word = on_word, .offered = on_offered, .lost = on_lost};
static const struct pool_ops make_ops = {.run = make_part, .done = after_make};

struct parity *parity_of_epoch(const struct mirror_epoch *epoch, const struct parity_ops *ops, void *context)
{
    struct parity *parity = calloc(1, sizeof *parity);
    if (!parity)
        return NULL;
    parity->epoch = *epoch;
    if (set_init(&parity->set, epoch) < 0) {
        free(parity);
        return NULL;
    }
    parity->ops = ops;
    parity->context = context;
    remotes_hear(epoch->remotes, REMOTES_PARITY, &remotes_ops, parity);
    return parity;
}

void parity_destroy(struct parity *parity)
{
    if (!parity)
        return;
    parity_cancel(parity);
    while (parity->takings) {
        parity->takings->parity = NULL; /* the fabric still gives to it */
        parity->takings = parity->takings->next;
    }
    remotes_hear(parity->epoch.remotes, REMOTES_PARITY, NULL, NULL);
    set_release(&parity->set);
    free(parity);
}

static void fail(struct parity *parity, uint64_t line, uint32_t rank, uint32_t node, const char *why)
{
    char text[BELAY_ERROR_TEXT_BYTES + 96];
    snprintf(text, sizeof text, "rank %" PRIu32 " cannot be protected by parity on node %" PRIu32 ": %s",
             rank, node, why);
    parity->ops->failed(parity->context, line, text, false);
}

/* An errno value of a link or of the other node. */
static const char *tell_error(int error)
{
    return error == ECONNRESET ? "the link to it is lost"
           : error == EBADMSG  ? "it was damaged on its way"
                               : strerror(error);
}

/* ---- this node's ranks ---- */

void parity_send(struct parity *parity, uint64_t line, uint32_t rank)
{
    struct guard *guard = calloc(1, sizeof *guard);
    struct belay_error err = {.code = ENOMEM, .text = "out of memory"};
    if (!guard) {
        fail(parity, line, rank, parity->epoch.node, err.text);
        return;
    }
    guard->line = line;
    guard->rank = rank;
    guard->slot = parity_slot(parity->set.placement, rank);
    guard->next = parity->guards;
    parity->guards = guard;
    if (begin_guard(parity, guard, &err) < 0) {
        drop_guard(parity, guard);
        fail(parity, line, rank, parity->epoch.node, err.text);
        return;
    }
    for (uint32_t i = 0; i < parity->set.of.size; i++)
        if (guard->awaited & 1u << i)
            add_sending(parity, guard, i, guard->base_line == 0);
    for (uint32_t i = 0; i < SENDING_MAX; i++)
        send_next(parity);
}

/* Without a committed image that can be used, nobody can be told what has changed. */
static int begin_guard(struct parity *parity, struct guard *guard, struct belay_error *err)
{
    const struct store *store = parity->epoch.job->store;
    uint64_t base_line;
    int staged = store_staged(store, guard->line, guard->rank, &base_line);
    if (staged < 0)
        return belay_error_set(err, ENODATA, "nothing is staged of it");
    for (uint32_t i = 0; i < parity->set.of.size; i++)
        guard->awaited |= i == parity->set.of.position ? 0 : 1u << i;
    guard->base_line = store_image_line(store, guard->rank);
    if (guard->base_line == 0)
        guard->whole = guard->awaited;
    else
        guard->delta = share_pages_staged(staged, store_image(store, guard->rank), false, err);
    return guard->base_line == 0 || guard->delta ? 0 : -1;
}

static struct guard *find_guard(const struct parity *parity, uint64_t line, uint32_t rank)
{
    struct guard *guard = parity->guards;
    while (guard && (guard->line != line || guard->rank != rank))
        guard = guard->next;
    return guard;
}

static void drop_guard(struct parity *parity, struct guard *guard)
{
    struct guard **at = &parity->guards;
    while (*at != guard)
        at = &(*at)->next;
    *at = guard->next;
    share_pages_unref(guard->delta);
    share_pages_unref(guard->all);
    free(guard);
}

static void add_sending(struct parity *parity, const struct guard *guard, uint32_t position, bool is_whole)
{
    struct sending *sending = calloc(1, sizeof *sending), **last = &parity->sendings;
    if (!sending) {
        fail(parity, guard->line, guard->rank, set_node(&parity->set, position), strerror(ENOMEM));
        return;
    }
    *sending = (struct sending){.parity = parity,
                                .line = guard->line,
                                .rank = guard->rank,
                                .slot = guard->slot,
                                .position = position,
                                .is_whole = is_whole};
    while (*last)
        last = &(*last)->next;
    *last = sending;
}

static void take_out(struct sending *sending)
{
    struct sending **at = &sending->parity->sendings;
    while (*at != sending)
        at = &(*at)->next;
    *at = sending->next;
    sending->parity->sending_count -= sending->share != NULL;
}

/* The first that waits. */
static void send_next(struct parity *parity)
{
    struct belay_error err = {0};
    struct sending *sending = parity->sendings;
    while (sending && sending->share)
        sending = sending->next;
    if (!sending || parity->sending_count >= SENDING_MAX)
        return;
    if (begin_sending(sending, &err) == 0)
        return;
    uint64_t line = sending->line;
    uint32_t rank = sending->rank, node = set_node(&parity->set, sending->position);
    take_out(sending);
    share_destroy(sending->share);
    free(sending);
    fail(parity, line, rank, node, err.text);
}

static struct share_pages *pages_of(struct parity *parity, struct guard *guard, bool is_whole,
                                    struct belay_error *err)
{
    const struct store *store = parity->epoch.job->store;
    uint64_t base_line;
    if (!is_whole)
        return guard->delta;
    if (!guard->all)
        guard->all = share_pages_staged(store_staged(store, guard->line, guard->rank, &base_line),
                                        store_image(store, guard->rank), true, err);
    return guard->all;
}

static int begin_sending(struct sending *sending, struct belay_error *err)
{
    struct parity *parity = sending->parity;
    struct guard *guard = find_guard(parity, sending->line, sending->rank);
    const struct set_way way = {parity->set.of.code, parity->set.of.position, sending->position};
    const struct note tag = {.magic = NOTE_MAGIC,
                             .kind = NOTE_PART,
                             .epoch = parity->epoch.number,
                             .slot = sending->slot,
                             .ranks = parity->epoch.world,
                             .line = sending->line,
                             .base_line = sending->is_whole || !guard ? 0 : guard->base_line};
    if (!guard)
        return belay_error_set(err, ECANCELED, "it is not wanted any more");
    struct share_pages *pages = pages_of(parity, guard, sending->is_whole, err);
    if (!pages)
        return -1;
    fault_hit("agent.parity.send", (int)sending->rank, sending->line);
    struct share *share = share_create(pages, set_route, &way, sizeof way);
    if (!share)
        return belay_error_set(err, ENOMEM, "out of memory");
    if (remotes_push(parity->epoch.remotes, REMOTES_PARITY, set_node(&parity->set, sending->position), &tag,
                     sizeof tag, share_bound(share), share_fill, on_sent, share) < 0) {
        share_destroy(share);
        return belay_error_errno(err, "it cannot be reached");
    }
    sending->share = share;
    share_set_owner(share, sending);
    parity->sending_count++;
    return 0;
}

/* ESTALE: the other node says so itself, by NEED_BASE. Whether it holds what it has taken, its word tells. */
static void on_sent(void *context, int error)
{
    struct share *share = context;
    struct sending *sending = share_owner(share);
    struct parity *parity = sending->parity;
    uint64_t line = sending->line, given = share_given(share), pages = share_page_bytes(share);
    uint32_t rank = sending->rank, position = sending->position;
    if (parity)
        take_out(sending);
    share_destroy(share);
    free(sending);
    if (!parity)
        return;
    if (line != parity->sent_line)
        parity->sent_bytes = parity->sent_page_bytes = 0;
    parity->sent_bytes += given;
    parity->sent_page_bytes += pages;
    parity->sent_line = line;
    if (error && error != ESTALE && error != ECANCELED)
        fail(parity, line, rank, set_node(&parity->set, position), tell_error(error));
    else
        send_next(parity);
}

/* In whole pages as much would have gone as the changed pages have. */
void parity_add_sent(const struct parity *parity, uint64_t line, struct peer_sent *sent)
{
    if (line != parity->sent_line)
        return;
    sent->bytes += parity->sent_bytes;
    sent->page_bytes += parity->sent_page_bytes;
}

void parity_cancel(struct parity *parity)
{
    while (parity->sendings) {
        struct sending *sending = parity->sendings;
        take_out(sending);
        sending->parity = NULL;
        if (sending->share)
            share_cancel(sending->share); /* on_sent() follows */
        else
            free(sending);
    }
    while (parity->guards)
        drop_guard(parity, parity->guards);
    while (parity->gatherings)
        drop_gathering(parity->gatherings);
}

static bool read_note(const struct parity *parity, const void *bytes, size_t count, struct note *note)
{
    if (count != sizeof *note)
        return false;
    memcpy(note, bytes, sizeof *note);
    return note->magic == NOTE_MAGIC && note->epoch == parity->epoch.number &&
           note->ranks == parity->epoch.world && note->slot < note->ranks;
}

/* A holder's word about a rank of ours. */
static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count)
{
    struct parity *parity = context;
    struct note note;
    uint32_t position = set_position(&parity->set, node);
    if (!read_note(parity, bytes, count, &note) || position == EPOCH_NOBODY ||
        note.line != membership_line(parity->epoch.job->membership))
        return;
    uint32_t rank = set_rank(&parity->set, parity->set.of.position, note.slot);
    struct guard *guard = find_guard(parity, note.line, rank);
    if (!guard || !(guard->awaited & 1u << position))
        return;
    if (note.kind == NOTE_REFUSED) {
        fail(parity, note.line, rank, node, tell_error(note.error));
    } else if (note.kind == NOTE_NEED_BASE && !(guard->whole & 1u << position)) {
        guard->whole |= 1u << position;
        add_sending(parity, guard, position, true);
        send_next(parity);
    } else if (note.kind == NOTE_HELD) {
        guard->awaited &= ~(1u << position);
        if (guard->awaited == 0) {
            drop_guard(parity, guard);
            parity->ops->held(parity->context, note.line, rank);
        }
    }
}

/* What was sent may not have arrived, and no word of it will come. */
static void on_lost(void *context, uint32_t node)
{
    struct parity *parity = context;
    uint64_t line = membership_line(parity->epoch.job->membership);
    char text[64];
    if (line == 0 || set_position(&parity->set, node) == EPOCH_NOBODY)
        return;
    snprintf(text, sizeof text, "the link to node %" PRIu32 " is lost", node);
    parity->ops->failed(parity->context, line, text, false);
}

/* ---- parity that is made here ---- */

static void say(const struct parity *parity, uint32_t position, const struct gathering *gathering,
                enum note_kind kind, int error)
{
    const struct note word = {.magic = NOTE_MAGIC,
                              .kind = kind,
                              .epoch = parity->epoch.number,
                              .slot = gathering->slot,
                              .ranks = parity->epoch.world,
                              .error = error,
                              .line = gathering->line};
    uint32_t node = set_node(&parity->set, position);
    if (remotes_say(parity->epoch.remotes, REMOTES_PARITY, node, &word, sizeof word) < 0)
        log_info("node %" PRIu32 " cannot be told of its parity", node); /* it hears of the lost link */
}

static void adding_unref(struct adding *adding)
{
    if (!adding || --adding->references > 0)
        return;
    share_sum_release(&adding->sum);
    if (adding->fd >= 0)
        close(adding->fd);
    free(adding);
}

static struct adding *adding_create(const struct parity *parity)
{
    const struct job *job = parity->epoch.job;
    struct adding *adding = calloc(1, sizeof *adding);
    struct belay_error err;
    if (!adding)
        return NULL;
    adding->fd = image_make_memfd(&err);
    if (adding->fd < 0) {
        free(adding);
        return NULL;
    }
    share_sum_init(&adding->sum, adding->fd, store_room(job->store, job->config->settings->memory_bytes));
    adding->references = 1;
    adding->code = parity->set.of.code;
    adding->position = parity->set.of.position;
    return adding;
}

/* The line of the parity that is committed here, if it is of this set; else 0. */
static uint64_t find_base(const struct parity *parity, const struct parity_holding *holding)
{
    const struct store *store = parity->epoch.job->store;
    uint32_t part = store_parity_part(parity->epoch.world, (uint32_t)holding->slot);
    uint64_t line = store_ranks(store) == parity->epoch.world ? store_image_line(store, part) : 0;
    struct parity_holding its = {0};
    struct belay_error err;
    if (line && parity_part_read(store_image(store, part), &its, &err) == 0 &&
        parity_part_is_same(&its, holding))
        return line;
    return 0;
}

static struct gathering *find_gathering(const struct parity *parity, uint64_t line, uint32_t slot)
{
    struct gathering *gathering = parity->gatherings;
    while (gathering && (gathering->line != line || gathering->slot != slot))
        gathering = gathering->next;
    return gathering;
}

/* Those of former lines are of no use any more. */
static struct gathering *begin_gathering(struct parity *parity, uint64_t line, uint32_t slot)
{
    while (parity->gatherings && parity->gatherings->line != line)
        drop_gathering(parity->gatherings);
    struct gathering *gathering = calloc(1, sizeof *gathering);
    if (!gathering)
        return NULL;
    gathering->adding = adding_create(parity);
    if (!gathering->adding) {
        free(gathering);
        return NULL;
    }
    gathering->parity = parity;
    gathering->line = line;
    gathering->slot = slot;
    gathering->part = -1;
    gathering->holding = set_holding(&parity->set, slot);
    for (uint32_t i = 0; i < parity->set.of.size; i++)
        if (i != parity->set.of.position && gathering->holding.ranks[i] != EPOCH_NOBODY)
            gathering->expected |= 1u << i;
    gathering->base_line = find_base(parity, &gathering->holding);
    gathering->next = parity->gatherings;
    parity->gatherings = gathering;
    return gathering;
}

/* What a thread makes is dropped when it is there. */
static void drop_gathering(struct gathering *gathering)
{
    struct gathering **at = &gathering->parity->gatherings;
    while (*at != gathering)
        at = &(*at)->next;
    *at = gathering->next;
    gathering->parity = NULL;
    if (gathering->work)
        return;
    adding_unref(gathering->adding);
    free(gathering);
}

/* What has come is of no use: everybody sends all. Returns 0 or an errno. */
static int turn_whole(struct parity *parity, struct gathering *gathering)
{
    struct adding *adding = adding_create(parity);
    if (!adding)
        return ENOMEM;
    adding_unref(gathering->adding);
    gathering->adding = adding;
    gathering->base_line = 0;
    for (uint32_t i = 0; i < parity->set.of.size; i++)
        if ((gathering->arrived | gathering->coming) & 1u << i)
            say(parity, i, gathering, NOTE_NEED_BASE, 0);
    gathering->arrived = gathering->coming = 0;
    return 0;
}

/* Is it for us, of now, and not here yet? Returns 0 or an errno. */
static int check_part(struct parity *parity, uint32_t position, const struct note *note,
                      struct gathering **gathering)
{
    if (note->kind != NOTE_PART || position == EPOCH_NOBODY || position == parity->set.of.position ||
        set_rank(&parity->set, position, note->slot) == EPOCH_NOBODY)
        return EPERM;
    if (note->line == 0 || note->line != membership_line(parity->epoch.job->membership))
        return ECANCELED;
    *gathering = find_gathering(parity, note->line, note->slot);
    if (!*gathering)
        *gathering = begin_gathering(parity, note->line, note->slot);
    if (!*gathering)
        return ENOMEM;
    if (note->base_line == 0 && (*gathering)->base_line != 0) {
        int code = (*gathering)->work ? EALREADY : turn_whole(parity, *gathering);
        if (code)
            return code;
    }
    if (note->base_line != (*gathering)->base_line) {
        say(parity, position, *gathering, NOTE_NEED_BASE, 0);
        return ESTALE;
    }
    return ((*gathering)->coming | (*gathering)->arrived) & 1u << position ? EALREADY : 0;
}

/* What comes for a place in the parity of this node. */
static uint8_t weigh(const void *context, uint64_t address)
{
    const struct taking *taking = context;
    const struct set_way way = {taking->adding->code, taking->position, taking->adding->position};
    return set_weigh(&way, address);
}

static int on_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                      struct transfer_intake *intake)
{
    struct parity *parity = context;
    const struct job *job = parity->epoch.job;
    struct gathering *gathering = NULL;
    struct note note;
    uint32_t position = set_position(&parity->set, node);
    if (!read_note(parity, tag, tag_bytes, &note))
        return EPROTO;
    int code = check_part(parity, position, &note, &gathering);
    if (code == 0 && bytes > store_room(job->store, job->config->settings->memory_bytes))
        code = ENOMEM;
    struct taking *taking = code == 0 ? calloc(1, sizeof *taking) : NULL;
    if (!taking)
        return code ? code : ENOMEM;
    taking->parity = parity;
    taking->adding = gathering->adding;
    taking->adding->references++;
    taking->line = note.line;
    taking->slot = note.slot;
    taking->position = position;
    share_intake_begin(&taking->intake, &taking->adding->sum, weigh, taking);
    gathering->coming |= 1u << position;
    taking->next = parity->takings;
    parity->takings = taking;
    *intake = (struct transfer_intake){.take = on_bytes, .done = on_taken, .context = taking};
    return 0;
}

/* In a thread of the fabric's. */
static int on_bytes(void *context, uint64_t offset, const uint8_t *bytes, size_t count)
{
    struct taking *taking = context;
    (void)offset;
    return share_intake_take(&taking->intake, bytes, count);
}

static void fail_gathering(struct gathering *gathering, int error)
{
    for (uint32_t i = 0; i < gathering->parity->set.of.size; i++)
        if (gathering->expected & 1u << i)
            say(gathering->parity, i, gathering, NOTE_REFUSED, error);
}

/* All have come. */
static void begin_part(struct gathering *gathering)
{
    struct parity *parity = gathering->parity;
    const struct store *store = parity->epoch.job->store;
    uint32_t part = store_parity_part(parity->epoch.world, gathering->slot);
    gathering->request = (struct parity_part_request){
        .holding = gathering->holding,
        .line = gathering->line,
        .world = parity->epoch.world,
        .sum = gathering->adding->fd,
        .base = gathering->base_line ? dup(store_image(store, part)) : -1,
    };
    fault_hit("agent.parity.folded", (int)gathering->slot, gathering->line);
    if (gathering->base_line == 0 || gathering->request.base >= 0)
        gathering->work = pool_start(parity->epoch.job->agent->loop, 1, &make_ops, gathering);
    if (!gathering->work)
        fail_gathering(gathering, ENOMEM);
}

/* The mark is set: what has come counts, and does not come again. */
static void on_taken(void *context, int error)
{
    struct taking *taking = context, **at;
    struct parity *parity = taking->parity;
    bool is_whole = share_intake_end(&taking->intake) && error == 0;
    struct gathering *gathering = parity ? find_gathering(parity, taking->line, taking->slot) : NULL;
    at = parity ? &parity->takings : NULL;
    while (at && *at && *at != taking)
        at = &(*at)->next;
    if (at && *at)
        *at = taking->next;
    if (gathering && gathering->adding == taking->adding) {
        gathering->coming &= is_whole ? ~(1u << taking->position) : UINT32_MAX; /* what is spoiled stays so */
        gathering->arrived |= is_whole ? 1u << taking->position : 0;
        if (gathering->arrived == gathering->expected && !gathering->work)
            begin_part(gathering);
        else if (!is_whole)
            fail_gathering(gathering, error ? error : EBADMSG);
    }
    adding_unref(taking->adding);
    free(taking);
}

static void make_part(void *context, uint32_t part)
{
    struct gathering *gathering = context;
    (void)part;
    gathering->part = parity_part_make(&gathering->request, &gathering->err);
}

static int keep(struct gathering *gathering)
{
    struct parity *parity = gathering->parity;
    const struct store_guest guest = {
        .rank = store_parity_part(parity->epoch.world, gathering->slot),
        .ranks = parity->epoch.world,
        .here = parity->epoch.count ? parity->epoch.count : STORE_NOBODY_HERE,
        .fd = gathering->part,
        .is_delta = gathering->base_line > 0,
    };
    gathering->part = -1;
    if (store_stage_guest(parity->epoch.job->store, gathering->line, &guest, &gathering->err) < 0)
        return -1;
    fault_hit("agent.parity.kept", (int)gathering->slot, gathering->line);
    return 0;
}

/* A line that is over, or another one, gets nothing. */
static void after_make(void *context, bool is_cancelled)
{
    struct gathering *gathering = context;
    struct parity *parity = gathering->parity;
    (void)is_cancelled; /* never */
    gathering->work = NULL;
    if (gathering->request.base >= 0)
        close(gathering->request.base);
    bool is_now = parity && gathering->line == membership_line(parity->epoch.job->membership);
    if (is_now && gathering->part >= 0 && keep(gathering) == 0) {
        for (uint32_t i = 0; i < parity->set.of.size; i++)
            if (gathering->expected & 1u << i)
                say(parity, i, gathering, NOTE_HELD, 0);
    } else if (is_now) {
        log_warning("job \"%s\": parity of line %" PRIu64 " is not kept: %s", parity->epoch.job->name,
                    gathering->line, gathering->err.text);
        fail_gathering(gathering, gathering->err.code);
    }
    if (gathering->part >= 0)
        close(gathering->part);
    gathering->part = -1;
    if (parity)
        return;
    adding_unref(gathering->adding);
    free(gathering);
}
