/*
 * opener.h - opens the epochs of one job: runs the arbiter's machine (arbiter.h), and records and tells its
 * decisions in the order that docs/line.md gives. `belay run` uses it for the nodes on which its job has
 * agents; an agent uses it for a job whose ranks came without `belay run`.
 *
 * The caller's callbacks carry the messages and keep the record. The questions to all nodes are sent before
 * the opener waits for the first answer, and so are the decisions. When a step fails, the answers of the
 * other nodes that were asked or told are still waited for: nothing of this opening comes later. The opener
 * serves nodes that all answer but for those that are lost; it does not use repeat_us and collect_us. If
 * nodes need leases, it waits for the end of the leases of those that are lost, and another thread may have
 * leases renewed by opener_renew() at any time.
 */
#ifndef BELAY_COORD_OPENER_H
#define BELAY_COORD_OPENER_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/arbiter.h"
#include "coord/epoch.h"

struct opener;

/* Each returns 0, or -1 with errno: the opening fails with the first, and may be begun again. */
struct opener_ops {
    int (*ask)(void *context, uint32_t node, uint32_t epoch);
    /* Wait for the answer to ask(); *state and what it borrows stay valid until the next hear(). */
    int (*hear)(void *context, uint32_t node, uint32_t epoch, struct epoch_state *state);
    /* The record is durable when 0 is returned. No node has been told yet. */
    int (*record)(void *context, const struct epoch_start *start);
    int (*tell)(void *context, uint32_t node, const struct epoch_start *start);
    /* Wait until a node that has been told has entered the epoch. */
    int (*entered)(void *context, uint32_t node, const struct epoch_start *start);
    /* Tell a node where the ranks of its epoch have come up. */
    int (*placed)(void *context, uint32_t node, const struct epoch_start *start);
    /* The following are for leases (arbiter_settings.lease_us > 0), and else NULL. */
    uint64_t (*now_us)(void *context);
    void (*wait)(void *context, uint64_t until_us);
    void (*grant)(void *context, uint32_t node, uint32_t epoch, uint64_t asked_us);
    /* Around each use of the machine: another thread may renew leases. */
    void (*lock)(void *context, bool is_taken);
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
/*
 * The node has lost its memory: epochs are opened without it from now on. If nodes need leases, the next one
 * is not opened before its lease is over, since its ranks may run until then.
 */
void opener_lose(struct opener *opener, uint32_t node);
/* It is there again, with nothing in its memory: from the next opening on it is asked. */
void opener_regain(struct opener *opener, uint32_t node);

/*
 * Record and tell where the ranks of a first launch have come up; placement: by rank, the index of a member.
 * Returns 0 or -1 with errno.
 */
int opener_place(struct opener *opener, uint32_t rank_count, const uint32_t *placement);

/* A member asks for its lease; from any thread. */
void opener_renew(struct opener *opener, uint32_t node, uint32_t epoch, uint64_t incarnation,
                  uint64_t asked_us);
/* When the node was given its last lease. */
uint64_t opener_granted_us(const struct opener *opener, uint32_t node);

/* The newest epoch, NULL: none. Valid until the next opener_open() or opener_place(). */
const struct epoch_start *opener_record(const struct opener *opener);
/* What the last opener_open() lacked. */
enum arbiter_want opener_wants(const struct opener *opener);
/* If it lacked room: the rank for which there is no memory. Valid until the next opening. */
const struct spread_lack *opener_lack(const struct opener *opener);

/* See arbiter_is_covered(). */
bool opener_is_covered(struct opener *opener);
/* See arbiter_refusals(). */
uint32_t opener_refusals(const struct opener *opener, const struct arbiter_refusal **refusals);

#endif
