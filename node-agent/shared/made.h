/*
 * made.h - which System V objects the restarts of a job have made: written, as soon as an object is there,
 * into memory that the keeper holds. So the next agent makes no others if this one is killed before it has
 * recorded the restart.
 *
 * An agent that is killed between the system call that makes an object and the next few instructions leaves
 * an object that no agent knows, unless the object has a key.
 */
#ifndef BELAY_NODE_AGENT_SHARED_MADE_H
#define BELAY_NODE_AGENT_SHARED_MADE_H

#include <stdint.h>

#include "common/util/error.h"

#define MADE_IDS_MAX 65536u

/* An object of System V whose id is not the kernel's any more. */
struct renewed_id {
    uint32_t kind; /* enum shared_kind */
    int32_t id, kernel_id;
};

/* The memory, mapped: one entry for each id that the program knows. */
struct made_list;

/* New memory for a list, which the caller owns. -1 with err. */
int made_list_make_memory(struct belay_error *err);
/* Map it; the descriptor stays the caller's. NULL with err (EPROTO: it is no such memory). */
struct made_list *made_list_map(int fd, struct belay_error *err);
/* Accepts NULL. */
void made_list_unmap(struct made_list *list);

/* The object that the program knows by `id` is `kernel_id` now. From any one thread; a full list takes no
 * more. Accepts NULL. */
void made_list_note(struct made_list *list, const struct renewed_id *made);
/* All entries (borrowed) and their number. */
uint32_t made_list_read(const struct made_list *list, const struct renewed_id **ids);

#endif
