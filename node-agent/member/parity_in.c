/* parity_in.c - parity that is made here of what other members send: see parity.h. */
#include "node-agent/member/parity_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/image/image.h"
#include "common/util/log.h"
#include "node-agent/job/membership.h"

static int on_bytes(void *context, uint64_t offset, const uint8_t *bytes, size_t count);
static int take_raw(void *context, const uint8_t *bytes, size_t count);
static void on_taken(void *context, int error);
static void drop_gathering(struct parity_gathering *gathering);
static void make_part(void *context, uint32_t part);
static void after_make(void *context, bool is_cancelled);

static const struct pool_ops make_ops = {.run = make_part, .done = after_make};

static void say(const struct parity *parity, uint32_t position, const struct parity_gathering *gathering,
                enum parity_note_kind kind, int error)
{
    const struct parity_note word = {.magic = PARITY_NOTE_MAGIC,
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

static void adding_unref(struct parity_adding *adding)
{
    if (!adding || --adding->references > 0)
        return;
    share_sum_release(&adding->sum);
    if (adding->fd >= 0)
        close(adding->fd);
    free(adding);
}

static struct parity_adding *adding_create(const struct parity *parity)
{
    const struct job *job = parity->epoch.job;
    struct parity_adding *adding = calloc(1, sizeof *adding);
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

static struct parity_gathering *find_gathering(const struct parity *parity, uint64_t line, uint32_t slot)
{
    struct parity_gathering *gathering = parity->gatherings;
    while (gathering && (gathering->line != line || gathering->slot != slot))
        gathering = gathering->next;
    return gathering;
}

/* Those of former lines are of no use any more. */
static struct parity_gathering *begin_gathering(struct parity *parity, uint64_t line, uint32_t slot)
{
    while (parity->gatherings && parity->gatherings->line != line)
        drop_gathering(parity->gatherings);
    struct parity_gathering *gathering = calloc(1, sizeof *gathering);
    uint32_t expected = 0;
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
            expected |= 1u << i;
    fold_begin(&gathering->fold, expected, find_base(parity, &gathering->holding));
    gathering->next = parity->gatherings;
    parity->gatherings = gathering;
    return gathering;
}

void parity_drop_gatherings(struct parity *parity)
{
    while (parity->gatherings)
        drop_gathering(parity->gatherings);
}

void parity_leave_takings(struct parity *parity)
{
    while (parity->takings) {
        parity->takings->parity = NULL;
        parity->takings = parity->takings->next;
    }
}

/* What a thread makes is dropped when it is there. */
static void drop_gathering(struct parity_gathering *gathering)
{
    struct parity_gathering **at = &gathering->parity->gatherings;
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
static int turn_whole(struct parity *parity, struct parity_gathering *gathering)
{
    struct parity_adding *adding = adding_create(parity);
    if (!adding)
        return ENOMEM;
    adding_unref(gathering->adding);
    gathering->adding = adding;
    uint32_t again = fold_turn_whole(&gathering->fold);
    for (uint32_t i = 0; i < parity->set.of.size; i++)
        if (again & 1u << i)
            say(parity, i, gathering, PARITY_NOTE_NEED_BASE, 0);
    return 0;
}

/* Is it for us, and of now? The slot's gathering is begun if need be. Returns 0 or an errno. */
static int find_place(struct parity *parity, uint32_t position, const struct parity_note *note,
                      struct parity_gathering **gathering)
{
    if (note->kind != PARITY_NOTE_PART || position == EPOCH_NOBODY || position == parity->set.of.position ||
        set_rank(&parity->set, position, note->slot) == EPOCH_NOBODY)
        return EPERM;
    if (note->line == 0 || note->line != membership_line(parity->epoch.job->membership))
        return ECANCELED;
    *gathering = find_gathering(parity, note->line, note->slot);
    if (!*gathering)
        *gathering = begin_gathering(parity, note->line, note->slot);
    if (!*gathering)
        return ENOMEM;
    struct fold *fold = &(*gathering)->fold;
    if (fold_turns(fold, note->base_line)) {
        int code = fold->is_made ? EALREADY : turn_whole(parity, *gathering);
        if (code)
            return code;
    }
    return 0;
}

/* What comes counts once. Returns 0 or an errno. */
static int mark(struct parity *parity, uint32_t position, struct parity_gathering *gathering,
                uint64_t base_line)
{
    enum fold_answer answer = fold_offer(&gathering->fold, position, base_line);
    if (answer == FOLD_NEED_BASE)
        say(parity, position, gathering, PARITY_NOTE_NEED_BASE, 0);
    return answer == FOLD_TAKE ? 0 : answer == FOLD_NEED_BASE ? ESTALE : EALREADY;
}

/* What comes for a place in the parity of this node. */
static uint8_t weigh(const void *context, uint64_t address)
{
    const struct parity_taking *taking = context;
    const struct way way = {taking->adding->code, taking->position, taking->adding->position};
    return way_weigh(&way, address);
}

int parity_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                   struct transfer_intake *intake)
{
    struct parity *parity = context;
    const struct job *job = parity->epoch.job;
    struct parity_gathering *gathering = NULL;
    struct parity_note note;
    uint32_t position = set_position(&parity->set, node);
    if (!parity_read_note(parity, tag, tag_bytes, &note) || note.packing >= PACKINGS)
        return EPROTO;
    int code = find_place(parity, position, &note, &gathering);
    if (code == 0 && bytes > store_room(job->store, job->config->settings->memory_bytes))
        code = ENOMEM;
    if (code == 0)
        code = mark(parity, position, gathering, note.base_line);
    struct parity_taking *taking = code == 0 ? calloc(1, sizeof *taking) : NULL;
    if (taking && note.packing && !(taking->unpacker = unpacker_create(bytes, take_raw, taking))) {
        free(taking);
        taking = NULL;
    }
    if (!taking)
        return code ? code : ENOMEM;
    taking->parity = parity;
    taking->adding = gathering->adding;
    taking->adding->references++;
    taking->line = note.line;
    taking->slot = note.slot;
    taking->position = position;
    share_intake_begin(&taking->intake, &taking->adding->sum, weigh, taking);
    taking->next = parity->takings;
    parity->takings = taking;
    *intake = (struct transfer_intake){.take = on_bytes, .done = on_taken, .context = taking};
    return 0;
}

static int take_raw(void *context, const uint8_t *bytes, size_t count)
{
    struct parity_taking *taking = context;
    return share_intake_take(&taking->intake, bytes, count);
}

/* In a thread of the fabric's. */
static int on_bytes(void *context, uint64_t offset, const uint8_t *bytes, size_t count)
{
    struct parity_taking *taking = context;
    (void)offset;
    if (taking->unpacker)
        return unpacker_take(taking->unpacker, bytes, count);
    return share_intake_take(&taking->intake, bytes, count);
}

static void fail_gathering(struct parity_gathering *gathering, int error)
{
    for (uint32_t i = 0; i < gathering->parity->set.of.size; i++)
        if (gathering->fold.expected & 1u << i)
            say(gathering->parity, i, gathering, PARITY_NOTE_REFUSED, error);
}

/* All have come. */
static void begin_part(struct parity_gathering *gathering)
{
    struct parity *parity = gathering->parity;
    const struct store *store = parity->epoch.job->store;
    uint32_t part = store_parity_part(parity->epoch.world, gathering->slot);
    gathering->request = (struct parity_part_request){
        .holding = gathering->holding,
        .line = gathering->line,
        .world = parity->epoch.world,
        .sum = gathering->adding->fd,
        .base = gathering->fold.base_line ? dup(store_image(store, part)) : -1,
    };
    fault_hit("agent.parity.folded", (int)gathering->slot, gathering->line);
    if (gathering->fold.base_line == 0 || gathering->request.base >= 0)
        gathering->work = pool_start(parity->epoch.job->agent->loop, 1, &make_ops, gathering);
    if (!gathering->work)
        fail_gathering(gathering, ENOMEM);
}

/* The mark is set: what has come counts, and does not come again. */
static void on_taken(void *context, int error)
{
    struct parity_taking *taking = context, **at;
    struct parity *parity = taking->parity;
    bool is_whole = share_intake_end(&taking->intake) && error == 0 &&
                    (!taking->unpacker || unpacker_is_whole(taking->unpacker));
    unpacker_destroy(taking->unpacker);
    struct parity_gathering *gathering = parity ? find_gathering(parity, taking->line, taking->slot) : NULL;
    at = parity ? &parity->takings : NULL;
    while (at && *at && *at != taking)
        at = &(*at)->next;
    if (at && *at)
        *at = taking->next;
    if (gathering && gathering->adding == taking->adding) {
        if (fold_add(&gathering->fold, taking->position, is_whole))
            begin_part(gathering);
        else if (!is_whole)
            fail_gathering(gathering, error ? error : EBADMSG);
    }
    adding_unref(taking->adding);
    free(taking);
}

static void make_part(void *context, uint32_t part)
{
    struct parity_gathering *gathering = context;
    (void)part;
    gathering->part = parity_part_make(&gathering->request, &gathering->err);
}

static int keep(struct parity_gathering *gathering)
{
    struct parity *parity = gathering->parity;
    const struct store_guest guest = {
        .rank = store_parity_part(parity->epoch.world, gathering->slot),
        .ranks = parity->epoch.world,
        .here = parity->epoch.count ? parity->epoch.count : STORE_NOBODY_HERE,
        .fd = gathering->part,
        .is_delta = gathering->fold.base_line > 0,
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
    struct parity_gathering *gathering = context;
    struct parity *parity = gathering->parity;
    (void)is_cancelled; /* never */
    gathering->work = NULL;
    if (gathering->request.base >= 0)
        close(gathering->request.base);
    bool is_now = parity && gathering->line == membership_line(parity->epoch.job->membership);
    if (is_now && gathering->part >= 0 && keep(gathering) == 0) {
        for (uint32_t i = 0; i < parity->set.of.size; i++)
            if (gathering->fold.expected & 1u << i)
                say(parity, i, gathering, PARITY_NOTE_HELD, 0);
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
