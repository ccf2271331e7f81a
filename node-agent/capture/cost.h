/*
 * cost.h - what the ways to copy a rank's written memory have cost in its last lines, and which way is the
 * cheapest by that: the choices of the policy `auto`; pure.
 *
 * Of a mapping of which `rest` bytes are left to be copied when the rank stands still, and `present` bytes
 * have content:
 *
 *   copied in the pause:  rest · copy
 *   protected:            FIXED + rest · guard + FAULTS · rest · fault + BACKGROUND · present · copy
 *
 * copy, guard and fault are what a byte has cost: its copy in a pause, its protection in a pause, and waits
 * of writers for copies. A mapping that is protected counts as written at the next line, so all of it is
 * copied then, in the background. A pause stops all ranks, a fault one thread, and copies in the background
 * take a processor: hence the weights.
 *
 * Copying ahead is worth while if a byte so copied, in the background, saves more than it costs in the pause:
 * if the share of these copies that are still right in the pause (the yield) is more than BACKGROUND. While
 * it is not, one line in COST_TRIAL_LINES tries again.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_COST_H
#define BELAY_NODE_AGENT_CAPTURE_COST_H

#include <stdbool.h>
#include <stdint.h>

#define COST_TRIAL_LINES 8u

struct cost {
    double copy_ns, guard_ns, fault_ns; /* for a byte */
    double yield;                       /* 0 to 1 */
    unsigned idle_lines;                /* since something was copied ahead */
};

/* What is believed before anything was measured. */
void cost_init(struct cost *cost);

/*
 * In a pause so many bytes were copied, or protected, in so long. A small number tells nothing: then the
 * belief comes nearer to what is usual.
 */
void cost_note_copied(struct cost *cost, uint64_t bytes, uint64_t ns);
void cost_note_guarded(struct cost *cost, uint64_t bytes, uint64_t ns);
/* Of so many protected bytes writers waited for copies, all together for so long. */
void cost_note_faults(struct cost *cost, uint64_t guarded_bytes, uint64_t ns);
/* So many bytes were copied ahead, and so many of them were right in the pause. 0 ahead: nothing was copied.
 */
void cost_note_ahead(struct cost *cost, uint64_t ahead_bytes, uint64_t right_bytes);

/* What both ways cost, in weighted nanoseconds. */
struct cost_ways {
    double copied_ns, guarded_ns;
};
struct cost_ways cost_of(const struct cost *cost, uint64_t rest_bytes, uint64_t present_bytes);
bool cost_is_guarding_cheaper(const struct cost *cost, uint64_t rest_bytes, uint64_t present_bytes);
bool cost_is_ahead_worth(const struct cost *cost);

/* What the model expects of a pause in which so many bytes are copied and so many are protected, in ns. */
double cost_pause_ns(const struct cost *cost, uint64_t copied_bytes, uint64_t guarded_bytes);

#endif
