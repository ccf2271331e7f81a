/*
 * pace.h - when the next line is asked for: after the interval that was given, or that coord/advice.h
 * chooses from what the job's lines have cost.
 */
#ifndef BELAY_NODE_AGENT_HOST_PACE_H
#define BELAY_NODE_AGENT_HOST_PACE_H

#include "coord/advice.h"
#include "node-agent/job/history.h"
#include "node-agent/job/job.h"
#include "node-agent/loop/timer.h"

struct pace {
    struct timer *timer;
    struct advice advice; /* of all lines that this agent has seen of the job */
    unsigned failures;    /* lines in a row that were aborted */
};

/* Call ask(context) whenever an interval is over. Returns 0, or -1 with ENOMEM. */
int pace_create(struct pace *pace, struct job *job, timer_f ask, void *context);
void pace_destroy(struct pace *pace);

/* An epoch has begun, or a line was asked for: an interval begins, if the job has one. */
void pace_begin(struct pace *pace, struct job *job);
void pace_end(struct pace *pace);

/*
 * A line has committed, `age_ms` after it was asked for. Its cost decides the time of the next line, and the
 * interval if that is chosen by Belay.
 */
void pace_learn(struct pace *pace, struct job *job, const struct history_line *entry, uint64_t age_ms);

/* A line was aborted, `age_ms` after it was asked for: the next one comes sooner, if the job has an interval.
 */
void pace_fail(struct pace *pace, const struct job *job, uint64_t age_ms);

#endif
