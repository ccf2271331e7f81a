/* rebuild_give.c - this node's shares in images that are made again, here or elsewhere. */
#include "node-agent/member/rebuild_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/fault/fault.h"
#include "common/util/log.h"

bool giving_route(const void *context, uint64_t block, uint64_t *to_block, uint8_t *coefficient)
{
    const struct giving *giving = *(const struct giving *const *)context;
    const struct parity_code code = {giving->plan.data, giving->plan.parity};
    uint32_t size = code.data + code.parity, codeword;
    uint64_t row;
    if (giving->what == REBUILD_IMAGE) {
        row = block / code.data;
        codeword = parity_codeword(code, giving->position, (uint32_t)(block % code.data));
    } else {
        row = block / code.parity;
        codeword = (giving->position + size - (uint32_t)(block % code.parity)) % size;
    }
    uint32_t column = parity_column(code, giving->plan.position, codeword);
    *coefficient = giving->coefficients[codeword];
    *to_block = row * code.data + column;
    return column < code.data && *coefficient != 0;
}

static uint32_t part_of(const struct rebuilder *rebuilder, const struct epoch_rebuild *plan,
                        enum rebuild_what what, uint32_t position)
{
    uint32_t ranks = rebuilder->start->rank_count;
    return what == REBUILD_TABLES  ? store_tables_part(ranks, plan->rank)
           : what == REBUILD_IMAGE ? plan->ranks[position]
                                   : store_parity_part(ranks, plan->slot);
}

/* Only of a position's own kind: of an image all blocks of data, of parity the others. */
static bool is_of_kind(const struct epoch_rebuild *plan, enum rebuild_what what, uint32_t position,
                       uint32_t codeword)
{
    const struct parity_code code = {plan->data, plan->parity};
    return (parity_column(code, position, codeword) < code.data) == (what == REBUILD_IMAGE);
}

/* Whether any block of it is needed. */
bool rebuild_coefficients(const struct epoch_rebuild *plan, enum rebuild_what what, uint32_t position,
                          uint8_t *coefficients)
{
    bool is_any = false;
    for (uint32_t codeword = 0; codeword < plan->data + plan->parity; codeword++) {
        coefficients[codeword] =
            is_of_kind(plan, what, position, codeword) ? code_rebuild(plan, codeword, position) : 0;
        is_any |= coefficients[codeword] != 0;
    }
    return is_any;
}

/*
 * Of the set of the plan: it may have been made anew for another set (store_spare_parity()). False: it is not
 * here. *spare: borrowed, not changed; -1: it is in the images.
 */
static bool find_parity(const struct rebuilder *rebuilder, const struct epoch_rebuild *plan,
                        uint32_t position, int *spare)
{
    const struct store *store = rebuilder->job->store;
    struct parity_holding holding = {
        .slot = plan->slot, .data = plan->data, .parity = plan->parity, .position = position};
    for (uint32_t i = 0; i < plan->data + plan->parity; i++)
        holding.ranks[i] = plan->ranks[i];
    int fd = store_committed_line(store) == rebuilder->start->line ? store_find_parity(store, &holding) : -1;
    *spare = fd >= 0 && fd == store_spare(store, plan->slot) ? fd : -1;
    return fd >= 0;
}

struct giving *giving_create(struct rebuilder *rebuilder, const struct epoch_rebuild *plan,
                             enum rebuild_what what, uint32_t position, struct belay_error *err)
{
    struct store *store = rebuilder->job->store;
    uint32_t part = part_of(rebuilder, plan, what, position);
    struct giving *giving = calloc(1, sizeof *giving);
    if (!giving) {
        belay_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    giving->rebuilder = rebuilder;
    giving->plan = *plan;
    giving->what = what;
    giving->position = position;
    int parity = -1;
    if ((what == REBUILD_PARITY && !find_parity(rebuilder, plan, position, &parity)) ||
        (parity < 0 && store_image_line(store, part) != rebuilder->start->line)) {
        free(giving);
        belay_error_set(err, ENODATA, "it is not held there");
        return NULL;
    }
    if (parity < 0 && store_image_pin(store, part, PIN_FETCHED, &giving->pin, err) < 0) {
        free(giving);
        return NULL;
    }
    if (what == REBUILD_TABLES)
        return giving;
    rebuild_coefficients(plan, what, position, giving->coefficients);
    const struct giving *self = giving;
    giving->pages = share_pages_of_image(parity < 0 ? giving->pin.fd : parity, err);
    giving->share = giving->pages ? share_create(giving->pages, giving_route, &self, sizeof self) : NULL;
    if (giving->share)
        return giving;
    belay_error_set(err, ENOMEM, "out of memory");
    store_image_unpin(store, &giving->pin);
    giving_destroy(giving);
    return NULL;
}

void giving_destroy(struct giving *giving)
{
    share_destroy(giving->share);
    share_pages_unref(giving->pages);
    free(giving);
}

static void end_giving(struct giving *giving, int error)
{
    struct rebuilder *rebuilder = giving->rebuilder;
    struct giving **at = rebuilder ? &rebuilder->givings : NULL;
    while (at && *at != giving)
        at = &(*at)->next;
    if (at)
        *at = giving->next;
    if (rebuilder && error)
        log_warning("job \"%s\": a share of rank %" PRIu32
                    " has not reached the node that makes its image: %s",
                    rebuilder->job->name, giving->plan.rank, strerror(error));
    if (rebuilder)
        store_image_unpin(rebuilder->job->store, &giving->pin);
    giving_destroy(giving);
}

static void on_given(void *context, int error)
{
    end_giving(share_owner(context), error);
}

static void on_tables_given(void *context, int error, const struct outgoing_figures *figures)
{
    (void)figures;
    end_giving(context, error);
}

void giving_spoil(struct giving *giving)
{
    for (uint32_t codeword = 0; codeword < PARITY_MEMBERS_MAX; codeword++)
        if (giving->coefficients[codeword])
            giving->coefficients[codeword] = (uint8_t)(giving->coefficients[codeword] % 255 + 1);
}

int giving_start(struct rebuilder *rebuilder, uint32_t node, const struct rebuild_note *note)
{
    const struct epoch_start *start = rebuilder->start;
    const struct epoch_rebuild *decided = epoch_start_rebuild(start, note->rank);
    struct epoch_rebuild plan;
    struct belay_error err = {.code = ENOMEM};
    struct rebuild_note tag = *note;
    if (!decided)
        return EPERM;
    plan = rebuild_plan_without(decided, note->without);
    if (start->members[start->placement[note->rank]] != node ||
        rebuild_source_of(&plan, (enum rebuild_what)note->what, note->position) != rebuilder->own)
        return EPERM;
    struct giving *giving =
        giving_create(rebuilder, &plan, (enum rebuild_what)note->what, note->position, &err);
    if (!giving)
        return err.code;
    tag.kind = REBUILD_SHARE;
    if (fault_hit("agent.rebuild.give", (int)note->rank, note->line))
        giving_spoil(giving);
    int rc;
    if (giving->share) {
        share_set_owner(giving->share, giving);
        rc = remotes_push(rebuilder->remotes, REMOTES_SHARES, node, &tag, sizeof tag,
                          share_bound(giving->share), share_fill, on_given, giving->share);
    } else {
        tag.has_shared = store_image(rebuilder->job->store, start->rank_count + note->rank) >= 0;
        tag.is_bound = store_tables_share(rebuilder->job->store, note->rank);
        const struct outgoing_request request = {.loop = rebuilder->job->agent->loop,
                                                 .remotes = rebuilder->remotes,
                                                 .subject = REMOTES_SHARES,
                                                 .node = node,
                                                 .tag = &tag,
                                                 .tag_bytes = sizeof tag,
                                                 .part = giving->pin.fd,
                                                 .form = OUTGOING_AS_IT_IS,
                                                 .base = -1,
                                                 .is_tables = true,
                                                 .line = note->line,
                                                 .rank = note->rank,
                                                 .done = on_tables_given,
                                                 .context = giving};
        giving->outgoing = outgoing_start(&request, &err);
        rc = giving->outgoing ? 0 : -1;
    }
    if (rc < 0) {
        store_image_unpin(rebuilder->job->store, &giving->pin);
        giving_destroy(giving);
        return EHOSTUNREACH;
    }
    giving->next = rebuilder->givings;
    rebuilder->givings = giving;
    return 0;
}
