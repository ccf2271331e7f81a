/*
 * scrub.h - compares the images that a node holds with their sums, now and then, while the job runs: what has
 * been damaged in memory is found before it is needed.
 *
 * One image after the other, by one thread of the pool, and only while nothing changes images or captures
 * memory: whoever is about to do so calls scrub_rest() first.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_SCRUB_H
#define BELAY_NODE_AGENT_MEMBER_SCRUB_H

#include <stdint.h>
#include <uv.h>

#include "node-agent/store/store.h"

struct scrub;

/* The committed image of a part is damaged, as err tells. Called from the loop, which is to note it. */
typedef void scrub_damaged_f(void *context, uint32_t part, const struct belay_error *err);

/* All images once in interval_ms (0: never). It rests. NULL with ENOMEM. */
struct scrub *scrub_create(uv_loop_t *loop, struct store *store, uint64_t interval_ms,
                           scrub_damaged_f *damaged, void *context);
/* Accepts NULL. */
void scrub_destroy(struct scrub *scrub);

/* Images stand still, and nobody waits for the pool. */
void scrub_go_on(struct scrub *scrub);
/* Returns when no image is read any more, within about a millisecond. The round goes on where it was. */
void scrub_rest(struct scrub *scrub);

#endif
