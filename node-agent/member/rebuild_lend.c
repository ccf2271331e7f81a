/* rebuild_lend.c - this node's shares in images whose ranks run while they are made: range by range. */
#include "node-agent/member/rebuild_state.h"

#include <errno.h>
#include <stdlib.h>

#include "common/fault/fault.h"
#include "common/image/layout.h"

#define SHARES_MAX 64u /* of one giving, on their way to another node at a time */

static struct giving *find(const struct rebuilder *rebuilder, const struct giving *wanted)
{
    struct giving *giving = rebuilder->lent;
    while (giving && (giving->plan.rank != wanted->plan.rank || giving->what != wanted->what ||
                      giving->position != wanted->position || giving->without != wanted->without ||
                      giving->node != wanted->node || giving->is_over))
        giving = giving->next;
    return giving;
}

struct giving *giving_lend(struct rebuilder *rebuilder, const struct epoch_rebuild *plan, uint32_t without,
                           enum rebuild_what what, uint32_t position, uint32_t node, struct belay_error *err)
{
    const struct giving wanted = {
        .plan = *plan, .what = what, .position = position, .without = without, .node = node};
    struct giving *giving = find(rebuilder, &wanted);
    if (giving)
        return giving;
    giving = giving_create(rebuilder, plan, what, position, err);
    if (!giving)
        return NULL;
    share_destroy(giving->share); /* of the whole */
    giving->share = NULL;
    giving->node = node;
    giving->without = without;
    giving->references = 1;
    giving->next = rebuilder->lent;
    rebuilder->lent = giving;
    if (fault_hit("agent.rebuild.give", (int)plan->rank, rebuilder->start->line))
        giving_spoil(giving);
    return giving;
}

/* It leaves the list of the rebuilder, and is pinned no more. */
static void leave(struct giving *giving)
{
    struct rebuilder *rebuilder = giving->rebuilder;
    struct giving **at = &rebuilder->lent;
    while (*at != giving)
        at = &(*at)->next;
    *at = giving->next;
    store_image_unpin(rebuilder->job->store, &giving->pin);
    giving->rebuilder = NULL;
}

void giving_unref(struct giving *giving)
{
    if (--giving->references > 0)
        return;
    if (giving->rebuilder)
        leave(giving);
    giving_destroy(giving);
}

static void end_lent(struct giving *giving)
{
    if (giving->is_over)
        return;
    giving->is_over = true;
    giving_unref(giving);
}

void giving_end_lent(struct rebuilder *rebuilder, uint32_t rank, uint32_t node)
{
    for (struct giving *giving = rebuilder->lent, *next; giving; giving = next) {
        next = giving->next;
        if (giving->plan.rank == rank && giving->node == node)
            end_lent(giving);
    }
}

/* What is on its way may come later than the end of the store. */
void giving_end_all_lent(struct rebuilder *rebuilder)
{
    while (rebuilder->lent) {
        struct giving *giving = rebuilder->lent;
        leave(giving);
        end_lent(giving);
    }
}

/* Where this node has its blocks of the codewords that the piece is of. */
static int add_piece(const struct giving *giving, struct share_pages *pages,
                     const struct rebuild_piece *piece)
{
    const struct parity_code code = {giving->plan.data, giving->plan.parity};
    uint64_t end = piece->address + piece->bytes;
    for (uint64_t at = piece->address, next; at < end; at = next) {
        uint64_t block = at / PARITY_BLOCK_BYTES, row = block / code.data, from = at % PARITY_BLOCK_BYTES;
        uint32_t codeword = parity_codeword(code, giving->plan.position, (uint32_t)(block % code.data));
        next = (block + 1) * PARITY_BLOCK_BYTES < end ? (block + 1) * PARITY_BLOCK_BYTES : end;
        if (giving->coefficients[codeword] == 0)
            continue;
        from += giving->what == REBUILD_IMAGE
                    ? parity_data_address(code, row, parity_column(code, giving->position, codeword))
                    : parity_address(code, row, parity_share(code, giving->position, codeword));
        if (share_pages_add(pages, from, from + (next - at)) < 0)
            return -1;
    }
    return 0;
}

struct share *giving_share_in(struct giving *giving, const struct rebuild_piece *pieces, uint32_t count,
                              bool *is_zero)
{
    const struct giving *self = giving;
    struct share_pages *pages = share_pages_part(giving->pages);
    struct share *share = NULL;
    int rc = pages ? 0 : -1;
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        rc = add_piece(giving, pages, &pieces[i]);
    if (rc == 0)
        share = share_create(pages, giving_route, &self, sizeof self);
    share_pages_unref(pages);
    *is_zero = share && share_bound(share) == 0;
    return share;
}

/* ---- to another node ---- */

static void on_sent(void *context, int error)
{
    struct share *share = context;
    struct giving *giving = share_owner(share);
    (void)error; /* the node that makes the image hears of it, too */
    share_destroy(share);
    giving_unref(giving);
}

static bool are_pieces(const struct rebuild_piece *pieces, uint32_t count)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct rebuild_piece *piece = &pieces[i];
        if (piece->address % IMAGE_PAGE_BYTES || piece->bytes % IMAGE_PAGE_BYTES || piece->bytes == 0 ||
            piece->bytes > REBUILD_RANGE_MAX || piece->address > LAYOUT_END - piece->bytes)
            return false;
        bytes += piece->bytes;
    }
    return bytes <= REBUILD_RANGE_MAX;
}

/* Is the node the one that makes the image, and this one its source? */
static int check_want(const struct rebuilder *rebuilder, uint32_t node, const struct rebuild_note *note,
                      struct epoch_rebuild *plan)
{
    const struct epoch_start *start = rebuilder->start;
    const struct epoch_rebuild *decided = epoch_start_rebuild(start, note->rank);
    enum rebuild_what what = (enum rebuild_what)note->what;
    if (!decided || start->members[start->placement[note->rank]] != node ||
        (what != REBUILD_IMAGE && what != REBUILD_PARITY))
        return EPERM;
    *plan = rebuild_plan_without(decided, note->without);
    return rebuild_source_of(plan, what, note->position) == rebuilder->own ? 0 : EPERM;
}

int giving_send_range(struct rebuilder *rebuilder, uint32_t node, const struct rebuild_note *note,
                      const struct rebuild_piece *pieces, uint32_t count)
{
    struct epoch_rebuild plan;
    struct belay_error err = {.code = ENOMEM};
    struct rebuild_note tag = *note;
    bool is_zero;
    int code = are_pieces(pieces, count) ? check_want(rebuilder, node, note, &plan) : EINVAL;
    if (code)
        return code;
    struct giving *giving = giving_lend(rebuilder, &plan, note->without, (enum rebuild_what)note->what,
                                        note->position, node, &err);
    if (!giving)
        return err.code;
    fault_hit("agent.rebuild.lend", (int)note->rank, note->line);
    struct share *share =
        giving->references <= SHARES_MAX ? giving_share_in(giving, pieces, count, &is_zero) : NULL;
    if (!share)
        return ENOMEM;
    if (is_zero) {
        share_destroy(share);
        tag.kind = REBUILD_ZEROS;
        return remotes_say(rebuilder->remotes, REMOTES_SHARES, node, &tag, sizeof tag) < 0 ? errno : 0;
    }
    tag.kind = REBUILD_RANGE;
    share_set_owner(share, giving);
    giving->references++;
    if (remotes_push(rebuilder->remotes, REMOTES_SHARES, node, &tag, sizeof tag, share_bound(share),
                     share_fill, on_sent, share) == 0)
        return 0;
    code = errno;
    on_sent(share, code);
    return code;
}
