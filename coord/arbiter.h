/*
 * arbiter.h - the arbiter of one job: it alone opens epochs, grants leases, and chooses the line that is
 * restored.
 *
 * Pure: events in, actions out. Times are microseconds of the arbiter's own monotonic clock and come with
 * each event; they are never compared with another node's. No socket, thread or output, and no memory that
 * outlives arbiter_destroy(). Whoever runs it carries messages, keeps the record and steps it at
 * arbiter_wake_us(). Messages may be lost, late or doubled: everything is repeated until it is answered.
 *
 * An epoch e ends with trouble. Then, in this order (docs/line.md, "Epochs and the lease"):
 *
 * - INQUIRING: no lease is granted any more; every node is asked about epoch e+1 and promises, by its answer,
 *   that it has stopped its ranks and serves nothing older.
 * - The decision, when all members of e have answered or their leases have run out: which line is restored,
 *   who is a member, where ranks run.
 * - RECORD: the decision is durable.
 * - START: it is told; members take leases.
 *
 * Leases follow C. G. Gray and D. R. Cheriton, Leases: an efficient fault-tolerant mechanism for distributed
 * file cache consistency, SOSP 1989; the promise is that of L. Lamport, Paxos made simple, SIGACT News 32,
 * 2001.
 */
#ifndef BELAY_COORD_ARBITER_H
#define BELAY_COORD_ARBITER_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/arbiter_types.h"
#include "coord/spread.h"

/*
 * record: the newest record of an earlier arbiter of the job; NULL: there is none. Both are copied. Returns
 * NULL with errno ENOMEM or EINVAL.
 */
struct arbiter *arbiter_create(const struct arbiter_settings *settings, const struct epoch_start *record,
                               arbiter_action_f emit, void *context);
/* Accepts NULL. */
void arbiter_destroy(struct arbiter *arbiter);

/*
 * Take one event. An event that does not fit (another epoch or incarnation, an answer that is not awaited) is
 * ignored. Returns 0, or -1 with ENOMEM, EINVAL (a number out of range), or RECORD's errno; the arbiter then
 * asks its questions again.
 */
int arbiter_step(struct arbiter *arbiter, const struct arbiter_event *event);

/* When a TICK is due at the latest, UINT64_MAX: never. Changes with each step. */
uint64_t arbiter_wake_us(const struct arbiter *arbiter);
/* When the leases of all members are over that are silent (ARBITER_EVENT_SILENT); 0: there is none. */
uint64_t arbiter_lapse_us(const struct arbiter *arbiter);
/* When the node was given its last lease, as far as is known. */
uint64_t arbiter_granted_us(const struct arbiter *arbiter, uint32_t node);
/* The newest epoch, NULL: none yet. Valid until the next step. */
const struct epoch_start *arbiter_record(const struct arbiter *arbiter);
/* Whether an inquiry is under way. */
bool arbiter_is_inquiring(const struct arbiter *arbiter);
/* What the inquiry waits for. */
enum arbiter_want arbiter_wants(const struct arbiter *arbiter);
/* Of ARBITER_WANT_ROOM: the rank for which there is no memory. Valid until the next step. */
const struct spread_lack *arbiter_lack(const struct arbiter *arbiter);
/* Whether all nodes that are not gone have answered, and only a node that comes back can bring what is
 * missing. */
bool arbiter_is_stuck(const struct arbiter *arbiter);

/*
 * Whether any one member of the newest epoch may be lost, by what nodes have told when it was opened: others
 * have the images of its ranks, or can make them again. True without a line.
 */
bool arbiter_is_covered(struct arbiter *arbiter);

/* What the newest inquiry has found to be other images than the committed ones, and left aside. Returns how
 * many; valid until the next step. */
uint32_t arbiter_refusals(const struct arbiter *arbiter, const struct arbiter_refusal **refusals);

#endif
