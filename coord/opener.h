/*
 * opener.h - opens the epochs of one job: runs its arbiter's machine (arbiter.h), and has what it decides
 * recorded and told, in the order that docs/line.md gives. Whoever is the arbiter of a job uses it: `belay
 * run` for the nodes that it has agents on, or an agent whose ranks came without one.
 *
 * How messages travel and where the record lies is the caller's, in callbacks. The questions to all nodes are
 * sent before the first answer is waited for, and so are the decisions. For nodes that need no lease
 * (arbiter_settings.lease_us is 0) and all answer; repeat_us and collect_us are not used.
 */
#ifndef BELAY_COORD_OPENER_H
#define BELAY_COORD_OPENER_H

#include <stdint.h>

#include "coord/arbiter.h"
#include "coord/epoch.h"

struct opener;

/* Each returns 0, or -1 with errno, which ends the opening: it may be begun again. */
struct opener_ops {
    int (*ask)(void *context, uint32_t node, uint32_t epoch);
    /* Wait for the answer to ask(); *state and what it borrows stay valid until the next hear(). */
    int (*hear)(void *context, uint32_t node, uint32_t epoch, struct epoch_state *state);
    /* Durable when 0 is returned; nobody has been told. */
    int (*record)(void *context, const struct epoch_start *start);
    int (*tell)(void *context, uint32_t node, const struct epoch_start *start);
    /* Wait until a node that has been told has entered the epoch. */
    int (*entered)(void *context, uint32_t node, const struct epoch_start *start);
    /* A node is to know where the ranks of its epoch have come up. */
    int (*placed)(void *context, uint32_t node, const struct epoch_start *start);
};

/*
 * record: the arbiter's, of the newest epoch; NULL: none. Both are copied, ops are borrowed. NULL with ENOMEM
 * or EINVAL.
 */
struct opener *opener_create(const struct arbiter_settings *settings, const struct epoch_start *record,
                             const struct opener_ops *ops, void *context);
/* Accepts NULL. */
void opener_destroy(struct opener *opener);

/*
 * Open the next epoch. Returns 0 once all its members have entered it, or -1 with errno: a callback's,
 * ENOMEM, or ENODATA if what the nodes hold is not enough (opener_wants() says what is missing).
 */
int opener_open(struct opener *opener);

/* Where the ranks are that came up by themselves, by rank the index of a member. Returns 0 or -1 with errno.
 */
int opener_place(struct opener *opener, uint32_t rank_count, const uint32_t *placement);

/* The newest epoch, NULL: none. Valid until the next opener_open() or opener_place(). */
const struct epoch_start *opener_record(const struct opener *opener);
enum arbiter_want opener_wants(const struct opener *opener);

#endif
