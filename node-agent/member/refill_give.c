/* refill_give.c - copies and tables of this node's ranks, for nodes that lack them: see refill.h. */
#include "node-agent/member/refill_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/fault/fault.h"
#include "common/util/log.h"

static void on_sent(void *context, int error, const struct outgoing_figures *figures);
static void drop(struct refill_loan *loan);

/* Which part of the store it is made of here: tables are a part of the image. */
static uint32_t own_part(const struct refill_note *note)
{
    return note->part >= store_tables_part(note->ranks, 0) ? note->part % note->ranks : note->part;
}

/* Only to the node that has to hold it, and only of the committed line. Returns 0 or an errno. */
static int check(const struct refill *refill, uint32_t node, const struct refill_note *note)
{
    const struct store *store = refill->epoch.job->store;
    uint32_t rank = note->part % note->ranks, index = 0;
    while (index < refill->epoch.member_count && refill->set.members[index] != node)
        index++;
    if (index == refill->epoch.member_count || refill->set.placement[rank] != refill->set.own ||
        !refill_is_keeper(refill, refill->set.own, index) ||
        (note->part / note->ranks != 1 && note->part != refill_kept_part(refill, rank)))
        return EPERM;
    if (note->line != refill->line || store_has_deltas(store) ||
        store_image_line(store, own_part(note)) != note->line)
        return ESTALE; /* or not yet: its image is on its way */
    for (const struct refill_loan *loan = refill->loans; loan; loan = loan->next)
        if (loan->part == note->part && loan->node == node)
            return EALREADY;
    return 0;
}

static int begin(struct refill_loan *loan, struct belay_error *err)
{
    struct refill *refill = loan->refill;
    const struct store *store = refill->epoch.job->store;
    struct refill_note tag = refill_note_of(refill, REFILL_NOTE_PART, loan->part);
    uint32_t rank = loan->part % tag.ranks;
    tag.has_shared = loan->part / tag.ranks != 1 && store_image(store, tag.ranks + rank) >= 0;
    const struct outgoing_request request = {.loop = refill->epoch.job->agent->loop,
                                             .remotes = refill->epoch.remotes,
                                             .subject = REMOTES_REFILLS,
                                             .node = loan->node,
                                             .tag = &tag,
                                             .tag_bytes = sizeof tag,
                                             .part = loan->pin.fd,
                                             .form = OUTGOING_AS_IT_IS,
                                             .base = -1,
                                             .is_tables = loan->part >= store_tables_part(tag.ranks, 0),
                                             .line = tag.line,
                                             .rank = rank,
                                             .done = on_sent,
                                             .context = loan};
    fault_hit("agent.refill.send", (int)loan->part, tag.line);
    loan->outgoing = outgoing_start(&request, err);
    return loan->outgoing ? 0 : -1;
}

static int lend(struct refill *refill, uint32_t node, const struct refill_note *note)
{
    struct refill_loan *loan = calloc(1, sizeof *loan);
    struct belay_error err = {.code = ENOMEM};
    if (!loan ||
        store_image_pin(refill->epoch.job->store, own_part(note), PIN_FETCHED, &loan->pin, &err) < 0) {
        free(loan);
        return err.code;
    }
    loan->refill = refill;
    loan->part = note->part;
    loan->node = node;
    loan->next = refill->loans;
    refill->loans = loan;
    if (begin(loan, &err) == 0)
        return 0;
    drop(loan);
    return err.code;
}

void refill_give(struct refill *refill, uint32_t node, const struct refill_note *note)
{
    int code = check(refill, node, note);
    if (code == EALREADY)
        return;
    if (code == 0)
        code = lend(refill, node, note);
    if (code == 0)
        return;
    struct refill_note word = *note;
    word.kind = REFILL_NOTE_REFUSED;
    word.error = code;
    if (remotes_say(refill->epoch.remotes, REMOTES_REFILLS, node, &word, sizeof word) < 0)
        log_info("node %" PRIu32 " cannot be told that it gets no copy", node); /* it hears of the link */
}

/* A node that wants it still asks again. */
static void on_sent(void *context, int error, const struct outgoing_figures *figures)
{
    struct refill_loan *loan = context;
    if (error && error != ECANCELED)
        log_info("job \"%s\": a copy of part %" PRIu32 " has not reached node %" PRIu32 ": %s",
                 loan->refill->epoch.job->name, loan->part, loan->node, strerror(error));
    else if (!error)
        log_debug("job \"%s\": a copy of part %" PRIu32 " has gone to node %" PRIu32 ", %" PRIu64 " bytes",
                  loan->refill->epoch.job->name, loan->part, loan->node, figures->sent_bytes);
    drop(loan);
}

static void drop(struct refill_loan *loan)
{
    struct refill_loan **at = &loan->refill->loans;
    while (*at != loan)
        at = &(*at)->next;
    *at = loan->next;
    store_image_unpin(loan->refill->epoch.job->store, &loan->pin);
    free(loan);
}

void refill_drop_loans(struct refill *refill)
{
    while (refill->loans) {
        outgoing_cancel(refill->loans->outgoing);
        drop(refill->loans);
    }
}
