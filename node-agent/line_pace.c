/* line_pace.c - see line_pace.h. The interval in use stands in the job's configuration, for all to see. */
#include "node-agent/line_pace.h"

#define SHORTEST_MS 50
#define LONGEST_MS (24ull * 3600 * 1000)

int pace_create(struct line_pace *pace, struct job *job, timer_f ask, void *context)
{
    pace->timer = timer_new(job->agent->loop, ask, context);
    return pace->timer ? 0 : -1;
}

void pace_destroy(struct line_pace *pace)
{
    timer_destroy(pace->timer);
}

static void choose(const struct line_pace *pace, Belay__Wire__JobOpen *config)
{
    struct advice_limits limits = {.mtbf_ms = (double)config->mtbf_ms,
                                   .min_duty = config->duty_percent / 100.0,
                                   .shortest_ms = SHORTEST_MS,
                                   .longest_ms = LONGEST_MS};
    config->interval_ms = advice_interval_ms(&pace->advice, &limits);
}

void pace_begin(struct line_pace *pace, struct job *job)
{
    Belay__Wire__JobOpen *config = job->config;
    if (config->mtbf_ms && !config->interval_ms)
        choose(pace, config);
    if (config->interval_ms)
        timer_start(pace->timer, config->interval_ms, config->interval_ms);
}

void pace_end(struct line_pace *pace)
{
    timer_stop(pace->timer);
}

/* What convergence takes counts in full: ranks that wait for it may or may not have had work to do. */
void pace_learn(struct line_pace *pace, struct job *job, const struct history_line *entry, uint64_t age_ms)
{
    Belay__Wire__JobOpen *config = job->config;
    advice_learn(&pace->advice, entry->converge_ms + entry->pause_ms, entry->total_ms);
    job->line_cost_ms = pace->advice.cost_ms;
    if (config->mtbf_ms)
        choose(pace, config);
    uint64_t next_ms = advice_next_ms(config->interval_ms, age_ms, entry->pause_ms);
    if (config->interval_ms)
        timer_start(pace->timer, next_ms, config->interval_ms);
}
