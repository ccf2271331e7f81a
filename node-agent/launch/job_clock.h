/*
 * job_clock.h - how far the job's clock is ahead of this node's: by it, changes of files that ranks of
 * several hosts have made are put in one order. The job's clock is the arbiter's.
 *
 * Each lease that is given tells when, by the arbiter's clock, which was between the moments, by this node's
 * clock, at which the lease was asked for and the answer came (F. Cristian, "Probabilistic clock
 * synchronization", Distributed Computing 3 (1989), section 4). What follows from several answers is
 * intersected. All clocks are CLOCK_BOOTTIME, in ns. Pure.
 */
#ifndef BELAY_NODE_AGENT_LAUNCH_JOB_CLOCK_H
#define BELAY_NODE_AGENT_LAUNCH_JOB_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct job_clock {
    bool is_known;             /* false: nothing has been learnt */
    int64_t least_ns, most_ns; /* it is ahead by at least, at most so much */
    uint64_t heard_ns;         /* when that was learnt */
};

/*
 * It was given_ns by the arbiter's clock at some time from asked_ns to heard_ns, both by this node's. What
 * cannot be is left out.
 */
void job_clock_learn(struct job_clock *clock, uint64_t asked_ns, uint64_t given_ns, uint64_t heard_ns);

/*
 * How far it is ahead: wrong by half the time of a request and its answer at most. 0 if it may be the same
 * clock, and if nothing is known.
 */
int64_t job_clock_ahead_ns(const struct job_clock *clock);

#endif
