#include "node-agent/launch/job_clock.h"

#define DRIFT_PPM 50 /* by which two clocks may run apart */

/* What was learnt earlier holds a little less exactly now. */
static void age(struct job_clock *clock, uint64_t now_ns)
{
    uint64_t passed_ns = now_ns > clock->heard_ns ? now_ns - clock->heard_ns : 0;
    int64_t drift_ns = (int64_t)(passed_ns / 1000000 * DRIFT_PPM);
    clock->least_ns -= drift_ns;
    clock->most_ns += drift_ns;
}

void job_clock_learn(struct job_clock *clock, uint64_t asked_ns, uint64_t given_ns, uint64_t heard_ns)
{
    if (asked_ns > heard_ns || heard_ns > INT64_MAX || given_ns > INT64_MAX)
        return;
    int64_t least_ns = (int64_t)given_ns - (int64_t)heard_ns, most_ns = (int64_t)given_ns - (int64_t)asked_ns;
    age(clock, heard_ns);
    bool was_set = !clock->is_known || most_ns < clock->least_ns || least_ns > clock->most_ns;
    if (was_set || least_ns > clock->least_ns)
        clock->least_ns = least_ns;
    if (was_set || most_ns < clock->most_ns)
        clock->most_ns = most_ns;
    clock->heard_ns = heard_ns;
    clock->is_known = true;
}

int64_t job_clock_ahead_ns(const struct job_clock *clock)
{
    if (!clock->is_known || (clock->least_ns <= 0 && clock->most_ns >= 0))
        return 0;
    return clock->least_ns + (clock->most_ns - clock->least_ns) / 2;
}
