/*
 * check.h - the invariants. They see the whole world; the first violation of a seed is kept and ends it.
 */
#ifndef BELAY_TESTS_SIM_CHECK_H
#define BELAY_TESTS_SIM_CHECK_H

#include "tests/sim/world.h"

/* A rank executes something: no newer epoch may be running. */
void check_step(struct world *world, const struct run *run, uint32_t rank);
/* A rank truly enters a collective: not between convergence and its own capture. */
void check_entry(struct world *world, const struct run *run, uint32_t rank);
/* A message is sent: a step executed again sends what it sent before. */
void check_payload(struct world *world, uint32_t msg, uint64_t payload);
/* Have all ranks reached the end, with the result of an undisturbed run? Then the program is finished. */
void check_finished(struct world *world, struct run *run);

/* The coordinator has said STOP: everybody is at target, nobody inside. */
void check_converged(struct world *world, const struct run *run);
/* A synchronous send is complete for its sender. */
void check_received(struct world *world, const struct run *run, uint32_t msg);
/* The coordinator has said CAPTURE: all parked, nothing in transit. Keeps the truth about the line. */
void check_quiescent(struct world *world, const struct run *run, uint64_t line, const struct agent *agent);
/* A line counts as committed: an agent has recorded it, a requester was told, the arbiter decided so. */
void check_committed(struct world *world, uint64_t line);
/* An image has taken in a committed line. */
void check_image(struct world *world, uint32_t rank, const struct image *image);
/* A rank starts from an image. */
void check_restored(struct world *world, uint32_t rank, const struct image *image);
/* An epoch is opened with this line. */
void check_opened(struct world *world, const struct epoch_start *start);
/* A requester is answered. */
void check_answer(struct world *world, uint64_t token, bool is_committed, uint64_t line);
/* Memory was lost, or a line committed: what the scheme promises to survive is still there. */
void check_restorable(struct world *world);
/* Now and then: without faults something moves. */
void check_progress(struct world *world);
/* The arbiter has heard all nodes and can restore nothing. */
bool check_is_stuck(const struct world *world);
/* It is stuck: more must have been lost than the scheme survives. */
void check_stuck(struct world *world);
/* The line that the coordinator of the newest epoch is at, 0: none. */
uint64_t check_line(const struct world *world);

/* What a node's memory truly holds of a rank. */
struct holding check_holding(const struct keeper *keeper, uint32_t rank);

/* Parity of a slot is that of the images of its line. */
void check_parity(struct world *world, uint32_t slot, const struct parity_image *image);

#endif
