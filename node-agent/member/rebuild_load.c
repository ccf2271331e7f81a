/*
 * rebuild_load.c - an image that is made of the shares of a set while its rank runs: a source of load.h.
 *
 * Of each range that is wanted, each member that has blocks of its codewords gives its share, and the shares
 * are added up in the range's own memory. The load compares the sum with the sums of the image's tables. If
 * it is another one, a share was false; the range is gathered again without one position of the set after the
 * other, as long as there is more parity than it takes.
 */
#include "node-agent/member/rebuild_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/log.h"

/* A range that is being gathered. */
struct gathering {
    struct gathering *next;
    struct rebuild_source *source; /* NULL: gone */
    struct load *load;
    struct load_range *range;
    uint32_t number, without;
    uint32_t images, parities; /* masks of positions whose shares are awaited, and have not begun to come */
    uint32_t active;           /* shares that come, and a thread */
    struct share_sum sum;
    struct giving *lent[2 * PARITY_MEMBERS_MAX]; /* of this node, whose shares the thread adds */
    struct share *own[2 * PARITY_MEMBERS_MAX];
    uint32_t own_count;
    int error;
};

struct rebuild_source {
    struct rebuild_source *next;
    struct rebuilder *rebuilder;
    struct epoch_rebuild decided, plan; /* the plan is that without the position */
    uint32_t without;                   /* plus 1; 0: none is left out */
    uint8_t coefficients[2][PARITY_MEMBERS_MAX][PARITY_MEMBERS_MAX]; /* of image and parity, by position and
                                                                        codeword */
    struct gathering *gatherings;
    uint32_t last_number;
};

/* A share that comes. */
struct arrival {
    struct gathering *gathering;
    struct share_intake intake;
};

static int ask(void *context, struct load *load, struct load_range *range);
static int ask_again(void *context, struct load *load, struct load_range *range);
static int gather(struct rebuild_source *source, struct gathering *gathering);
static void go_on(struct gathering *gathering);
static void add_own(void *context, uint32_t part);
static void after_own(void *context, bool is_cancelled);

const struct load_source rebuild_load_source = {.ask = ask, .ask_again = ask_again};
static const struct pool_ops own_ops = {.run = add_own, .done = after_own};
static const enum rebuild_what kinds[] = {REBUILD_IMAGE, REBUILD_PARITY};

/* ---- the source ---- */

static void set_without(struct rebuild_source *source, uint32_t without)
{
    source->without = without;
    source->plan = rebuild_plan_without(&source->decided, without);
    memset(source->coefficients, 0, sizeof source->coefficients);
    for (uint32_t kind = 0; kind < 2; kind++)
        for (uint32_t i = 0; i < source->plan.data + source->plan.parity; i++)
            if (rebuild_source_of(&source->plan, kinds[kind], i) != EPOCH_NOBODY)
                rebuild_coefficients(&source->plan, kinds[kind], i, source->coefficients[kind][i]);
}

struct rebuild_source *rebuild_source_create(struct rebuilder *rebuilder, uint32_t rank)
{
    const struct epoch_rebuild *plan = epoch_start_rebuild(rebuilder->start, rank);
    struct rebuild_source *source = plan ? calloc(1, sizeof *source) : NULL;
    if (!source)
        return NULL;
    source->rebuilder = rebuilder;
    source->decided = *plan;
    set_without(source, 0);
    source->next = rebuilder->sources;
    rebuilder->sources = source;
    return source;
}

static void free_gathering(struct gathering *gathering)
{
    struct gathering **at = gathering->source ? &gathering->source->gatherings : NULL;
    while (at && *at != gathering)
        at = &(*at)->next;
    if (at)
        *at = gathering->next;
    for (uint32_t i = 0; i < gathering->own_count; i++) {
        share_destroy(gathering->own[i]);
        giving_unref(gathering->lent[i]);
    }
    share_sum_release(&gathering->sum);
    free(gathering);
}

/* Of each member once. */
static void say_loaded(const struct rebuild_source *source)
{
    const struct rebuilder *rebuilder = source->rebuilder;
    const struct epoch_rebuild *plan = &source->decided;
    const struct rebuild_note word =
        rebuild_note_of(rebuilder, REBUILD_LOADED, REBUILD_NOTHING, plan->rank, 0);
    for (uint32_t member = 0; member < rebuilder->start->member_count; member++) {
        bool is_source = false;
        for (uint32_t i = 0; i < plan->data + plan->parity; i++)
            is_source |= plan->images[i] == member || plan->parities[i] == member;
        if (is_source && member != rebuilder->own)
            remotes_say(rebuilder->remotes, REMOTES_SHARES, rebuilder->start->members[member], &word,
                        sizeof word); /* or it hears of the end of the epoch */
    }
}

void rebuild_source_destroy(struct rebuild_source *source)
{
    if (!source)
        return;
    struct rebuilder *rebuilder = source->rebuilder;
    struct rebuild_source **at = &rebuilder->sources;
    while (*at != source)
        at = &(*at)->next;
    *at = source->next;
    for (struct gathering *gathering = source->gatherings, *next; gathering; gathering = next) {
        next = gathering->next;
        if (gathering->active == 0) {
            load_let_go(gathering->range);
            free_gathering(gathering);
        } else {
            gathering->source = NULL;
        }
    }
    say_loaded(source);
    giving_end_lent(rebuilder, source->decided.rank, rebuilder->job->config->node);
    free(source);
}

struct rebuild_source *rebuild_source_find(const struct rebuilder *rebuilder, uint32_t rank)
{
    struct rebuild_source *source = rebuilder->sources;
    while (source && source->decided.rank != rank)
        source = source->next;
    return source;
}

static bool is_used(const struct rebuild_source *source, uint32_t kind, uint32_t position)
{
    static const uint8_t none[PARITY_MEMBERS_MAX];
    return memcmp(source->coefficients[kind][position], none, sizeof none) != 0;
}

bool rebuild_source_is_of(const struct rebuild_source *source, uint32_t node)
{
    uint32_t index = epoch_start_index(source->rebuilder->start, node);
    for (uint32_t kind = 0; kind < 2; kind++)
        for (uint32_t i = 0; i < source->plan.data + source->plan.parity; i++)
            if (is_used(source, kind, i) && rebuild_source_of(&source->plan, kinds[kind], i) == index)
                return true;
    return false;
}

/* ---- what is asked for ---- */

/* In any thread: where a page is in the range's memory. */
static uint8_t *find_page(const void *context, uint64_t address)
{
    const struct gathering *gathering = context;
    const struct load_range *range = gathering->range;
    uint64_t offset;
    if (!packed_find(load_packed(gathering->load), address, &offset) || offset < range->offset ||
        offset - range->offset > range->bytes - IMAGE_PAGE_BYTES)
        return NULL;
    return range->data + (offset - range->offset);
}

static int begin(struct rebuild_source *source, struct load *load, struct load_range *range)
{
    struct gathering *gathering = calloc(1, sizeof *gathering);
    if (!gathering)
        return -1;
    gathering->source = source;
    gathering->load = load;
    gathering->range = range;
    gathering->without = source->without;
    if (++source->last_number == 0) /* means none */
        source->last_number++;
    gathering->number = source->last_number;
    share_sum_init_memory(&gathering->sum, find_page, gathering, 2ull * PARITY_MEMBERS_MAX * range->bytes);
    gathering->next = source->gatherings;
    source->gatherings = gathering;
    memset(range->data, 0, range->bytes);
    if (gather(source, gathering) == 0)
        return 0;
    int code = errno;
    free_gathering(gathering);
    errno = code;
    return -1;
}

static int ask(void *context, struct load *load, struct load_range *range)
{
    return begin(context, load, range);
}

/* It may have been gathered before another range has shown what is to be left out. */
static int ask_again(void *context, struct load *load, struct load_range *range)
{
    struct rebuild_source *source = context;
    if (range->way == source->without) {
        uint32_t next = rebuild_next_without(&source->decided, source->without);
        if (next == 0)
            return -1;
        rebuild_tell_without(source->rebuilder, source->decided.rank, next, "pages differ from their sums");
        set_without(source, next);
    }
    return begin(source, load, range);
}

static uint32_t list_pieces(const struct gathering *gathering, struct rebuild_piece *pieces)
{
    const struct load_range *range = gathering->range;
    uint64_t end = range->offset + range->bytes;
    struct packed_piece piece;
    uint32_t count = 0;
    for (uint64_t at = range->offset;
         count < REBUILD_PIECES_MAX && packed_piece(load_packed(gathering->load), at, end, &piece);
         at += piece.bytes)
        pieces[count++] = (struct rebuild_piece){piece.address, piece.bytes};
    return count;
}

/* Whether any block of the pieces takes a share of it. */
static bool is_needed(const struct rebuild_source *source, uint32_t kind, uint32_t position,
                      const struct rebuild_piece *pieces, uint32_t count)
{
    const struct parity_code code = {source->plan.data, source->plan.parity};
    const uint8_t *coefficients = source->coefficients[kind][position];
    for (uint32_t i = 0; i < count; i++) {
        uint64_t last = (pieces[i].address + pieces[i].bytes - 1) / PARITY_BLOCK_BYTES;
        for (uint64_t block = pieces[i].address / PARITY_BLOCK_BYTES; block <= last; block++)
            if (coefficients[parity_codeword(code, source->plan.position, (uint32_t)(block % code.data))])
                return true;
    }
    return false;
}

static int take_own(struct gathering *gathering, enum rebuild_what what, uint32_t position,
                    const struct rebuild_piece *pieces, uint32_t count)
{
    struct rebuild_source *source = gathering->source;
    struct rebuilder *rebuilder = source->rebuilder;
    struct belay_error err = {.code = ENOMEM};
    bool is_zero = false;
    struct giving *giving = giving_lend(rebuilder, &source->plan, source->without, what, position,
                                        rebuilder->job->config->node, &err);
    struct share *share = giving ? giving_share_in(giving, pieces, count, &is_zero) : NULL;
    if (!share) {
        errno = giving ? ENOMEM : err.code;
        return -1;
    }
    if (is_zero) {
        share_destroy(share);
        return 0;
    }
    giving->references++;
    gathering->lent[gathering->own_count] = giving;
    gathering->own[gathering->own_count++] = share;
    return 0;
}

static int ask_node(struct gathering *gathering, enum rebuild_what what, uint32_t position,
                    const struct rebuild_piece *pieces, uint32_t count)
{
    const struct rebuild_source *source = gathering->source;
    const struct rebuilder *rebuilder = source->rebuilder;
    uint32_t node = rebuilder->start->members[rebuild_source_of(&source->plan, what, position)];
    size_t bytes = count * sizeof pieces[0];
    struct {
        struct rebuild_note note;
        struct rebuild_piece pieces[REBUILD_PIECES_MAX];
    } word;
    word.note = rebuild_note_of(rebuilder, REBUILD_WANT_RANGE, what, source->plan.rank, position);
    word.note.without = gathering->without;
    word.note.range = gathering->number;
    memcpy(word.pieces, pieces, bytes);
    *(what == REBUILD_IMAGE ? &gathering->images : &gathering->parities) |= 1u << position;
    return remotes_say(rebuilder->remotes, REMOTES_SHARES, node, (const uint8_t *)&word,
                       sizeof word.note + bytes);
}

static int gather(struct rebuild_source *source, struct gathering *gathering)
{
    struct rebuild_piece pieces[REBUILD_PIECES_MAX];
    uint32_t count = list_pieces(gathering, pieces);
    const struct epoch_rebuild *plan = &source->plan;
    gathering->range->way = source->without;
    for (uint32_t i = 0; i < plan->data + plan->parity; i++)
        for (uint32_t kind = 0; kind < 2; kind++) {
            uint32_t member = rebuild_source_of(plan, kinds[kind], i);
            if (member == EPOCH_NOBODY || !is_needed(source, kind, i, pieces, count))
                continue;
            if ((member == source->rebuilder->own ? take_own : ask_node)(gathering, kinds[kind], i, pieces,
                                                                         count) < 0)
                return -1;
        }
    if (gathering->own_count == 0 && (gathering->images || gathering->parities))
        return 0;
    if (!pool_start(source->rebuilder->job->agent->loop, 1, &own_ops, gathering)) {
        errno = ENOMEM;
        return -1;
    }
    gathering->active++;
    load_hold(gathering->range);
    return 0;
}

/* ---- what comes ---- */

/* In a pool thread. */
static void add_own(void *context, uint32_t part)
{
    struct gathering *gathering = context;
    int error = 0;
    (void)part;
    for (uint32_t i = 0; i < gathering->own_count && error == 0; i++)
        error = share_add(gathering->own[i], &gathering->sum) < 0 ? errno : 0;
    if (error)
        __atomic_store_n(&gathering->error, error, __ATOMIC_SEQ_CST);
}

static void after_own(void *context, bool is_cancelled)
{
    struct gathering *gathering = context;
    (void)is_cancelled; /* never */
    gathering->active--;
    go_on(gathering);
}

/* All shares have come, or it has failed; nothing of it is being written to then. */
static void go_on(struct gathering *gathering)
{
    struct load_range *range = gathering->range;
    int error = gathering->source ? __atomic_load_n(&gathering->error, __ATOMIC_SEQ_CST) : ECANCELED;
    if (gathering->active > 0 || (!error && (gathering->images || gathering->parities)))
        return;
    free_gathering(gathering);
    load_came(range, error);
}

static struct gathering *find(const struct rebuild_source *source, uint32_t node,
                              const struct rebuild_note *note, uint32_t **awaited)
{
    struct gathering *gathering = source->gatherings;
    while (gathering && gathering->number != note->range)
        gathering = gathering->next;
    if (!gathering || gathering->without != note->without ||
        (note->what != REBUILD_IMAGE && note->what != REBUILD_PARITY))
        return NULL;
    const struct epoch_rebuild plan = rebuild_plan_without(&source->decided, gathering->without);
    uint32_t member = rebuild_source_of(&plan, (enum rebuild_what)note->what, note->position);
    *awaited = note->what == REBUILD_IMAGE ? &gathering->images : &gathering->parities;
    if (member == EPOCH_NOBODY || source->rebuilder->start->members[member] != node ||
        !(**awaited & 1u << note->position))
        return NULL;
    return gathering;
}

void rebuild_source_hear(struct rebuild_source *source, uint32_t node, const struct rebuild_note *note)
{
    uint32_t *awaited;
    struct gathering *gathering = find(source, node, note, &awaited);
    if (!gathering || (note->kind != REBUILD_ZEROS && note->kind != REBUILD_REFUSED))
        return;
    *awaited &= ~(1u << note->position);
    if (note->kind == REBUILD_REFUSED)
        __atomic_store_n(&gathering->error, note->error > 0 ? note->error : EPROTO, __ATOMIC_SEQ_CST);
    go_on(gathering);
}

/* In a thread of the fabric's. */
static int on_bytes(void *context, uint64_t offset, const uint8_t *bytes, size_t count)
{
    struct arrival *arrival = context;
    (void)offset;
    return share_intake_take(&arrival->intake, bytes, count);
}

static void on_taken(void *context, int error)
{
    struct arrival *arrival = context;
    struct gathering *gathering = arrival->gathering;
    if (!share_intake_end(&arrival->intake) && error == 0)
        error = EBADMSG;
    free(arrival);
    if (error)
        __atomic_store_n(&gathering->error, error, __ATOMIC_SEQ_CST);
    gathering->active--;
    go_on(gathering);
}

int rebuild_source_offered(struct rebuild_source *source, uint32_t node, const struct rebuild_note *note,
                           uint64_t bytes, struct transfer_intake *intake)
{
    uint32_t *awaited;
    struct gathering *gathering = find(source, node, note, &awaited);
    if (!gathering)
        return ECANCELED;
    if (bytes > gathering->range->bytes / IMAGE_PAGE_BYTES * SHARE_RECORD_BYTES)
        return EPERM;
    struct arrival *arrival = calloc(1, sizeof *arrival);
    if (!arrival)
        return ENOMEM;
    *awaited &= ~(1u << note->position);
    gathering->active++;
    load_hold(gathering->range);
    arrival->gathering = gathering;
    share_intake_begin(&arrival->intake, &gathering->sum, NULL, NULL);
    *intake = (struct transfer_intake){.take = on_bytes, .done = on_taken, .context = arrival};
    return 0;
}
