/*
 * sysv.h - segments, semaphores and message queues of System V: noted at a line, put back or made again.
 *
 * These objects outlive the processes that use them. So a restart finds most of them under the same id, and
 * gives them the contents of the line. An object that was removed since is made again, with another id.
 */
#ifndef BELAY_NODE_AGENT_SHARED_SYSV_H
#define BELAY_NODE_AGENT_SHARED_SYSV_H

#include <stdbool.h>

#include "common/util/error.h"
#include "node-agent/shared/made.h"
#include "node-agent/shared/object.h"

/* Fill in record and contents. False: it cannot be read, or is_gone. */
bool sysv_note(struct object *object);

/*
 * Put it back: find the object by record->kernel_id, or make it anew, and give it `contents` (not for
 * segments, which sysv_attach() is for). Sets record->kernel_id. One that is made is noted in `made` (NULL:
 * nowhere) before all else. Returns 0, or -1 with err.
 */
int sysv_renew(struct shared_record *record, const char *contents, struct made_list *made,
               struct belay_error *err);

/*
 * Remove what a rank has made since the line: the object of a kind (enum share_kind) under an id of the
 * kernel's; or the one with a key, if it is ours and not older than `since_ns` (since 1970). Both return 0,
 * also if there is none, or -1 with errno.
 */
int sysv_remove(uint32_t kind, int32_t id);
int sysv_remove_key(uint32_t kind, int32_t key, uint64_t since_ns);

/* The memory of a renewed segment; shmdt() it. NULL with err. */
char *sysv_attach(const struct shared_record *record, struct belay_error *err);

#endif
