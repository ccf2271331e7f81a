/*
 * mirror.h - the standard streams of a job's ranks on another host (common/wire/streams.h), as they are on
 * both sides of a session.
 *
 * The agent's memory is on the host, where its ranks write: the relay there has a *tap* on it, which reads
 * the rings as the arbiter would. The gatherer has a *mirror*: memory of the same form, which the arbiter
 * reads. The tap sends what ranks have written, the mirror what the arbiter has taken; a ring is never
 * further ahead of what was taken than it is large, so what comes has room. Where the arbiter changes how far
 * a rank is (it has run elsewhere), and what it keeps of the standard input, goes from the mirror to the tap.
 *
 *   OUTPUT  rank, stream, end, from, bytes of the ring from there to the end; end as struct stream_end
 *   HEAD    ranks, input_epoch, is_other_told, input_from
 *   TAKEN   rank, stream, bytes
 *   SLOT    rank, stream, end, taken
 *   INPUT   offset, has_ended, bytes
 */
#ifndef BELAY_RELAY_MIRROR_H
#define BELAY_RELAY_MIRROR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"
#include "relay/session.h"

struct tap;

/* For the descriptors of the agent, taken over also on failure. NULL with err. */
struct tap *tap_create(const int fds[2], struct belay_error *err);
/* Accepts NULL. */
void tap_destroy(struct tap *tap);
/* Readable after tap_look() if there may be more to look at. */
int tap_fd(const struct tap *tap);
/* The state as it is, first of all: input, streams, head. Returns 0 or -1 with err. */
int tap_send_all(struct tap *tap, struct session *session, struct belay_error *err);
/* Send what is new. Returns 0 or -1 with err. */
int tap_look(struct tap *tap, struct session *session, struct belay_error *err);
/* TAKEN, SLOT or INPUT has come. Returns 0, or -1 with err (EPROTO). */
int tap_take(struct tap *tap, const struct record *record, struct belay_error *err);

struct mirror;

/* New memory. NULL with err. */
struct mirror *mirror_create(struct belay_error *err);
/* Accepts NULL. */
void mirror_destroy(struct mirror *mirror);
/* The memory and what wakes its reader, for the arbiter. */
const int *mirror_fds(const struct mirror *mirror);
/* OUTPUT, HEAD or INPUT has come. Returns 0, or -1 with err (EPROTO). */
int mirror_take(struct mirror *mirror, const struct record *record, struct belay_error *err);
/* Send what has been taken since, and input. *is_waiting: not all has been taken. Returns 0 or -1 with err.
 */
int mirror_look(struct mirror *mirror, struct session *session, bool *is_waiting, struct belay_error *err);
/* Send how far ranks are, where the arbiter has changed that: of so many, at least. Returns 0 or -1 with err.
 */
int mirror_push(struct mirror *mirror, struct session *session, uint32_t ranks, struct belay_error *err);

#endif
