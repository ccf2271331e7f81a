/*
 * notes.h - what ranks that stand still have noted of the things that they may share (common/wire/shares.h).
 */
#ifndef BELAY_NODE_AGENT_SHARED_NOTES_H
#define BELAY_NODE_AGENT_SHARED_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/wire/shares.h"
#include "node-agent/capture/maps.h"

/* A rank that stands still. */
struct shared_rank {
    pid_t pid;
    const struct maps *maps;
    uint64_t notes_address; /* struct share_note[notes_count] in its memory */
    uint32_t notes_count;
    uint32_t number; /* in the world */
};

/* The rank's notes, which the caller frees; NULL with errno (0: there are none). */
struct share_note *notes_read(const struct shared_rank *rank);

/* Does any pipe, eventfd or file without a name belong to several ranks? */
bool notes_meet(const struct shared_rank *ranks, uint32_t count);

/*
 * A process of a rank that a restart could not do without: a thread waits for it, it is a part of the
 * program, or it has begun since the line before, and may end soon. As a line for a person. False: there is
 * none.
 */
bool notes_find_needed_child(const struct shared_rank *ranks, uint32_t count, char *text, size_t text_bytes);

/* The first thing that a restart will not bring back, as a line for a person. False: there is none. */
bool notes_find_lost(const struct shared_rank *ranks, uint32_t count, char *text, size_t text_bytes);

#endif
