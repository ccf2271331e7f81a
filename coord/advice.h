/*
 * advice.h - how often a line is worth its cost: the interval that wastes the least time.
 *
 * A line costs the application time; a longer interval loses more work with each failure. The optimum for a
 * mean time between failures (MTBF) is Daly's higher-order estimate: J. T. Daly, "A higher order estimate of
 * the optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22 (2006), section
 * 5, eq. 37; its first term is J. W. Young's, "A first order approximation to the optimum checkpoint
 * interval", Communications of the ACM 17 (1974). All times are in milliseconds.
 */
#ifndef BELAY_COORD_ADVICE_H
#define BELAY_COORD_ADVICE_H

#include <stdint.h>

struct advice_limits {
    double mtbf_ms;
    double min_duty; /* part of the time, 0 to < 1, in which no line holds the application up, at least */
    uint64_t shortest_ms, longest_ms; /* of the intervals to choose from */
};

/* What is known of the lines of a job. A zeroed struct knows nothing. */
struct advice {
    uint32_t lines;   /* measured so far */
    double cost_ms;   /* of a line to the application, smoothed */
    double length_ms; /* from strobe to commit, smoothed */
};

/* Daly's optimum: work between two lines. cost_ms > 0, mtbf_ms > 0. */
double advice_optimum_ms(double cost_ms, double mtbf_ms);

/*
 * A line has committed: it held the application up for cost_ms and was in progress for length_ms. Later lines
 * count more than earlier ones, so that the advice follows a program that changes.
 */
void advice_learn(struct advice *advice, double cost_ms, double length_ms);

/*
 * From the request of one line to that of the next. Never so short that lines take more than 1 - min_duty of
 * the time, or are in progress for more than half of it. Before the first line is measured: short, since only
 * a line can tell what a line costs.
 */
uint64_t advice_interval_ms(const struct advice *advice, const struct advice_limits *limits);

/*
 * From now to the request of the next line: the last one was asked for age_ms ago and stopped the application
 * for pause_ms. Where lines are slow, a short interval would leave the application hardly any time: it gets
 * at least as long as the pause was. Never 0.
 */
uint64_t advice_next_ms(uint64_t interval_ms, uint64_t age_ms, double pause_ms);

/*
 * From now to the request of the next line after `failures` in a row that were aborted, of which the last was
 * asked for age_ms ago. What has kept a line from being taken is often soon over, as a command that a rank
 * waits for: a sixteenth of the interval, then twice as long after each other one, up to the whole. No less
 * than the line has taken. Never 0.
 */
uint64_t advice_retry_ms(uint64_t interval_ms, unsigned failures, uint64_t age_ms);

#endif
