/* mirror_in.c - copies of guests' parts that come: see mirror.h. */
#include "node-agent/member/mirror_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/fault/fault.h"
#include "common/image/spoil.h"
#include "common/util/log.h"
#include "node-agent/job/membership.h"

static int on_bytes(void *context, uint64_t offset, const uint8_t *bytes, size_t count);
static int take_raw(void *context, const uint8_t *bytes, size_t count);
static void on_taken(void *context, int error);
static int begin_rooting(struct mirror_taking *taking);
static void on_root(void *context, const struct digest *root, const struct belay_error *err);
static void keep(struct mirror_taking *taking);
static void forget(struct mirror_taking *taking);

static struct mirror_taking *find_taking(const struct mirror *mirror, uint64_t line, uint32_t part)
{
    struct mirror_taking *taking = mirror->takings;
    while (taking && (taking->note.line != line || taking->note.part != part))
        taking = taking->next;
    return taking;
}

/*
 * Whether a part is kept, and what is answered, which follows from within (mirror_admit(), mirror_answer()).
 * The machine knows it by its rank. Returns 0, or -1 with errno: it is not kept.
 */
static int ask_machine(struct mirror *mirror, uint32_t node, const struct mirror_note *note)
{
    const struct job *job = mirror->epoch.job;
    mirror->asked = note;
    int rc = membership_data(job->membership, node, note->line, mirror_rank_of(mirror, note->part),
                             note->base_line, store_image_line(job->store, note->part));
    mirror->asked = NULL;
    return rc;
}

/* Is it for us, and of now? Returns 0 or an errno. */
static int check_part(struct mirror *mirror, uint32_t node, const struct mirror_note *note, uint64_t bytes)
{
    const struct job *job = mirror->epoch.job;
    uint32_t home = mirror->placement[mirror_rank_of(mirror, note->part)];
    uint64_t image_line = store_image_line(job->store, note->part);
    bool is_wanted = note->part / note->ranks == 1 ||
                     mirror_is_tables(mirror, note->part) == (mirror->epoch.scheme == SCHEME_PARITY);
    if (note->kind != MIRROR_NOTE_PART || !mirror_is_keeper(mirror, home, mirror->own) ||
        mirror->members[home] != node || !is_wanted)
        return EPERM;
    if (note->line == 0 || note->line != membership_line(job->membership))
        return ECANCELED;
    if (find_taking(mirror, note->line, note->part))
        return EALREADY;
    if (note->base_line > 0 && note->base_line != image_line) {
        ask_machine(mirror, node, note);
        return ESTALE;
    }
    if (note->packing >= PACKINGS)
        return EPROTO;
    return bytes > store_room(job->store, job->config->settings->memory_bytes) ? ENOMEM : 0;
}

int mirror_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                   struct transfer_intake *intake)
{
    struct mirror *mirror = context;
    struct belay_error err;
    struct mirror_note note;
    if (!mirror_read_note(mirror, tag, tag_bytes, &note))
        return EPROTO;
    int code = check_part(mirror, node, &note, bytes);
    if (code)
        return code;
    struct mirror_taking *taking = calloc(1, sizeof *taking);
    if (taking && note.packing)
        taking->unpacker = unpacker_create(bytes, take_raw, taking);
    if (!taking || (note.packing && !taking->unpacker) || incoming_begin(&taking->incoming, &err) < 0) {
        unpacker_destroy(taking ? taking->unpacker : NULL);
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

static int take_raw(void *context, const uint8_t *bytes, size_t count)
{
    struct mirror_taking *taking = context;
    return incoming_take(&taking->incoming, bytes, count);
}

/* In a thread of the fabric's. */
static int on_bytes(void *context, uint64_t offset, const uint8_t *bytes, size_t count)
{
    struct mirror_taking *taking = context;
    (void)offset;
    if (taking->unpacker)
        return unpacker_take(taking->unpacker, bytes, count);
    return incoming_take(&taking->incoming, bytes, count);
}

static void answer(struct mirror *mirror, uint32_t node, const struct mirror_note *note,
                   enum mirror_note_kind kind, int error)
{
    struct mirror_note word = *note;
    word.magic = MIRROR_NOTE_MAGIC;
    word.kind = kind;
    word.epoch = mirror->epoch.number;
    word.ranks = mirror->epoch.world;
    word.error = error;
    if (remotes_say(mirror->epoch.remotes, REMOTES_COPIES, node, &word, sizeof word) <
        0) /* then it hears of the lost link */
        log_info("node %" PRIu32 " cannot be told of its copy of rank %" PRIu32, node,
                 mirror_rank_of(mirror, note->part));
}

/* The machine says whether it is kept, and has it answered. */
static void on_taken(void *context, int error)
{
    struct mirror_taking *taking = context;
    struct mirror *mirror = taking->mirror;
    const struct mirror_note *note = &taking->note;
    taking->is_whole = error == 0 && incoming_is_whole(&taking->incoming) &&
                       (!taking->unpacker || unpacker_is_whole(taking->unpacker));
    unpacker_destroy(taking->unpacker);
    taking->unpacker = NULL;
    if (mirror && error == 0 && fault_hit("agent.mirror.taken", (int)note->part, note->line))
        image_spoil(taking->incoming.fd);
    if (mirror && taking->is_whole && begin_rooting(taking) == 0)
        return;
    if (mirror && error == 0)
        keep(taking);
    forget(taking);
}

/* Of the image that the copy is, or makes of the one that is here. */
static int begin_rooting(struct mirror_taking *taking)
{
    struct mirror *mirror = taking->mirror;
    const struct job *job = mirror->epoch.job;
    struct belay_error err;
    int base = taking->note.base_line ? store_image(job->store, taking->note.part) : -1;
    taking->rooting = rooting_start(job->agent->loop, taking->incoming.fd, base,
                                    mirror_is_tables(mirror, taking->note.part), on_root, taking, &err);
    return taking->rooting ? 0 : -1;
}

/* Without a root, it is not what it is said to be: the store says why. */
static void on_root(void *context, const struct digest *root, const struct belay_error *err)
{
    struct mirror_taking *taking = context;
    taking->rooting = NULL;
    if (err->code == 0)
        taking->root = *root;
    keep(taking);
    forget(taking);
}

static void keep(struct mirror_taking *taking)
{
    struct mirror *mirror = taking->mirror;
    if (ask_machine(mirror, taking->node, &taking->note) < 0)
        answer(mirror, taking->node, &taking->note, MIRROR_NOTE_REFUSED, errno);
}

static void forget(struct mirror_taking *taking)
{
    struct mirror_taking **at = taking->mirror ? &taking->mirror->takings : NULL;
    while (at && *at != taking)
        at = &(*at)->next;
    if (at)
        *at = taking->next;
    incoming_end(&taking->incoming);
    unpacker_destroy(taking->unpacker);
    free(taking);
}

void mirror_leave_takings(struct mirror *mirror)
{
    while (mirror->takings) {
        struct mirror_taking *taking = mirror->takings;
        mirror->takings = taking->next;
        taking->mirror = NULL; /* the fabric still gives to it, */
        if (taking->rooting) { /* or has given all */
            rooting_cancel(taking->rooting);
            forget(taking);
        }
    }
}

int mirror_admit(struct mirror *mirror, uint64_t line, uint32_t rank)
{
    uint32_t part = mirror->asked ? mirror->asked->part : rank;
    struct mirror_taking *taking = find_taking(mirror, line, part);
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
    const struct mirror_note note = {
        .line = line, .part = part, .root = store_staged_root(mirror->epoch.job->store, line, part)};
    answer(mirror, node, &note, is_held ? MIRROR_NOTE_HELD : MIRROR_NOTE_NEED_BASE, 0);
}
