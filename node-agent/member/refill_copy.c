/* refill_copy.c - copies and tables of ranks of other nodes that come after a restart: see refill.h. */
#include "node-agent/member/refill_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/image/image.h"
#include "common/image/root.h"
#include "common/image/spoil.h"
#include "common/image/sums.h"
#include "common/util/log.h"
#include "node-agent/job/membership.h"

static int on_bytes(void *context, uint64_t offset, const uint8_t *bytes, size_t count);
static void on_taken(void *context, int error);
static void check_arrival(void *context, uint32_t part);
static void after_check(void *context, bool is_cancelled);
static void keep(struct refill *refill, struct refill_arrival *arrival);

static const struct pool_ops check_ops = {.run = check_arrival, .done = after_check};

static bool is_tables(const struct refill_note *note)
{
    return note->part >= store_tables_part(note->ranks, 0);
}

static bool is_shared(const struct refill_note *note)
{
    return note->part / note->ranks == 1;
}

/* Of a rank whose image is here, the tables are, too. */
static bool is_lacking(const struct refill *refill, uint32_t rank)
{
    const struct store *store = refill->epoch.job->store;
    uint32_t home = refill->set.placement[rank];
    return home != refill->set.own && refill_is_keeper(refill, home, refill->set.own) &&
           store_image_line(store, rank) != refill->line &&
           store_image_line(store, refill_kept_part(refill, rank)) != refill->line;
}

static bool ask(struct refill *refill, uint32_t rank, uint32_t part)
{
    const struct refill_note word = refill_note_of(refill, REFILL_NOTE_WANT, part);
    uint32_t node = refill->set.members[refill->set.placement[rank]];
    if (remotes_say(refill->epoch.remotes, REMOTES_REFILLS, node, &word, sizeof word) < 0)
        return true; /* the link is lost: there is nothing to be had, and another launch comes */
    refill->asked = part;
    refill->asked_of = node;
    return true;
}

bool refill_ask_copy(struct refill *refill)
{
    for (uint32_t rank = 0; rank < refill->epoch.world; rank++)
        if (is_lacking(refill, rank))
            return ask(refill, rank, refill_kept_part(refill, rank));
    return false;
}

void refill_forget_copy(struct refill *refill)
{
    if (refill->arrival) { /* the fabric still gives to it, or a thread looks at it */
        refill->arrival->refill = NULL;
        __atomic_store_n(&refill->arrival->is_dropped, true, __ATOMIC_RELAXED);
    }
    if (refill->pending.fd >= 0)
        close(refill->pending.fd);
    refill->arrival = NULL;
    refill->pending.fd = -1;
    refill->asked = EPOCH_NOBODY;
}

static bool read_tag(const struct refill *refill, const void *bytes, size_t count, struct refill_note *note)
{
    if (count != sizeof *note)
        return false;
    memcpy(note, bytes, sizeof *note);
    return note->magic == REFILL_NOTE_MAGIC && note->kind == REFILL_NOTE_PART &&
           note->epoch == refill->epoch.number && note->ranks == refill->epoch.world &&
           note->line == refill->line;
}

int refill_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                   struct transfer_intake *intake)
{
    struct refill *refill = context;
    const struct job *job = refill->epoch.job;
    struct refill_note note;
    struct belay_error err;
    if (!read_tag(refill, tag, tag_bytes, &note))
        return EPROTO;
    if (refill->asked != note.part || refill->asked_of != node)
        return ECANCELED;
    if (refill->arrival)
        return EALREADY;
    if (bytes > store_room(job->store, job->config->settings->memory_bytes)) {
        refill_give_up(refill, "there is not enough memory for it");
        return ENOMEM;
    }
    struct refill_arrival *arrival = calloc(1, sizeof *arrival);
    if (!arrival || incoming_begin(&arrival->incoming, &err) < 0) {
        free(arrival);
        return ENOMEM;
    }
    arrival->refill = refill;
    arrival->note = note;
    refill->arrival = arrival;
    *intake = (struct transfer_intake){.take = on_bytes, .done = on_taken, .context = arrival};
    return 0;
}

/* In a thread of the fabric's. */
static int on_bytes(void *context, uint64_t offset, const uint8_t *bytes, size_t count)
{
    struct refill_arrival *arrival = context;
    (void)offset;
    if (__atomic_load_n(&arrival->is_dropped, __ATOMIC_RELAXED)) {
        errno = ECANCELED;
        return -1;
    }
    return incoming_take(&arrival->incoming, bytes, count);
}

static void drop(struct refill_arrival *arrival)
{
    incoming_end(&arrival->incoming);
    free(arrival);
}

static void on_taken(void *context, int error)
{
    struct refill_arrival *arrival = context;
    struct refill *refill = arrival->refill;
    arrival->is_whole = error == 0 && incoming_is_whole(&arrival->incoming);
    if (refill && arrival->is_whole &&
        fault_hit("agent.refill.taken", (int)arrival->note.part, arrival->note.line))
        image_spoil(arrival->incoming.fd);
    if (refill && arrival->is_whole && pool_start(refill->epoch.job->agent->loop, 1, &check_ops, arrival))
        return;
    if (refill)
        refill_later(refill);
    drop(arrival);
}

/* In a pool thread: is it what was asked for, and does it fit its sums? */
static void check_arrival(void *context, uint32_t part)
{
    struct refill_arrival *arrival = context;
    const struct refill_note *note = &arrival->note;
    int fd = arrival->incoming.fd;
    struct image_view view;
    (void)part;
    if (image_load(fd, &view, &arrival->err) < 0)
        return;
    const struct image_header *header = view.header;
    bool is_right = header->line == note->line && header->base_line == 0 &&
                    header->rank == (is_tables(note) ? note->part % note->ranks : note->part) &&
                    header->ranks == (is_shared(note) ? 2 * note->ranks : note->ranks);
    arrival->bytes = is_tables(note) ? image_tables_bytes(&view) : header->total_bytes;
    int rc = is_right ? 0 : belay_error_set(&arrival->err, EBADMSG, "what has come is another image");
    if (rc == 0)
        rc = is_tables(note) ? sums_check_tables(&view, &arrival->err)
                             : sums_check(fd, &view, NULL, &arrival->err);
    if (rc == 0)
        rc = (is_tables(note) ? root_of_tables : root_of_image)(fd, -1, &arrival->root, &arrival->err);
    image_unload(&view);
    if (rc == 0)
        arrival->err.code = 0;
}

static bool has_shared_here(const struct refill *refill, uint32_t rank)
{
    const struct store *store = refill->epoch.job->store;
    return store_image_line(store, refill->epoch.world + rank) == refill->line;
}

/* Against what the arbiter told: all of a rank has one root. */
static bool is_committed(const struct refill *refill, const struct refill_arrival *arrival)
{
    const struct epoch_start *start = membership_record(refill->epoch.job->membership);
    uint32_t rank = arrival->note.part % refill->epoch.world;
    struct digest all = arrival->root,
                  shared = store_part_root(refill->epoch.job->store, refill->epoch.world + rank);
    bool is_all = !arrival->note.has_shared || (has_shared_here(refill, rank) && digest_is_known(&shared));
    if (!is_all || !start || !start->roots || start->line != refill->line ||
        !digest_is_known(&start->roots[rank]))
        return true; /* of a rank that shares something: once all of it is there */
    if (refill->pending.fd >= 0)
        all = digest_sum(&all, &refill->pending.root);
    else if (arrival->note.has_shared)
        all = digest_sum(&all, &shared);
    return digest_is_equal(&all, &start->roots[rank]);
}

static void after_check(void *context, bool is_cancelled)
{
    struct refill_arrival *arrival = context;
    struct refill *refill = arrival->refill;
    (void)is_cancelled; /* never */
    if (refill && (arrival->err.code || !is_committed(refill, arrival))) {
        arrival->refill = NULL;
        refill->arrival = NULL;
        refill_give_up(refill, arrival->err.code ? arrival->err.text
                                                 : "what has come is another image than the one that was "
                                                   "committed");
    } else if (refill) {
        refill->arrival = NULL;
        keep(refill, arrival);
    }
    drop(arrival);
    if (refill)
        refill_step(refill);
}

/* What ranks share comes first into the store, so that a rank never counts as held without it. */
static void keep(struct refill *refill, struct refill_arrival *arrival)
{
    struct job *job = refill->epoch.job;
    uint32_t world = refill->epoch.world, rank = arrival->note.part % world;
    struct store_fetched parts[2] = {{.rank = arrival->note.part,
                                      .fd = arrival->incoming.fd,
                                      .bytes = arrival->bytes,
                                      .root = arrival->root}};
    struct belay_error err = {0};
    arrival->incoming.fd = -1;
    refill->asked = EPOCH_NOBODY;
    if (arrival->note.has_shared && !has_shared_here(refill, rank)) {
        refill->pending = parts[0];
        ask(refill, rank, world + rank);
        return;
    }
    uint32_t count = 1;
    if (refill->pending.fd >= 0)
        parts[count++] = refill->pending;
    refill->pending.fd = -1;
    if (store_committed_line(job->store) == refill->line &&
        store_take_images(job->store, refill->line, world, parts, count, &err) == 0) {
        fault_hit("agent.refill.kept", (int)rank, refill->line);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        close(parts[i].fd);
    refill_give_up(refill, err.code ? err.text : "another line has come");
}
