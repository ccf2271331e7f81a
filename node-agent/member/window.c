#include "node-agent/member/window.h"

#define ROUNDS_MAX 8     /* it may swing between two values for ever */
#define CLOSE_ENOUGH .02 /* of the window: it stays */

double window_enough_s(double image, double touched, double rate)
{
    return touched < image ? (image - touched) / rate : 0;
}

double window_next_s(double image, double rate, double touched_before, double before_s)
{
    return image / (rate + touched_before / before_s);
}

static double at_most(double one, double other)
{
    return one < other ? one : other;
}

double window_choose_s(const struct window_request *request)
{
    if (!(request->rate > 0) || !(request->image > 0))
        return request->cap_s;
    double window = at_most(request->image / request->rate, request->cap_s);
    for (int i = 0; i < ROUNDS_MAX && window > 0; i++) {
        double touched = request->touched(request->context, window);
        double next = at_most(window_next_s(request->image, request->rate, touched, window), request->cap_s);
        double change = next > window ? next - window : window - next;
        window = next;
        if (change <= CLOSE_ENOUGH * window)
            break;
    }
    return window;
}
