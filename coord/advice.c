/* advice.c - see advice.h. */
#include "coord/advice.h"

#include <math.h>

#define FIRST_INTERVAL_MS 10000.0
#define FIRST_PART 0.05     /* ... but no longer than this part of the MTBF */
#define WEIGHT 0.25         /* of the newest line in the averages */
#define MIN_COST_MS 0.01    /* clocks tell no less */
#define LENGTHS_BETWEEN 2.0 /* a line in progress at most half of the time */
#define SHORTEST_RETRY_MS 50
#define WHOLE_FAILURES 5 /* in a row, after which the interval is waited for */

double advice_optimum_ms(double cost_ms, double mtbf_ms)
{
    double ratio = cost_ms / (2 * mtbf_ms);
    if (ratio >= 1)
        return mtbf_ms;
    return sqrt(2 * cost_ms * mtbf_ms) * (1 + sqrt(ratio) / 3 + ratio / 9) - cost_ms;
}

static double smooth(double average, double value, uint32_t values)
{
    double weight = values ? WEIGHT : 1;
    return average + weight * (value - average);
}

void advice_learn(struct advice *advice, double cost_ms, double length_ms)
{
    cost_ms = cost_ms > MIN_COST_MS ? cost_ms : MIN_COST_MS;
    advice->cost_ms = smooth(advice->cost_ms, cost_ms, advice->lines);
    advice->length_ms = smooth(advice->length_ms, length_ms, advice->lines);
    advice->lines++;
}

static double at_least(double value, double least)
{
    return value > least ? value : least;
}

static double choose(const struct advice *advice, const struct advice_limits *limits)
{
    if (!advice->lines)
        return fmin(FIRST_INTERVAL_MS, FIRST_PART * limits->mtbf_ms);
    double cycle = advice_optimum_ms(advice->cost_ms, limits->mtbf_ms) + advice->cost_ms;
    cycle = at_least(cycle, advice->cost_ms / (1 - limits->min_duty));
    return at_least(cycle, LENGTHS_BETWEEN * advice->length_ms);
}

uint64_t advice_interval_ms(const struct advice *advice, const struct advice_limits *limits)
{
    double interval = at_least(choose(advice, limits), (double)limits->shortest_ms);
    return interval < (double)limits->longest_ms ? (uint64_t)interval : limits->longest_ms;
}

uint64_t advice_next_ms(uint64_t interval_ms, uint64_t age_ms, double pause_ms)
{
    uint64_t left_ms = interval_ms > age_ms ? interval_ms - age_ms : 1, least_ms = (uint64_t)pause_ms;
    return left_ms > least_ms ? left_ms : least_ms;
}

uint64_t advice_retry_ms(uint64_t interval_ms, unsigned failures, uint64_t age_ms)
{
    uint64_t part_ms = failures < WHOLE_FAILURES ? interval_ms >> (WHOLE_FAILURES - failures) : interval_ms;
    uint64_t least_ms = interval_ms < SHORTEST_RETRY_MS ? interval_ms : SHORTEST_RETRY_MS;
    if (least_ms < age_ms)
        least_ms = age_ms;
    if (part_ms < least_ms)
        part_ms = least_ms;
    return part_ms ? part_ms : 1;
}
