#include "node-agent/member/mirror.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fault/fault.h"
#include "common/image/spoil.h"
#include "common/util/log.h"
#include "node-agent/job/membership.h"
#include "node-agent/member/incoming.h"
#include "node-agent/member/outgoing.h"
#include "node-agent/member/rooting.h"

#define SENDING_MAX 4u /* at a time; a whole image that is made for it takes memory */
#define NOTE_MAGIC 0x746f6e6du

enum note_kind { NOTE_NONE = 0, NOTE_PART, NOTE_HELD, NOTE_NEED_BASE, NOTE_REFUSED };

/* In front of a part, and the answer to it. */
struct note {
    uint32_t magic;
    uint32_t kind; /* enum note_kind */
    uint32_t epoch;
    uint32_t part, ranks; /* part of the store; ranks of the world */
    int32_t error;        /* REFUSED: errno */
    uint64_t line;
    uint64_t base_line; /* PART: of a delta; 0: an image */
    struct digest root; /* HELD: of the image that the copy is, or makes */
};

/* A part that waits to be sent, or is being sent. */
struct sending {
    struct sending *next;
    struct mirror *mirror;
    uint64_t line;
    uint32_t part, member;
    bool is_whole;
    struct outgoing *outgoing; /* NULL: it waits */
};

/* The root of a part here, and of its copy: only if they are the same is the copy one. */
struct proof {
    struct proof *next;
    struct mirror *mirror;
    uint64_t line;
    uint32_t part, member;   /* that keeps the copy */
    struct rooting *rooting; /* NULL: own is known */
    bool is_held;            /* there: its root has come */
    struct digest own, its;
};

/* A guest's part that comes. */
struct taking {
    struct taking *next;
    struct mirror *mirror; /* NULL: gone */
    struct note note;
    uint32_t node;           /* that sends it */
    bool is_whole;           /* all of it is there */
    struct rooting *rooting; /* it has come, and its root is computed; NULL: not */
    struct digest root;
    struct incoming incoming;
};

struct mirror {
    struct mirror_epoch epoch;
    uint32_t *members, *placement; /* of it */
    uint32_t own;                  /* index */
    mirror_failed_f *failed;
    void *context;
    struct sending *sendings;
    uint32_t sending_count; /* of them those that do not wait */
    uint64_t sent_line;     /* the one that was sent last */
    struct peer_sent sent;
    struct choice_rates rates;
    struct proof *proofs;
    struct taking *takings;
    const struct note *asked; /* the part that the machine is asked about; NULL: none */
};

static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count);
static int on_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                      struct transfer_intake *intake);
static void on_lost(void *context, uint32_t node);
static void send_next(struct mirror *mirror);
static int begin_sending(struct sending *sending, struct belay_error *err);
static void on_sent(void *context, int error, const struct outgoing_figures *figures);
static void note_sent(struct mirror *mirror, uint64_t line, const struct outgoing_figures *figures);
static void take_out(struct mirror *mirror, struct sending *sending);
static int begin_proof(const struct sending *sending, struct belay_error *err);
static void on_own_root(void *context, const struct digest *root, const struct belay_error *err);
static void conclude(struct proof *proof);
static void drop_proof(struct proof *proof);
static int on_bytes(void *context, uint64_t offset, const uint8_t *bytes, size_t count);
static void on_taken(void *context, int error);
static int begin_rooting(struct taking *taking);
static void on_root(void *context, const struct digest *root, const struct belay_error *err);
static void keep(struct taking *taking);
static void forget(struct taking *taking);

static const struct remotes_ops remotes_ops = {.word = on_word, .offered = on_offered, .lost = on_lost};

struct mirror *mirror_create(const struct mirror_epoch *epoch, mirror_failed_f *failed, void *context)
{
    struct mirror *mirror = calloc(1, sizeof *mirror);
    if (!mirror)
        return NULL;
    mirror->epoch = *epoch;
    mirror->members = calloc(epoch->member_count, sizeof *mirror->members);
    mirror->placement = calloc((size_t)epoch->world + 1, sizeof *mirror->placement);
    if (!mirror->members || !mirror->placement) {
        mirror_destroy(mirror);
        errno = ENOMEM;
        return NULL;
    }
    memcpy(mirror->members, epoch->members, epoch->member_count * sizeof *mirror->members);
    memcpy(mirror->placement, epoch->placement, epoch->world * sizeof *mirror->placement);
    while (mirror->own + 1 < epoch->member_count && epoch->members[mirror->own] != epoch->node)
        mirror->own++;
    choice_measure(&mirror->rates);
    mirror->failed = failed;
    mirror->context = context;
    remotes_hear(epoch->remotes, REMOTES_COPIES, &remotes_ops, mirror);
    return mirror;
}

void mirror_destroy(struct mirror *mirror)
{
    if (!mirror)
        return;
    mirror_cancel(mirror);
    while (mirror->takings) {
        struct taking *taking = mirror->takings;
        mirror->takings = taking->next;
        taking->mirror = NULL; /* the fabric still gives to it, */
        if (taking->rooting) { /* or has given all */
            rooting_cancel(taking->rooting);
            forget(taking);
        }
    }
    remotes_hear(mirror->epoch.remotes, REMOTES_COPIES, NULL, NULL);
    free(mirror->members);
    free(mirror->placement);
    free(mirror);
}

/* Whether a member keeps copies, or tables, of what member `home` runs. */
static bool is_keeper(const struct mirror *mirror, uint32_t home, uint32_t index)
{
    const struct mirror_epoch *epoch = &mirror->epoch;
    return epoch->scheme == SCHEME_PARITY
               ? parity_is_keeper(epoch->code, epoch->member_count, home, index)
               : scheme_partner(SCHEME_PARTNER, home, epoch->member_count) == index;
}

/* The rank that the machine knows a part by: what a group shares goes with the rank of its number. */
static uint32_t rank_of(const struct mirror *mirror, uint32_t part)
{
    return part % mirror->epoch.world;
}

/* Of the part of the store at the other node: its tables alone go there. */
static bool is_tables(const struct mirror *mirror, uint32_t part)
{
    return part >= store_tables_part(mirror->epoch.world, 0);
}

/* What the part is made of here. */
static uint32_t own_part(const struct mirror *mirror, uint32_t part)
{
    return is_tables(mirror, part) ? rank_of(mirror, part) : part;
}

static uint32_t index_of(const struct mirror *mirror, uint32_t node)
{
    for (uint32_t i = 0; i < mirror->epoch.member_count; i++)
        if (mirror->members[i] == node)
            return i;
    return EPOCH_NOBODY;
}

static void give_up(struct mirror *mirror, uint64_t line, uint32_t part, uint32_t node, const char *why,
                    bool is_refuted)
{
    char text[BELAY_ERROR_TEXT_BYTES + 96];
    bool is_shared = part >= mirror->epoch.world && !is_tables(mirror, part);
    snprintf(text, sizeof text, "%srank %" PRIu32 "%s cannot be copied to node %" PRIu32 ": %s",
             is_shared                 ? "what "
             : is_tables(mirror, part) ? "the tables of "
                                       : "",
             rank_of(mirror, part), is_shared ? " shares with others" : "", node, why);
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

/* ---- this node's ranks ---- */

static void add_sending(struct mirror *mirror, uint64_t line, uint32_t part, uint32_t member, bool is_whole)
{
    struct sending *sending = calloc(1, sizeof *sending), **last = &mirror->sendings;
    if (!sending) {
        fail(mirror, line, part, mirror->members[member], strerror(ENOMEM));
        return;
    }
    *sending = (struct sending){
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
        if (!is_keeper(mirror, mirror->own, i))
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
        struct sending *sending = mirror->sendings;
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
    struct sending *sending = mirror->sendings;
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

static int begin_sending(struct sending *sending, struct belay_error *err)
{
    struct mirror *mirror = sending->mirror;
    const struct store *store = mirror->epoch.job->store;
    struct note tag = {.magic = NOTE_MAGIC,
                       .kind = NOTE_PART,
                       .epoch = mirror->epoch.number,
                       .part = sending->part,
                       .ranks = mirror->epoch.world,
                       .line = sending->line};
    uint32_t own = own_part(mirror, sending->part);
    int part = store_staged(store, sending->line, own, &tag.base_line);
    if (part < 0)
        return belay_error_set(err, ENODATA, "nothing is staged of it");
    uint64_t base_line = tag.base_line;
    enum outgoing_form form = base_line == 0                     ? OUTGOING_AS_IT_IS
                              : sending->is_whole                ? OUTGOING_WHOLE
                              : is_tables(mirror, sending->part) ? OUTGOING_AS_IT_IS
                                                                 : OUTGOING_DELTA;
    if (form == OUTGOING_WHOLE)
        tag.base_line = 0;
    const struct outgoing_request request = {.loop = mirror->epoch.job->agent->loop,
                                             .remotes = mirror->epoch.remotes,
                                             .subject = REMOTES_COPIES,
                                             .node = mirror->members[sending->member],
                                             .tag = &tag,
                                             .tag_bytes = sizeof tag,
                                             .part = part,
                                             .form = form,
                                             .base = base_line ? store_image(store, own) : -1,
                                             .is_tables = is_tables(mirror, sending->part),
                                             .base_line = base_line,
                                             .granularity = granularity_of(mirror),
                                             .rates = mirror->rates,
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
    struct sending *sending = context;
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
}

static void take_out(struct mirror *mirror, struct sending *sending)
{
    struct sending **at = &mirror->sendings;
    while (*at != sending)
        at = &(*at)->next;
    *at = sending->next;
    mirror->sending_count -= sending->outgoing != NULL;
    free(sending);
}

/* member EPOCH_NOBODY: of any. */
static struct proof *find_proof(const struct mirror *mirror, uint64_t line, uint32_t part, uint32_t member)
{
    struct proof *proof = mirror->proofs;
    while (proof && (proof->line != line || proof->part != part ||
                     (proof->member != member && member != EPOCH_NOBODY)))
        proof = proof->next;
    return proof;
}

/* While the part is on its way. A part that is sent again as a whole makes the same image. */
static int begin_proof(const struct sending *sending, struct belay_error *err)
{
    struct mirror *mirror = sending->mirror;
    const struct store *store = mirror->epoch.job->store;
    uint64_t line = sending->line, base_line;
    uint32_t number = own_part(mirror, sending->part);
    if (find_proof(mirror, line, sending->part, sending->member))
        return 0;
    int part = store_staged(store, line, number, &base_line);
    struct proof *proof = calloc(1, sizeof *proof);
    if (!proof)
        return belay_error_set(err, ENOMEM, "no memory for the root of an image");
    *proof = (struct proof){.mirror = mirror, .line = line, .part = sending->part, .member = sending->member};
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
    struct proof *proof = context;
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
    for (const struct sending *at = mirror->sendings; at; at = at->next)
        if (!at->outgoing && at->line == line && at->part == part)
            return true;
    return find_proof(mirror, line, part, EPOCH_NOBODY) != NULL;
}

/* When both roots are known. The rank is held when nothing of it is left to be proved. */
static void conclude(struct proof *proof)
{
    struct mirror *mirror = proof->mirror;
    uint64_t line = proof->line;
    uint32_t part = proof->part, rank = rank_of(mirror, part), world = mirror->epoch.world;
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

static void drop_proof(struct proof *proof)
{
    struct proof **at = &proof->mirror->proofs;
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

static bool read_note(const struct mirror *mirror, const void *bytes, size_t count, struct note *note)
{
    if (count != sizeof *note)
        return false;
    memcpy(note, bytes, sizeof *note);
    return note->magic == NOTE_MAGIC && note->epoch == mirror->epoch.number &&
           note->ranks == mirror->epoch.world && note->part / STORE_PARTS < note->ranks &&
           note->part / note->ranks != 2; /* parity does not go from node to node */
}

static void send_whole(struct mirror *mirror, uint64_t line, uint32_t part, uint32_t member)
{
    add_sending(mirror, line, part, member, true);
    send_next(mirror);
}

/* The partner's word about a copy of ours. */
static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count)
{
    struct mirror *mirror = context;
    struct membership *membership = mirror->epoch.job->membership;
    uint32_t member = index_of(mirror, node);
    struct note note;
    if (!read_note(mirror, bytes, count, &note) ||
        mirror->placement[rank_of(mirror, note.part)] != mirror->own ||
        !is_keeper(mirror, mirror->own, member) || note.line != membership_line(membership))
        return;
    struct proof *proof = find_proof(mirror, note.line, note.part, member);
    if (note.kind == NOTE_HELD && proof) {
        proof->is_held = true;
        proof->its = note.root;
        conclude(proof);
    }
    if (note.kind == NOTE_NEED_BASE && note.part < note.ranks)
        membership_need_base(membership, note.line, note.part);
    else if (note.kind == NOTE_NEED_BASE && proof && !proof->is_held) /* the machine knows ranks only */
        send_whole(mirror, note.line, note.part, member);
    else if (note.kind == NOTE_REFUSED)
        fail(mirror, note.line, note.part, node, tell_error(note.error));
}

/* What was sent may not have arrived, and no word of it will come. */
static void on_lost(void *context, uint32_t node)
{
    struct mirror *mirror = context;
    uint64_t line = membership_line(mirror->epoch.job->membership);
    char text[64];
    if (line == 0 || !is_keeper(mirror, mirror->own, index_of(mirror, node)))
        return;
    snprintf(text, sizeof text, "the link to node %" PRIu32 " is lost", node);
    mirror->failed(mirror->context, line, text, false);
}

/* ---- guests ---- */

static struct taking *find_taking(const struct mirror *mirror, uint64_t line, uint32_t part)
{
    struct taking *taking = mirror->takings;
    while (taking && (taking->note.line != line || taking->note.part != part))
        taking = taking->next;
    return taking;
}

/*
 * Whether a part is kept, and what is answered, which follows from within (mirror_admit(), mirror_answer()).
 * The machine knows it by its rank. Returns 0, or -1 with errno: it is not kept.
 */
static int ask_machine(struct mirror *mirror, uint32_t node, const struct note *note)
{
    const struct job *job = mirror->epoch.job;
    mirror->asked = note;
    int rc = membership_data(job->membership, node, note->line, rank_of(mirror, note->part), note->base_line,
                             store_image_line(job->store, note->part));
    mirror->asked = NULL;
    return rc;
}

/* Is it for us, and of now? Returns 0 or an errno. */
static int check_part(struct mirror *mirror, uint32_t node, const struct note *note, uint64_t bytes)
{
    const struct job *job = mirror->epoch.job;
    uint32_t home = mirror->placement[rank_of(mirror, note->part)];
    uint64_t image_line = store_image_line(job->store, note->part);
    bool is_wanted = note->part / note->ranks == 1 ||
                     is_tables(mirror, note->part) == (mirror->epoch.scheme == SCHEME_PARITY);
    if (note->kind != NOTE_PART || !is_keeper(mirror, home, mirror->own) || mirror->members[home] != node ||
        !is_wanted)
        return EPERM;
    if (note->line == 0 || note->line != membership_line(job->membership))
        return ECANCELED;
    if (find_taking(mirror, note->line, note->part))
        return EALREADY;
    if (note->base_line > 0 && note->base_line != image_line) {
        ask_machine(mirror, node, note);
        return ESTALE;
    }
    return bytes > store_room(job->store, job->config->settings->memory_bytes) ? ENOMEM : 0;
}

static int on_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                      struct transfer_intake *intake)
{
    struct mirror *mirror = context;
    struct belay_error err;
    struct note note;
    if (!read_note(mirror, tag, tag_bytes, &note))
        return EPROTO;
    int code = check_part(mirror, node, &note, bytes);
    if (code)
        return code;
    struct taking *taking = calloc(1, sizeof *taking);
    if (!taking || incoming_begin(&taking->incoming, &err) < 0) {
        free(taking);
        return ENOMEM;
    }
    taking->mirror = mirror;
    taking->note = note;
    taking->node = node;
    taking->next = mirror->takings;
    mirror->takings = taking;
    *intake = (struct transfer_intake){.take = on_bytes, .done = on_taken, .context = taking};
    return 0;
}

/* In a thread of the fabric's. */
static int on_bytes(void *context, uint64_t offset, const uint8_t *bytes, size_t count)
{
    struct taking *taking = context;
    (void)offset;
    return incoming_take(&taking->incoming, bytes, count);
}

static void answer(struct mirror *mirror, uint32_t node, const struct note *note, enum note_kind kind,
                   int error)
{
    struct note word = *note;
    word.magic = NOTE_MAGIC;
    word.kind = kind;
    word.epoch = mirror->epoch.number;
    word.ranks = mirror->epoch.world;
    word.error = error;
    if (remotes_say(mirror->epoch.remotes, REMOTES_COPIES, node, &word, sizeof word) <
        0) /* then it hears of the lost link */
        log_info("node %" PRIu32 " cannot be told of its copy of rank %" PRIu32, node,
                 rank_of(mirror, note->part));
}

/* The machine says whether it is kept, and has it answered. */
static void on_taken(void *context, int error)
{
    struct taking *taking = context;
    struct mirror *mirror = taking->mirror;
    const struct note *note = &taking->note;
    taking->is_whole = error == 0 && incoming_is_whole(&taking->incoming);
    if (mirror && error == 0 && fault_hit("agent.mirror.taken", (int)note->part, note->line))
        image_spoil(taking->incoming.fd);
    if (mirror && taking->is_whole && begin_rooting(taking) == 0)
        return;
    if (mirror && error == 0)
        keep(taking);
    forget(taking);
}

/* Of the image that the copy is, or makes of the one that is here. */
static int begin_rooting(struct taking *taking)
{
    struct mirror *mirror = taking->mirror;
    const struct job *job = mirror->epoch.job;
    struct belay_error err;
    int base = taking->note.base_line ? store_image(job->store, taking->note.part) : -1;
    taking->rooting = rooting_start(job->agent->loop, taking->incoming.fd, base,
                                    is_tables(mirror, taking->note.part), on_root, taking, &err);
    return taking->rooting ? 0 : -1;
}

/* Without a root, it is not what it is said to be: the store says why. */
static void on_root(void *context, const struct digest *root, const struct belay_error *err)
{
    struct taking *taking = context;
    taking->rooting = NULL;
    if (err->code == 0)
        taking->root = *root;
    keep(taking);
    forget(taking);
}

static void keep(struct taking *taking)
{
    struct mirror *mirror = taking->mirror;
    if (ask_machine(mirror, taking->node, &taking->note) < 0)
        answer(mirror, taking->node, &taking->note, NOTE_REFUSED, errno);
}

static void forget(struct taking *taking)
{
    struct taking **at = taking->mirror ? &taking->mirror->takings : NULL;
    while (at && *at != taking)
        at = &(*at)->next;
    if (at)
        *at = taking->next;
    incoming_end(&taking->incoming);
    free(taking);
}

int mirror_admit(struct mirror *mirror, uint64_t line, uint32_t rank)
{
    uint32_t part = mirror->asked ? mirror->asked->part : rank;
    struct taking *taking = find_taking(mirror, line, part);
    struct belay_error err;
    if (!taking || !taking->is_whole) {
        errno = EBADMSG;
        return -1;
    }
    const struct store_guest guest = {.rank = part,
                                      .ranks = mirror->epoch.world,
                                      .here = mirror->epoch.count ? mirror->epoch.count : STORE_NOBODY_HERE,
                                      .fd = taking->incoming.fd,
                                      .is_delta = taking->note.base_line > 0,
                                      .root = taking->root};
    taking->incoming.fd = -1;
    if (store_stage_guest(mirror->epoch.job->store, line, &guest, &err) == 0)
        return 0;
    log_warning("job \"%s\": the copy of rank %" PRIu32 " of line %" PRIu64 " is not kept: %s",
                mirror->epoch.job->name, rank, line, err.text);
    errno = err.code;
    return -1;
}

void mirror_answer(struct mirror *mirror, uint32_t node, uint64_t line, uint32_t rank, bool is_held)
{
    uint32_t part = mirror->asked ? mirror->asked->part : rank;
    const struct note note = {
        .line = line, .part = part, .root = store_staged_root(mirror->epoch.job->store, line, part)};
    answer(mirror, node, &note, is_held ? NOTE_HELD : NOTE_NEED_BASE, 0);
}
