/*
 * requests.h - the clients that wait for a line.
 */
#ifndef BELAY_NODE_AGENT_HOST_REQUESTS_H
#define BELAY_NODE_AGENT_HOST_REQUESTS_H

#include <stdint.h>

#include "node-agent/job/job.h"

struct request {
    struct request *next;
    uint64_t token; /* names the request to the coordinator; never 0 */
    uint64_t line;  /* the line that has committed for it, whose times are not final yet; 0: none */
    struct connection *connection;
};

/* A zeroed struct is empty. */
struct requests {
    struct request *first;
    uint64_t last_token;
};

/* NULL with ENOMEM. */
struct request *requests_add(struct requests *requests, struct connection *connection);

/* A client is gone. */
void requests_forget(struct requests *requests, struct connection *connection);

/* A line has committed for the request with this token; it is answered when the line is measured. */
void requests_mark(struct requests *requests, uint64_t token, uint64_t line);

/* Answer one request: its line has committed (reason NULL) or not. Unknown tokens are ignored. */
void requests_answer(struct requests *requests, struct job *job, uint64_t token, uint64_t line,
                     const char *reason);

/* Answer all that were marked with a line, which has committed. */
void requests_answer_marked(struct requests *requests, struct job *job, uint64_t line);

/* Answer all remaining requests with this line: committed (reason NULL) or not. */
void requests_answer_all(struct requests *requests, struct job *job, uint64_t line, const char *reason);

#endif
