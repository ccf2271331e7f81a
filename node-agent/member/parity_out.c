/* parity_out.c - this node's ranks on their way into the parity of others: see parity.h. */
#include "node-agent/member/parity_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/fault/fault.h"
#include "common/util/clock.h"

#define SENDING_MAX 6u /* at a time */

static int begin_guard(struct parity *parity, struct parity_guard *guard, struct belay_error *err);
static void drop_guard(struct parity *parity, struct parity_guard *guard);
static void add_sending(struct parity *parity, const struct parity_guard *guard, uint32_t position,
                        bool is_whole);
static void send_next(struct parity *parity);
static int begin_sending(struct parity_sending *sending, struct belay_error *err);
static void on_sent(void *context, int error);

void parity_send(struct parity *parity, uint64_t line, uint32_t rank)
{
    struct parity_guard *guard = calloc(1, sizeof *guard);
    struct belay_error err = {.code = ENOMEM, .text = "out of memory"};
    if (!guard) {
        parity_fail(parity, line, rank, parity->epoch.node, err.text);
        return;
    }
    guard->line = line;
    guard->rank = rank;
    guard->slot = parity_slot(parity->set.placement, rank);
    guard->next = parity->guards;
    parity->guards = guard;
    if (begin_guard(parity, guard, &err) < 0) {
        drop_guard(parity, guard);
        parity_fail(parity, line, rank, parity->epoch.node, err.text);
        return;
    }
    for (uint32_t i = 0; i < parity->set.of.size; i++)
        if (guard->marks.awaited & 1u << i)
            add_sending(parity, guard, i, guard->base_line == 0);
    for (uint32_t i = 0; i < SENDING_MAX; i++)
        send_next(parity);
}

/* Without a committed image that can be used, nobody can be told what has changed. */
static int begin_guard(struct parity *parity, struct parity_guard *guard, struct belay_error *err)
{
    const struct store *store = parity->epoch.job->store;
    uint64_t base_line;
    uint32_t holders = 0;
    int staged = store_staged(store, guard->line, guard->rank, &base_line);
    if (staged < 0)
        return belay_error_set(err, ENODATA, "nothing is staged of it");
    for (uint32_t i = 0; i < parity->set.of.size; i++)
        holders |= i == parity->set.of.position ? 0 : 1u << i;
    guard->base_line = store_image_line(store, guard->rank);
    guard_begin(&guard->marks, holders, guard->base_line != 0);
    if (guard->base_line != 0)
        guard->delta = share_pages_staged(staged, store_image(store, guard->rank), false, err);
    return guard->base_line == 0 || guard->delta ? 0 : -1;
}

static struct parity_guard *find_guard(const struct parity *parity, uint64_t line, uint32_t rank)
{
    struct parity_guard *guard = parity->guards;
    while (guard && (guard->line != line || guard->rank != rank))
        guard = guard->next;
    return guard;
}

static void drop_guard(struct parity *parity, struct parity_guard *guard)
{
    struct parity_guard **at = &parity->guards;
    while (*at != guard)
        at = &(*at)->next;
    *at = guard->next;
    share_pages_unref(guard->delta);
    share_pages_unref(guard->all);
    free(guard);
}

static void add_sending(struct parity *parity, const struct parity_guard *guard, uint32_t position,
                        bool is_whole)
{
    struct parity_sending *sending = calloc(1, sizeof *sending), **last = &parity->sendings;
    if (!sending) {
        parity_fail(parity, guard->line, guard->rank, set_node(&parity->set, position), strerror(ENOMEM));
        return;
    }
    *sending = (struct parity_sending){.parity = parity,
                                       .line = guard->line,
                                       .rank = guard->rank,
                                       .slot = guard->slot,
                                       .position = position,
                                       .is_whole = is_whole};
    while (*last)
        last = &(*last)->next;
    *last = sending;
}

static void take_out(struct parity_sending *sending)
{
    struct parity_sending **at = &sending->parity->sendings;
    while (*at != sending)
        at = &(*at)->next;
    *at = sending->next;
    sending->parity->sending_count -= sending->share != NULL;
}

/* The first that waits. */
static void send_next(struct parity *parity)
{
    struct belay_error err = {0};
    struct parity_sending *sending = parity->sendings;
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
    packer_destroy(sending->packer);
    free(sending);
    parity_fail(parity, line, rank, node, err.text);
}

static struct share_pages *pages_of(struct parity *parity, struct parity_guard *guard, bool is_whole,
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

static ssize_t fill_packed(void *share, uint8_t *to, size_t room)
{
    const struct parity_sending *sending = share_owner(share);
    return packer_fill(sending->packer, to, room);
}

static int begin_sending(struct parity_sending *sending, struct belay_error *err)
{
    struct parity *parity = sending->parity;
    struct parity_guard *guard = find_guard(parity, sending->line, sending->rank);
    const struct way way = {parity->set.of.code, parity->set.of.position, sending->position};
    bool is_packed = parity->packing != PACKING_NONE && pack_is_worth(&parity->pack_rates);
    const struct parity_note tag = {.magic = PARITY_NOTE_MAGIC,
                                    .kind = PARITY_NOTE_PART,
                                    .epoch = parity->epoch.number,
                                    .slot = sending->slot,
                                    .ranks = parity->epoch.world,
                                    .line = sending->line,
                                    .base_line = sending->is_whole || !guard ? 0 : guard->base_line,
                                    .packing = is_packed ? parity->packing : PACKING_NONE};
    if (!guard)
        return belay_error_set(err, ECANCELED, "it is not wanted any more");
    struct share_pages *pages = pages_of(parity, guard, sending->is_whole, err);
    if (!pages)
        return -1;
    fault_hit("agent.parity.send", (int)sending->rank, sending->line);
    struct share *share = share_create(pages, way_route, &way, sizeof way);
    if (share && is_packed)
        sending->packer = packer_create(parity->packing, share_fill, share);
    if (!share || (is_packed && !sending->packer)) {
        share_destroy(share);
        return belay_error_set(err, ENOMEM, "out of memory");
    }
    share_set_owner(share, sending);
    sending->begun_ns = clock_now_ns();
    if (remotes_push(parity->epoch.remotes, REMOTES_PARITY, set_node(&parity->set, sending->position), &tag,
                     sizeof tag, is_packed ? packer_bound(share_bound(share)) : share_bound(share),
                     is_packed ? fill_packed : share_fill, on_sent, share) < 0) {
        share_destroy(share);
        return belay_error_errno(err, "it cannot be reached");
    }
    sending->share = share;
    parity->sending_count++;
    return 0;
}

/* Of what has gone. Returns how many bytes. */
static uint64_t note_rates(struct parity_sending *sending)
{
    struct pack_rates *rates = &sending->parity->pack_rates;
    uint64_t given = share_given(sending->share), took_ns = clock_now_ns() - sending->begun_ns;
    if (!sending->packer) {
        pack_note_link(rates, given, took_ns);
        return given;
    }
    const struct packed_figures figures = packer_figures(sending->packer);
    pack_note_packed(rates, &figures);
    return figures.packed_bytes;
}

/* ESTALE: the other node says so itself, by NEED_BASE. Whether it holds what it has taken, its word tells. */
static void on_sent(void *context, int error)
{
    struct share *share = context;
    struct parity_sending *sending = share_owner(share);
    struct parity *parity = sending->parity;
    uint64_t line = sending->line, given = share_given(share), pages = share_page_bytes(share);
    uint32_t rank = sending->rank, position = sending->position;
    if (parity) {
        given = note_rates(sending);
        take_out(sending);
    }
    share_destroy(share);
    packer_destroy(sending->packer);
    free(sending);
    if (!parity)
        return;
    if (line != parity->sent_line)
        parity->sent_bytes = parity->sent_page_bytes = 0;
    parity->sent_bytes += given;
    parity->sent_page_bytes += pages;
    parity->sent_line = line;
    if (error && error != ESTALE && error != ECANCELED)
        parity_fail(parity, line, rank, set_node(&parity->set, position), parity_tell_error(error));
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

void parity_drop_guards(struct parity *parity)
{
    while (parity->sendings) {
        struct parity_sending *sending = parity->sendings;
        take_out(sending);
        sending->parity = NULL;
        if (sending->share)
            share_cancel(sending->share); /* on_sent() follows */
        else
            free(sending);
    }
    while (parity->guards)
        drop_guard(parity, parity->guards);
}

void parity_hear_holder(struct parity *parity, uint32_t position, const struct parity_note *note)
{
    uint32_t rank = set_rank(&parity->set, parity->set.of.position, note->slot);
    struct parity_guard *guard = find_guard(parity, note->line, rank);
    if (!guard || !(guard->marks.awaited & 1u << position))
        return;
    if (note->kind == PARITY_NOTE_REFUSED) {
        parity_fail(parity, note->line, rank, set_node(&parity->set, position),
                    parity_tell_error(note->error));
    } else if (note->kind == PARITY_NOTE_NEED_BASE && guard_turn_whole(&guard->marks, position)) {
        add_sending(parity, guard, position, true);
        send_next(parity);
    } else if (note->kind == PARITY_NOTE_HELD && guard_is_held(&guard->marks, position)) {
        drop_guard(parity, guard);
        parity->ops->held(parity->context, note->line, rank);
    }
}
