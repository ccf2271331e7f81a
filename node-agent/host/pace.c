/* pace.c - see pace.h. The interval in use stands in the job's configuration, for all to see. */
#include "node-agent/host/pace.h"

#define SHORTEST_MS 50
#define LONGEST_MS (24ull * 3600 * 1000)

int pace_create(struct pace *pace, struct job *job, timer_f ask, void *context)
{
    pace->timer = timer_new(job->agent->loop, ask, context);
    return pace->timer ? 0 : -1;
}

void pace_destroy(struct pace *pace)
{
    timer_destroy(pace->timer);
}

static void choose(const struct pace *pace, Belay__Wire__JobSettings *settings)
{
    struct advice_limits limits = {.mtbf_ms = (double)settings->mtbf_ms,
                                   .min_duty = settings->duty_cycle / 100.0,
                                   .shortest_ms = SHORTEST_MS,
                                   .longest_ms = LONGEST_MS};
    settings->interval_ms = advice_interval_ms(&pace->advice, &limits);
    settings->has_interval_ms = true;
}

void pace_begin(struct pace *pace, struct job *job)
{
    Belay__Wire__JobSettings *settings = job->config->settings;
    if (settings->mtbf_ms && !settings->interval_ms)
        choose(pace, settings);
    if (settings->interval_ms)
        timer_start(pace->timer, settings->interval_ms, settings->interval_ms);
}

void pace_end(struct pace *pace)
{
    timer_stop(pace->timer);
    pace->failures = 0;
}

/* What convergence takes counts in full: ranks that wait for it may or may not have had work to do. */
void pace_learn(struct pace *pace, struct job *job, const struct history_line *entry, uint64_t age_ms)
{
    Belay__Wire__JobSettings *settings = job->config->settings;
    pace->failures = 0;
    advice_learn(&pace->advice, entry->converge_ms + entry->pause_ms, entry->total_ms);
    job->line_cost_ms = pace->advice.cost_ms;
    if (settings->mtbf_ms)
        choose(pace, settings);
    uint64_t next_ms = advice_next_ms(settings->interval_ms, age_ms, entry->pause_ms);
    if (settings->interval_ms)
        timer_start(pace->timer, next_ms, settings->interval_ms);
}

void pace_fail(struct pace *pace, const struct job *job, uint64_t age_ms)
{
    const uint64_t interval_ms = job->config->settings->interval_ms;
    if (interval_ms)
        timer_start(pace->timer, advice_retry_ms(interval_ms, ++pace->failures, age_ms), interval_ms);
}
