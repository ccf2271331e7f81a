#include "node-agent/capture/cost.h"

#define FIXED_NS 200e3        /* to protect anything: registration, scans */
#define FAULTS 0.25           /* weight of a writer's wait */
#define BACKGROUND 0.125      /* weight of a processor's time while the rank runs */
#define LEAST_BYTES (1 << 20) /* of less, the time says nothing of a byte */
#define FRESH 0.5             /* weight of the newest line among all */
#define FADING 0.125          /* the same of what is usual, at a line that measures nothing */

static const struct cost usual = {.copy_ns = 0.1, .guard_ns = 0.01, .fault_ns = 0.1, .yield = 1};

void cost_init(struct cost *cost)
{
    *cost = usual;
}

static void follow(double *value, double newest, double weight)
{
    *value += weight * (newest - *value);
}

/* What is not measured any more comes to be believed less: else a way that was once slow would never be
 * tried. */
static void note(double *value, uint64_t bytes, double ns, double usual_ns)
{
    if (bytes >= LEAST_BYTES)
        follow(value, ns > 0 ? ns / (double)bytes : 0, FRESH);
    else
        follow(value, usual_ns, FADING);
}

void cost_note_copied(struct cost *cost, uint64_t bytes, uint64_t ns)
{
    note(&cost->copy_ns, bytes, (double)ns, usual.copy_ns);
}

void cost_note_guarded(struct cost *cost, uint64_t bytes, uint64_t ns)
{
    note(&cost->guard_ns, bytes, (double)ns - FIXED_NS, usual.guard_ns);
}

void cost_note_faults(struct cost *cost, uint64_t guarded_bytes, uint64_t ns)
{
    note(&cost->fault_ns, guarded_bytes, (double)ns, usual.fault_ns);
}

void cost_note_ahead(struct cost *cost, uint64_t ahead_bytes, uint64_t right_bytes)
{
    cost->idle_lines = ahead_bytes > 0 ? 0 : cost->idle_lines + 1;
    if (ahead_bytes >= LEAST_BYTES)
        follow(&cost->yield, right_bytes < ahead_bytes ? (double)right_bytes / (double)ahead_bytes : 1,
               FRESH);
}

struct cost_ways cost_of(const struct cost *cost, uint64_t rest_bytes, uint64_t present_bytes)
{
    double rest = (double)rest_bytes;
    return (struct cost_ways){
        .copied_ns = rest * cost->copy_ns,
        .guarded_ns = FIXED_NS + rest * (cost->guard_ns + FAULTS * cost->fault_ns) +
                      BACKGROUND * (double)present_bytes * cost->copy_ns,
    };
}

bool cost_is_guarding_cheaper(const struct cost *cost, uint64_t rest_bytes, uint64_t present_bytes)
{
    struct cost_ways ways = cost_of(cost, rest_bytes, present_bytes);
    return ways.guarded_ns < ways.copied_ns;
}

bool cost_is_ahead_worth(const struct cost *cost)
{
    return cost->yield > BACKGROUND || cost->idle_lines + 1 >= COST_TRIAL_LINES;
}

double cost_pause_ns(const struct cost *cost, uint64_t copied_bytes, uint64_t guarded_bytes)
{
    double guarded = guarded_bytes > 0 ? FIXED_NS + (double)guarded_bytes * cost->guard_ns : 0;
    return (double)copied_bytes * cost->copy_ns + guarded;
}
