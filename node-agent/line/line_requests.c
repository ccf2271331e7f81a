#include "node-agent/line/line_requests.h"

#include <stdlib.h>

#include "node-agent/job/answer.h"

struct line_request *requests_add(struct line_requests *requests, struct connection *connection)
{
    struct line_request *request = calloc(1, sizeof *request);
    if (!request)
        return NULL;
    request->token = ++requests->last_token;
    request->connection = connection;
    request->next = requests->first;
    requests->first = request;
    return request;
}

void requests_forget(struct line_requests *requests, struct connection *connection)
{
    for (struct line_request **at = &requests->first; *at;) {
        struct line_request *request = *at;
        if (request->connection == connection) {
            *at = request->next;
            free(request);
        } else {
            at = &request->next;
        }
    }
}

void requests_mark(struct line_requests *requests, uint64_t token, uint64_t line)
{
    for (struct line_request *request = requests->first; request; request = request->next)
        if (request->token == token)
            request->line = line;
}

void requests_answer(struct line_requests *requests, struct job *job, uint64_t token, uint64_t line,
                     const char *reason)
{
    for (struct line_request **at = &requests->first; *at; at = &(*at)->next) {
        struct line_request *request = *at;
        if (request->token != token)
            continue;
        *at = request->next;
        answer_line_done(request->connection, job, line, reason);
        free(request);
        return;
    }
}

void requests_answer_marked(struct line_requests *requests, struct job *job, uint64_t line)
{
    for (struct line_request *request = requests->first, *next; request; request = next) {
        next = request->next;
        if (request->line == line)
            requests_answer(requests, job, request->token, line, NULL);
    }
}

void requests_answer_all(struct line_requests *requests, struct job *job, uint64_t line, const char *reason)
{
    while (requests->first)
        requests_answer(requests, job, requests->first->token, line, reason);
}
