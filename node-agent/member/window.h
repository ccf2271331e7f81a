/*
 * window.h - how long a time before a line counts for what a rank touches after it: equations 1 and 2 of FREM
 * (touched.h).
 *
 * A rank that goes on from a line runs on what it touches first, while the rest of the image comes. If its
 * touched set is that of a window at least as long as the rest takes, it waits for nothing. What it touches
 * grows with the window, so that the least such window follows from the growth that was seen:
 *
 *     1:  t_w >= (image - touched(t_w)) / rate
 *     2:  t_w  = image / (rate + touched_before / t_w_before)
 *
 * Pure: no clock, no descriptor. Times are in seconds, sizes in bytes, rates in bytes per second.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_WINDOW_H
#define BELAY_NODE_AGENT_MEMBER_WINDOW_H

#include <stdint.h>

/* Equation 1: how long the part of an image takes that is not touched. rate > 0. */
double window_enough_s(double image, double touched, double rate);

/* Equation 2: the next window, by what was touched in the one before. rate > 0; before_s > 0. */
double window_next_s(double image, double rate, double touched_before, double before_s);

struct window_request {
    double image; /* its size */
    double rate;  /* at which it comes; 0: not known */
    double cap_s; /* the longest window */
    double (*touched)(void *context, double window_s);
    void *context;
};

/*
 * The window for a line: begins with the time that the whole image takes, and goes on by equation 2 until it
 * stays. Never longer than the cap, which it is if the rate is not known.
 */
double window_choose_s(const struct window_request *request);

#endif
