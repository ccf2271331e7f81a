#include "node-agent/host/requests.h"

#include <stdlib.h>

#include "node-agent/job/answer.h"

struct request *requests_add(struct requests *requests, struct connection *connection)
{
    struct request *request = calloc(1, sizeof *request);
    if (!request)
        return NULL;
    request->token = ++requests->last_token;
    request->connection = connection;
    request->next = requests->first;
    requests->first = request;
    return request;
}

void requests_forget(struct requests *requests, struct connection *connection)
{
    for (struct request **at = &requests->first; *at;) {
        struct request *request = *at;
        if (request->connection == connection) {
            *at = request->next;
            free(request);
        } else {
            at = &request->next;
        }
    }
}

void requests_mark(struct requests *requests, uint64_t token, uint64_t line)
{
    for (struct request *request = requests->first; request; request = request->next)
        if (request->token == token)
            request->line = line;
}

void requests_answer(struct requests *requests, struct job *job, uint64_t token, uint64_t line,
                     const char *reason)
{
    for (struct request **at = &requests->first; *at; at = &(*at)->next) {
        struct request *request = *at;
        if (request->token != token)
            continue;
        *at = request->next;
        answer_line_done(request->connection, job, line, reason);
        free(request);
        return;
    }
}

void requests_answer_marked(struct requests *requests, struct job *job, uint64_t line)
{
    for (struct request *request = requests->first, *next; request; request = next) {
        next = request->next;
        if (request->line == line)
            requests_answer(requests, job, request->token, line, NULL);
    }
}

void requests_answer_all(struct requests *requests, struct job *job, uint64_t line, const char *reason)
{
    while (requests->first)
        requests_answer(requests, job, requests->first->token, line, reason);
}
