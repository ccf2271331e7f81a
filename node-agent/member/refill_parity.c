/*
 * refill_parity.c - parity that is made anew after a restart: see refill.h. What is made is a spare until all
 * members of the set have theirs; then it takes the place of the former sets' parity, which is a spare until
 * all have done so. So all parity of one of both sets is there at any time (store.h, store_swap_parity()).
 */
#include "node-agent/member/refill_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/util/log.h"

static void on_gathered(void *context, int fd, const struct belay_error *err);
static void make(void *context, uint32_t part);
static void after_make(void *context, bool is_cancelled);

static const struct pool_ops make_ops = {.run = make, .done = after_make};

/* As long as this node has to have parity of it. */
static bool is_slot(const struct refill *refill, uint32_t slot)
{
    return slot < refill->epoch.world && gatherer_expects(refill->gatherer, slot);
}

/*
 * An epoch that has ended amid this may have left parity of two sets here. One of these is whole, and no
 * member knows which: both stay until the next line.
 */
bool refill_make_parity(struct refill *refill)
{
    const struct store *store = refill->epoch.job->store;
    struct belay_error err;
    for (uint32_t slot = 0; is_slot(refill, slot); slot++) {
        const struct parity_holding wanted = set_holding(&refill->set, slot);
        if (store_find_parity(store, &wanted) >= 0)
            continue;
        if (store_spare(store, slot) >= 0) {
            refill_give_up(refill,
                           "an earlier restart has left parity of two sets, and either may be needed");
            return true;
        }
        refill->slot = slot;
        refill->gathering = gather(refill->gatherer, slot, refill->line, on_gathered, refill, &err);
        if (!refill->gathering)
            refill_give_up(refill, err.text);
        return true;
    }
    return false;
}

static void on_gathered(void *context, int fd, const struct belay_error *err)
{
    struct refill *refill = context;
    struct refill_making *making = fd >= 0 ? calloc(1, sizeof *making) : NULL;
    refill->gathering = NULL;
    if (!making && fd >= 0)
        close(fd);
    if (!making) {
        if (fd >= 0 || err->code == ENOMEM)
            refill_give_up(refill, "there is not enough memory for parity");
        else
            refill_later(refill);
        return;
    }
    *making = (struct refill_making){.refill = refill,
                                     .fd = -1,
                                     .request = {.holding = set_holding(&refill->set, refill->slot),
                                                 .line = refill->line,
                                                 .world = refill->epoch.world,
                                                 .sum = fd,
                                                 .base = -1}};
    if (pool_start(refill->epoch.job->agent->loop, 1, &make_ops, making)) {
        refill->making = making;
        return;
    }
    close(fd);
    free(making);
    refill_give_up(refill, "out of memory");
}

static void make(void *context, uint32_t part)
{
    struct refill_making *making = context;
    (void)part;
    making->fd = parity_part_make(&making->request, &making->err);
}

static void after_make(void *context, bool is_cancelled)
{
    struct refill_making *making = context;
    struct refill *refill = making->refill;
    struct belay_error err = making->err;
    int fd = making->fd;
    uint32_t slot = (uint32_t)making->request.holding.slot;
    (void)is_cancelled;         /* never */
    close(making->request.sum); /* the part is a copy of the descriptor */
    free(making);
    if (!refill) {
        if (fd >= 0)
            close(fd);
        return;
    }
    refill->making = NULL;
    if (fd < 0 || store_spare_parity(refill->epoch.job->store, slot, fd, &err) < 0) {
        refill_give_up(refill, err.text);
        return;
    }
    fault_hit("agent.refill.made", (int)slot, refill->line);
    refill_step(refill);
}

void refill_forget_parity(struct refill *refill)
{
    gather_cancel(refill->gathering);
    refill->gathering = NULL;
    if (refill->making)
        refill->making->refill = NULL;
    refill->making = NULL;
}

/* ---- all of a set together ---- */

static uint32_t everybody(const struct refill *refill)
{
    uint32_t size = refill->set.of.size;
    return size < 32 ? (1u << size) - 1 : UINT32_MAX;
}

static void say(const struct refill *refill, uint32_t position, enum refill_note_kind kind, bool is_answer)
{
    struct refill_note word = refill_note_of(refill, kind, 0);
    word.is_answer = is_answer;
    if (remotes_say(refill->epoch.remotes, REMOTES_REFILLS, set_node(&refill->set, position), &word,
                    sizeof word) < 0)
        log_info("node %" PRIu32 " cannot be told of its parity", set_node(&refill->set, position));
}

/* Once; those that were not listening yet ask by saying the same. */
static void say_all(struct refill *refill, enum refill_note_kind kind, uint32_t *mask)
{
    uint32_t own = 1u << refill->set.of.position;
    if (*mask & own)
        return;
    *mask |= own;
    for (uint32_t i = 0; i < refill->set.of.size; i++)
        if (i != refill->set.of.position)
            say(refill, i, kind, false);
}

/* False: refill_give_up(). */
static bool swap_all(struct refill *refill)
{
    struct store *store = refill->epoch.job->store;
    struct belay_error err;
    fault_hit("agent.refill.swap", -1, refill->line);
    for (uint32_t slot = 0; is_slot(refill, slot); slot++) {
        const struct parity_holding wanted = set_holding(&refill->set, slot);
        int spare = store_spare(store, slot);
        if (spare < 0 || store_find_parity(store, &wanted) != spare)
            continue;
        if (store_swap_parity(store, slot, refill->epoch.world, &err) < 0) {
            refill_give_up(refill, err.text);
            return false;
        }
    }
    fault_hit("agent.refill.swapped", -1, refill->line);
    return true;
}

/*
 * Of several sets each is ready by itself, and nobody hears of the others. Images of their members may hang
 * on the former sets' parity, or are being made of it while their ranks run: the next committed line drops
 * it.
 */
static bool others_need_former(const struct refill *refill)
{
    return refill->set.of.count > 1;
}

bool refill_settle_parity(struct refill *refill)
{
    say_all(refill, REFILL_NOTE_MADE, &refill->made);
    if (refill->made != everybody(refill))
        return false;
    if (!(refill->taken & 1u << refill->set.of.position) && !swap_all(refill))
        return false;
    say_all(refill, REFILL_NOTE_TAKEN, &refill->taken);
    if (refill->taken != everybody(refill))
        return false;
    if (!others_need_former(refill))
        store_drop_spares(refill->epoch.job->store);
    return true;
}

void refill_hear_member(struct refill *refill, uint32_t position, const struct refill_note *note)
{
    uint32_t *mask = note->kind == REFILL_NOTE_MADE    ? &refill->made
                     : note->kind == REFILL_NOTE_TAKEN ? &refill->taken
                                                       : NULL;
    if (!mask || position == EPOCH_NOBODY || position == refill->set.of.position)
        return;
    *mask |= 1u << position;
    if (*mask & 1u << refill->set.of.position && !note->is_answer)
        say(refill, position, (enum refill_note_kind)note->kind, true);
    refill_step(refill);
}
