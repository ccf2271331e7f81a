/*
 * answer.h - the answers to clients about a job and a line.
 */
#ifndef BELAY_NODE_AGENT_JOB_ANSWER_H
#define BELAY_NODE_AGENT_JOB_ANSWER_H

#include <stdint.h>

#include "common/wire/belay.pb-c.h"
#include "node-agent/job/history.h"
#include "node-agent/job/job.h"
#include "node-agent/loop/connection.h"

/* A line as a message. Strings are borrowed from the entry. */
void answer_fill_line(const struct history_line *entry, Belay__Wire__LineStatus *status);

/* What was asked for is done. */
void answer_done(struct connection *connection, uint32_t count, const char *text);

/* A line is over: committed (reason NULL), or aborted, which is an error as well. line 0: none began. */
void answer_line_done(struct connection *connection, struct job *job, uint64_t line, const char *reason);

/* The job has ended: all clients that wait for that are told its last word. */
void answer_waiters(struct job *job);

#endif
