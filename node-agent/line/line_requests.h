/*
 * line_requests.h - the clients that wait for a line.
 */
#ifndef BELAY_NODE_AGENT_LINE_LINE_REQUESTS_H
#define BELAY_NODE_AGENT_LINE_LINE_REQUESTS_H

#include <stdint.h>

#include "node-agent/job/job.h"

struct line_request {
    struct line_request *next;
    uint64_t token; /* by which the coordinator knows it; never 0 */
    uint64_t line;  /* that has committed for it, and is being measured; 0: none yet */
    struct connection *connection;
};

/* A zeroed struct is empty. */
struct line_requests {
    struct line_request *first;
    uint64_t last_token;
};

/* NULL with ENOMEM. */
struct line_request *requests_add(struct line_requests *requests, struct connection *connection);

/* A client is gone. */
void requests_forget(struct line_requests *requests, struct connection *connection);

/* A line has committed for the request with this token; it is answered when the line is measured. */
void requests_mark(struct line_requests *requests, uint64_t token, uint64_t line);

/* Answer one request: its line has committed (reason NULL) or not. Unknown tokens are ignored. */
void requests_answer(struct line_requests *requests, struct job *job, uint64_t token, uint64_t line,
                     const char *reason);

/* Answer all that were marked with a line, which has committed. */
void requests_answer_marked(struct line_requests *requests, struct job *job, uint64_t line);

/* Answer all that are left: they get no line. */
void requests_answer_all(struct line_requests *requests, struct job *job, uint64_t line, const char *reason);

#endif
