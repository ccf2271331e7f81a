#include "node-agent/member/mirror_state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node-agent/job/membership.h"

static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count);
static void on_lost(void *context, uint32_t node);

static const struct remotes_ops remotes_ops = {.word = on_word, .offered = mirror_offered, .lost = on_lost};

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
    packing_parse(epoch->job->config->settings->compress, &mirror->packing);
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
    mirror_leave_takings(mirror);
    remotes_hear(mirror->epoch.remotes, REMOTES_COPIES, NULL, NULL);
    free(mirror->members);
    free(mirror->placement);
    free(mirror);
}

bool mirror_is_keeper(const struct mirror *mirror, uint32_t home, uint32_t index)
{
    const struct mirror_epoch *epoch = &mirror->epoch;
    return epoch->scheme == SCHEME_PARITY
               ? parity_is_keeper(epoch->code, epoch->member_count, home, index)
               : scheme_partner(SCHEME_PARTNER, home, epoch->member_count) == index;
}

uint32_t mirror_rank_of(const struct mirror *mirror, uint32_t part)
{
    return part % mirror->epoch.world;
}

bool mirror_is_tables(const struct mirror *mirror, uint32_t part)
{
    return part >= store_tables_part(mirror->epoch.world, 0);
}

static uint32_t index_of(const struct mirror *mirror, uint32_t node)
{
    for (uint32_t i = 0; i < mirror->epoch.member_count; i++)
        if (mirror->members[i] == node)
            return i;
    return EPOCH_NOBODY;
}

bool mirror_read_note(const struct mirror *mirror, const void *bytes, size_t count, struct mirror_note *note)
{
    if (count != sizeof *note)
        return false;
    memcpy(note, bytes, sizeof *note);
    return note->magic == MIRROR_NOTE_MAGIC && note->epoch == mirror->epoch.number &&
           note->ranks == mirror->epoch.world && note->part / STORE_PARTS < note->ranks &&
           note->part / note->ranks != 2; /* parity does not go from node to node */
}

/* The partner's word about a copy of ours. */
static void on_word(void *context, uint32_t node, const uint8_t *bytes, size_t count)
{
    struct mirror *mirror = context;
    struct membership *membership = mirror->epoch.job->membership;
    uint32_t member = index_of(mirror, node);
    struct mirror_note note;
    if (!mirror_read_note(mirror, bytes, count, &note) ||
        mirror->placement[mirror_rank_of(mirror, note.part)] != mirror->own ||
        !mirror_is_keeper(mirror, mirror->own, member) || note.line != membership_line(membership))
        return;
    mirror_hear_keeper(mirror, node, member, &note);
}

/* What was sent may not have arrived, and no word of it will come. */
static void on_lost(void *context, uint32_t node)
{
    struct mirror *mirror = context;
    uint64_t line = membership_line(mirror->epoch.job->membership);
    char text[64];
    if (line == 0 || !mirror_is_keeper(mirror, mirror->own, index_of(mirror, node)))
        return;
    snprintf(text, sizeof text, "the link to node %" PRIu32 " is lost", node);
    mirror->failed(mirror->context, line, text, false);
}
