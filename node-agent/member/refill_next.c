/* refill_next.c - what is lacking after a restart, one after the other, and words of it: see refill.h. */
#include "node-agent/member/refill_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/log.h"

static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count);
static void on_lost(void *context, uint32_t node);
static void on_again(void *context);
static void forget(struct refill *refill);

static const struct remotes_ops remotes_ops = {.word = on_word, .offered = refill_offered, .lost = on_lost};

struct refill *refill_create(const struct mirror_epoch *epoch, struct gatherer *gatherer, refilled_f *done,
                             void *context)
{
    struct refill *refill = calloc(1, sizeof *refill);
    if (!refill)
        return NULL;
    refill->epoch = *epoch;
    refill->gatherer = gatherer;
    refill->done = done;
    refill->context = context;
    refill->asked = EPOCH_NOBODY;
    refill->pending.fd = -1;
    refill->again = timer_new(epoch->job->agent->loop, on_again, refill);
    if (!refill->again || set_init(&refill->set, epoch) < 0) {
        timer_destroy(refill->again);
        free(refill);
        return NULL;
    }
    refill->epoch.members = refill->set.members;
    refill->epoch.placement = refill->set.placement;
    remotes_hear(epoch->remotes, REMOTES_REFILLS, &remotes_ops, refill);
    return refill;
}

void refill_destroy(struct refill *refill)
{
    if (!refill)
        return;
    forget(refill);
    refill_drop_loans(refill);
    remotes_hear(refill->epoch.remotes, REMOTES_REFILLS, NULL, NULL);
    timer_destroy(refill->again);
    set_release(&refill->set);
    free(refill);
}

bool refill_is_keeper(const struct refill *refill, uint32_t home, uint32_t index)
{
    const struct mirror_epoch *epoch = &refill->epoch;
    return epoch->scheme == SCHEME_PARITY ? parity_is_keeper(epoch->code, epoch->member_count, home, index)
                                          : scheme_partner(epoch->scheme, home, epoch->member_count) == index;
}

uint32_t refill_kept_part(const struct refill *refill, uint32_t rank)
{
    return refill->epoch.scheme == SCHEME_PARITY ? store_tables_part(refill->epoch.world, rank) : rank;
}

struct refill_note refill_note_of(const struct refill *refill, enum refill_note_kind kind, uint32_t part)
{
    return (struct refill_note){.magic = REFILL_NOTE_MAGIC,
                                .kind = kind,
                                .epoch = refill->epoch.number,
                                .part = part,
                                .ranks = refill->epoch.world,
                                .line = refill->line};
}

/* What was said of another line does not count. */
static void look_at_line(struct refill *refill)
{
    const struct store *store = refill->epoch.job->store;
    uint64_t line = store_committed_line(store);
    if (line == refill->line)
        return;
    refill->line = line;
    refill->made = refill->taken = 0;
    refill->has_given_up = refill->has_told = false;
}

/* Where the ranks have begun anew, there is nothing; a line of this epoch has protected everything. */
void refill_go_on(struct refill *refill)
{
    if (!refill || refill->is_active)
        return;
    look_at_line(refill);
    refill->is_active = refill->line > 0 && !refill->has_told;
    refill_step(refill);
}

void refill_rest(struct refill *refill)
{
    if (!refill)
        return;
    refill->is_active = false;
    forget(refill);
    refill_drop_loans(refill); /* the other node's line begins as well */
}

static void forget(struct refill *refill)
{
    timer_stop(refill->again);
    refill_forget_copy(refill);
    refill_forget_parity(refill);
}

static bool is_at_work(const struct refill *refill)
{
    return refill->asked != EPOCH_NOBODY || refill->gathering || refill->making;
}

void refill_step(struct refill *refill)
{
    if (!refill->is_active || refill->has_given_up || is_at_work(refill))
        return;
    if (refill_ask_copy(refill) || (refill->gatherer && refill_make_parity(refill))) {
        if (!refill->has_given_up)
            timer_start(refill->again, REFILL_AGAIN_MS, 0);
        return;
    }
    if (refill->gatherer && !refill_settle_parity(refill))
        return;
    refill->has_told = true;
    refill->is_active = false;
    timer_stop(refill->again);
    refill->done(refill->context, refill->line);
}

void refill_later(struct refill *refill)
{
    forget(refill);
    if (refill->is_active && !refill->has_given_up)
        timer_start(refill->again, REFILL_AGAIN_MS, 0);
}

void refill_give_up(struct refill *refill, const char *why)
{
    log_warning("job \"%s\": what this node has to hold of line %" PRIu64
                " for other nodes is left to the next line: %s",
                refill->epoch.job->name, refill->line, why);
    refill->has_given_up = true;
    forget(refill);
}

/* What is coming is left to come; what has not begun to come is asked for again. */
static void on_again(void *context)
{
    struct refill *refill = context;
    if (refill->gathering)
        gather_again(refill->gathering);
    if (refill->asked != EPOCH_NOBODY && !refill->arrival)
        refill_forget_copy(refill);
    refill_step(refill);
    if (is_at_work(refill) && !refill->has_given_up)
        timer_start(refill->again, REFILL_AGAIN_MS, 0);
}

/* ---- words ---- */

static bool read_note(const struct refill *refill, const void *bytes, size_t count, struct refill_note *note)
{
    if (count != sizeof *note)
        return false;
    memcpy(note, bytes, sizeof *note);
    return note->magic == REFILL_NOTE_MAGIC && note->epoch == refill->epoch.number &&
           note->ranks == refill->epoch.world && note->part / STORE_PARTS < note->ranks && note->line > 0;
}

static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count)
{
    struct refill *refill = context;
    struct refill_note note;
    if (!read_note(refill, bytes, count, &note))
        return;
    look_at_line(refill);
    if (note.kind == REFILL_NOTE_WANT) {
        refill_give(refill, node, &note);
    } else if (note.line != refill->line) {
        return;
    } else if (note.kind == REFILL_NOTE_REFUSED) {
        if (refill->asked == note.part && refill->asked_of == node && !refill->arrival)
            refill_later(refill);
    } else if (refill->gatherer) {
        refill_hear_member(refill, set_position(&refill->set, node), &note);
    }
}

/* Another launch comes. */
static void on_lost(void *context, uint32_t node)
{
    struct refill *refill = context;
    if (refill->asked != EPOCH_NOBODY && refill->asked_of == node)
        refill_forget_copy(refill);
}
