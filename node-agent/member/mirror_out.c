/* mirror_out.c - copies of this node's ranks on their way to their keepers: see mirror.h. */
#include "node-agent/member/mirror_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fault/fault.h"
#include "node-agent/job/membership.h"

#define SENDING_MAX 4u /* at a time; a whole image that is made for it takes memory */

static void send_next(struct mirror *mirror);
static int begin_sending(struct mirror_sending *sending, struct belay_error *err);
static void on_sent(void *context, int error, const struct outgoing_figures *figures);
static void note_sent(struct mirror *mirror, uint64_t line, const struct outgoing_figures *figures);
static void take_out(struct mirror *mirror, struct mirror_sending *sending);
static int begin_proof(const struct mirror_sending *sending, struct belay_error *err);
static void on_own_root(void *context, const struct digest *root, const struct belay_error *err);
static void conclude(struct mirror_proof *proof);
static void drop_proof(struct mirror_proof *proof);

/* What the part is made of here. */
static uint32_t own_part(const struct mirror *mirror, uint32_t part)
{
    return mirror_is_tables(mirror, part) ? mirror_rank_of(mirror, part) : part;
}

static void give_up(struct mirror *mirror, uint64_t line, uint32_t part, uint32_t node, const char *why,
                    bool is_refuted)
{
    char text[BELAY_ERROR_TEXT_BYTES + 96];
    bool is_shared = part >= mirror->epoch.world && !mirror_is_tables(mirror, part);
    snprintf(text, sizeof text, "%srank %" PRIu32 "%s cannot be copied to node %" PRIu32 ": %s",
             is_shared                        ? "what "
             : mirror_is_tables(mirror, part) ? "the tables of "
                                              : "",
             mirror_rank_of(mirror, part), is_shared ? " shares with others" : "", node, why);
    mirror->failed(mirror->context, line, text, is_refuted);
}

static void fail(struct mirror *mirror, uint64_t line, uint32_t part, uint32_t node, const char *why)
{
    give_up(mirror, line, part, node, why, false);
}

/* An errno value of a link or of the other node. */
static const char *tell_error(int error)
{
    return error == ECONNRESET ? "the link to it is lost"
           : error == EBADMSG  ? "it was damaged on its way"
                               : strerror(error);
}

static void add_sending(struct mirror *mirror, uint64_t line, uint32_t part, uint32_t member, bool is_whole)
{
    struct mirror_sending *sending = calloc(1, sizeof *sending), **last = &mirror->sendings;
    if (!sending) {
        fail(mirror, line, part, mirror->members[member], strerror(ENOMEM));
        return;
    }
    *sending = (struct mirror_sending){
        .mirror = mirror, .line = line, .part = part, .member = member, .is_whole = is_whole};
    while (*last)
        last = &(*last)->next;
    *last = sending;
}

/* Both parts are listed before anything can be held. */
void mirror_send(struct mirror *mirror, uint64_t line, uint32_t rank, uint32_t member, bool is_whole)
{
    uint32_t shared = mirror->epoch.world + rank;
    uint64_t base_line;
    add_sending(mirror, line, rank, member, is_whole);
    if (!is_whole && store_staged(mirror->epoch.job->store, line, shared, &base_line) >= 0)
        add_sending(mirror, line, shared, member, false);
    send_next(mirror);
    send_next(mirror);
}

/* To all keepers: the rank is held when all of them have said so. */
void mirror_send_tables(struct mirror *mirror, uint64_t line, uint32_t rank)
{
    uint32_t shared = mirror->epoch.world + rank;
    uint64_t base_line;
    bool has_shared = store_staged(mirror->epoch.job->store, line, shared, &base_line) >= 0;
    for (uint32_t i = 0; i < mirror->epoch.member_count; i++) {
        if (!mirror_is_keeper(mirror, mirror->own, i))
            continue;
        add_sending(mirror, line, store_tables_part(mirror->epoch.world, rank), i, false);
        if (has_shared)
            add_sending(mirror, line, shared, i, false);
    }
    for (uint32_t i = 0; i < SENDING_MAX; i++)
        send_next(mirror);
}

void mirror_cancel(struct mirror *mirror)
{
    while (mirror->sendings) {
        struct mirror_sending *sending = mirror->sendings;
        if (sending->outgoing)
            outgoing_cancel(sending->outgoing);
        take_out(mirror, sending);
    }
    while (mirror->proofs)
        drop_proof(mirror->proofs);
}

/* The first that waits. */
static void send_next(struct mirror *mirror)
{
    struct belay_error err = {0};
    struct mirror_sending *sending = mirror->sendings;
    while (sending && sending->outgoing)
        sending = sending->next;
    if (!sending || mirror->sending_count >= SENDING_MAX)
        return;
    if (begin_sending(sending, &err) == 0)
        return;
    uint64_t line = sending->line;
    uint32_t number = sending->part, node = mirror->members[sending->member];
    take_out(mirror, sending);
    fail(mirror, line, number, node, err.text);
}

static enum granularity granularity_of(const struct mirror *mirror)
{
    const char *name = mirror->epoch.job->config->settings->granularity;
    return *name ? granularity_parse(name) : GRANULARITY_AUTO;
}

static int begin_sending(struct mirror_sending *sending, struct belay_error *err)
{
    struct mirror *mirror = sending->mirror;
    const struct store *store = mirror->epoch.job->store;
    struct mirror_note tag = {.magic = MIRROR_NOTE_MAGIC,
                              .kind = MIRROR_NOTE_PART,
                              .epoch = mirror->epoch.number,
                              .part = sending->part,
                              .ranks = mirror->epoch.world,
                              .line = sending->line};
    uint32_t own = own_part(mirror, sending->part);
    int part = store_staged(store, sending->line, own, &tag.base_line);
    if (part < 0)
        return belay_error_set(err, ENODATA, "nothing is staged of it");
    uint64_t base_line = tag.base_line;
    enum outgoing_form form = base_line == 0                            ? OUTGOING_AS_IT_IS
                              : sending->is_whole                       ? OUTGOING_WHOLE
                              : mirror_is_tables(mirror, sending->part) ? OUTGOING_AS_IT_IS
                                                                        : OUTGOING_DELTA;
    if (form == OUTGOING_WHOLE)
        tag.base_line = 0;
    if (mirror->packing != PACKING_NONE && pack_is_worth(&mirror->pack_rates))
        tag.packing = mirror->packing;
    const struct outgoing_request request = {.loop = mirror->epoch.job->agent->loop,
                                             .remotes = mirror->epoch.remotes,
                                             .subject = REMOTES_COPIES,
                                             .node = mirror->members[sending->member],
                                             .tag = &tag,
                                             .tag_bytes = sizeof tag,
                                             .part = part,
                                             .form = form,
                                             .base = base_line ? store_image(store, own) : -1,
                                             .is_tables = mirror_is_tables(mirror, sending->part),
                                             .base_line = base_line,
                                             .granularity = granularity_of(mirror),
                                             .rates = mirror->rates,
                                             .packing = (enum packing)tag.packing,
                                             .line = sending->line,
                                             .rank = own,
                                             .done = on_sent,
                                             .context = sending};
    if (begin_proof(sending, err) < 0)
        return -1;
    fault_hit("agent.mirror.send", (int)sending->part, sending->line);
    sending->outgoing = outgoing_start(&request, err);
    mirror->sending_count += sending->outgoing != NULL;
    return sending->outgoing ? 0 : -1;
}

/* ESTALE: the other node says so itself, by NEED_BASE. Whether it holds what it has taken, its word tells. */
static void on_sent(void *context, int error, const struct outgoing_figures *figures)
{
    struct mirror_sending *sending = context;
    struct mirror *mirror = sending->mirror;
    uint64_t line = sending->line;
    uint32_t part = sending->part, node = mirror->members[sending->member];
    note_sent(mirror, line, figures);
    take_out(mirror, sending);
    if (error && error != ESTALE && error != ECANCELED)
        fail(mirror, line, part, node, tell_error(error));
    else
        send_next(mirror);
}

/* What has gone as a whole was not compared, and tells the rate of the link all the same. */
static void note_sent(struct mirror *mirror, uint64_t line, const struct outgoing_figures *figures)
{
    struct peer_sent *sent = &mirror->sent;
    if (mirror->sent_line != line)
        *sent = (struct peer_sent){0};
    mirror->sent_line = line;
    sent->bytes += figures->sent_bytes;
    sent->page_bytes += figures->page_bytes;
    sent->compare_ns += figures->compare_ns;
    sent->send_ns += figures->send_ns;
    sent->page_model_ns += (uint64_t)(figures->choice.page_s * 1e9);
    sent->line_model_ns += (uint64_t)(figures->choice.line_s * 1e9);
    sent->line_parts += figures->is_lines;
    sent->page_parts += figures->choice.pages > 0 && !figures->is_lines;
    choice_note_compared(&mirror->rates, figures->compared_bytes, figures->compare_ns);
    choice_note_sent(&mirror->rates, figures->sent_bytes, figures->send_ns);
    if (figures->packed.raw_bytes > 0)
        pack_note_packed(&mirror->pack_rates, &figures->packed);
    else
        pack_note_link(&mirror->pack_rates, figures->sent_bytes, figures->send_ns);
}

static void take_out(struct mirror *mirror, struct mirror_sending *sending)
{
    struct mirror_sending **at = &mirror->sendings;
    while (*at != sending)
        at = &(*at)->next;
    *at = sending->next;
    mirror->sending_count -= sending->outgoing != NULL;
    free(sending);
}

/* member EPOCH_NOBODY: of any. */
static struct mirror_proof *find_proof(const struct mirror *mirror, uint64_t line, uint32_t part,
                                       uint32_t member)
{
    struct mirror_proof *proof = mirror->proofs;
    while (proof && (proof->line != line || proof->part != part ||
                     (proof->member != member && member != EPOCH_NOBODY)))
        proof = proof->next;
    return proof;
}

/* While the part is on its way. A part that is sent again as a whole makes the same image. */
static int begin_proof(const struct mirror_sending *sending, struct belay_error *err)
{
    struct mirror *mirror = sending->mirror;
    const struct store *store = mirror->epoch.job->store;
    uint64_t line = sending->line, base_line;
    uint32_t number = own_part(mirror, sending->part);
    if (find_proof(mirror, line, sending->part, sending->member))
        return 0;
    int part = store_staged(store, line, number, &base_line);
    struct mirror_proof *proof = calloc(1, sizeof *proof);
    if (!proof)
        return belay_error_set(err, ENOMEM, "no memory for the root of an image");
    *proof = (struct mirror_proof){
        .mirror = mirror, .line = line, .part = sending->part, .member = sending->member};
    proof->rooting =
        rooting_start(mirror->epoch.job->agent->loop, part, base_line ? store_image(store, number) : -1,
                      false, on_own_root, proof, err);
    if (!proof->rooting) {
        free(proof);
        return -1;
    }
    proof->next = mirror->proofs;
    mirror->proofs = proof;
    return 0;
}

static void on_own_root(void *context, const struct digest *root, const struct belay_error *err)
{
    struct mirror_proof *proof = context;
    proof->rooting = NULL;
    if (err->code) {
        struct mirror *mirror = proof->mirror;
        uint64_t line = proof->line;
        uint32_t part = proof->part, member = proof->member;
        drop_proof(proof);
        fail(mirror, line, part, mirror->members[member], err->text);
        return;
    }
    proof->own = *root;
    store_note_root(proof->mirror->epoch.job->store, proof->line, own_part(proof->mirror, proof->part), root);
    conclude(proof);
}

/* Whether a part is to be sent yet, or to be proved. */
static bool is_due(const struct mirror *mirror, uint64_t line, uint32_t part)
{
    for (const struct mirror_sending *at = mirror->sendings; at; at = at->next)
        if (!at->outgoing && at->line == line && at->part == part)
            return true;
    return find_proof(mirror, line, part, EPOCH_NOBODY) != NULL;
}

/* When both roots are known. The rank is held when nothing of it is left to be proved. */
static void conclude(struct mirror_proof *proof)
{
    struct mirror *mirror = proof->mirror;
    uint64_t line = proof->line;
    uint32_t part = proof->part, rank = mirror_rank_of(mirror, part), world = mirror->epoch.world;
    uint32_t node = mirror->members[proof->member];
    if (proof->rooting || !proof->is_held)
        return;
    bool is_same = digest_is_equal(&proof->own, &proof->its);
    drop_proof(proof);
    if (is_same && !is_due(mirror, line, rank) && !is_due(mirror, line, world + rank) &&
        !is_due(mirror, line, store_tables_part(world, rank)))
        membership_held(mirror->epoch.job->membership, line, rank);
    else if (!is_same)
        give_up(mirror, line, part, node, "what it holds is another image", true);
}

static void drop_proof(struct mirror_proof *proof)
{
    struct mirror_proof **at = &proof->mirror->proofs;
    while (*at != proof)
        at = &(*at)->next;
    *at = proof->next;
    rooting_cancel(proof->rooting);
    free(proof);
}

struct peer_sent mirror_sent(const struct mirror *mirror, uint64_t line)
{
    return line == mirror->sent_line ? mirror->sent : (struct peer_sent){0};
}

static void send_whole(struct mirror *mirror, uint64_t line, uint32_t part, uint32_t member)
{
    add_sending(mirror, line, part, member, true);
    send_next(mirror);
}

void mirror_hear_keeper(struct mirror *mirror, uint32_t node, uint32_t member, const struct mirror_note *note)
{
    struct membership *membership = mirror->epoch.job->membership;
    struct mirror_proof *proof = find_proof(mirror, note->line, note->part, member);
    if (note->kind == MIRROR_NOTE_HELD && proof) {
        proof->is_held = true;
        proof->its = note->root;
        conclude(proof);
    }
    if (note->kind == MIRROR_NOTE_NEED_BASE && note->part < note->ranks)
        membership_need_base(membership, note->line, note->part);
    else if (note->kind == MIRROR_NOTE_NEED_BASE && proof &&
             !proof->is_held) /* the machine knows ranks only */
        send_whole(mirror, note->line, note->part, member);
    else if (note->kind == MIRROR_NOTE_REFUSED)
        fail(mirror, note->line, note->part, node, tell_error(note->error));
}
