/*
 * req_functions - every function of MPI that sends, receives, probes or handles requests, and every
 * collective: used before a line, pending across it, used after it.
 *
 * Each step begins all exchanges (req.h), holds one meeting of --value milliseconds, and ends the exchanges.
 * --mode FUNCTION takes the patterns of one function alone; --mode list prints the names of all.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/p2_work.h"
#include "tests/programs/req.h"

#define SMALL 16    /* words: sent at once */
#define BUFFERED 12 /* big messages that the attached buffer holds */

static const struct req_exchange *const groups[] = {req_sends,  req_receives,   req_completions,
                                                    req_others, req_persistent, req_collectives};

#define GROUPS (sizeof groups / sizeof groups[0])

/* ---- what patterns use ---- */

int req_words(int k)
{
    return k == 0 ? SMALL : REQ_BIG;
}

static uint64_t key_of(const struct req *req, const struct req_work *work, int from, int k)
{
    return mix_number(mix_number((uint64_t)from, (uint64_t)req->step, req->program.seed),
                      (uint64_t)work->number, (uint64_t)k);
}

void req_fill(const struct req *req, struct req_work *work, int k)
{
    uint64_t key = key_of(req, work, req->program.rank, k);
    for (int i = 0; i < req_words(k); i++)
        work->out[k][i] = key + (uint64_t)i;
}

void req_check(struct req *req, struct req_work *work, int from, int k, const MPI_Status *status)
{
    uint64_t key = key_of(req, work, from, k);
    int words;
    if (status) {
        MPI_Get_count(status, MPI_UINT64_T, &words);
        if (words != req_words(k) || status->MPI_SOURCE != from || status->MPI_TAG != k)
            fail(&req->program, "%s, step %ld: message %d has %d words, tag %d, source %d", work->function,
                 req->step, k, words, status->MPI_TAG, status->MPI_SOURCE);
    }
    for (int i = 0; i < req_words(k); i++)
        if (work->in[k][i] != key + (uint64_t)i)
            fail(&req->program, "%s, step %ld: word %d of message %d is wrong", work->function, req->step, i,
                 k);
    digest_add_number(&req->program.digest, key);
    memset(work->in[k], 0x55, (size_t)req_words(k) * sizeof(uint64_t));
}

void req_receive(struct req *req, struct req_work *work, int from, int k)
{
    MPI_Status status = REQ_STATUS;
    MPI_Recv(work->in[k], req_words(k), MPI_UINT64_T, from, k, work->comm, &status);
    req_check_error(req, work, &status);
    req_check(req, work, from, k, &status);
}

void req_check_error(const struct req *req, const struct req_work *work, const MPI_Status *status)
{
    req_demand(req, work, status->MPI_ERROR == REQ_OWN_ERROR, "MPI_ERROR of a status was changed");
}

void req_isend(const struct req *req, struct req_work *work, int to, int k, MPI_Request *request)
{
    req_fill(req, work, k);
    MPI_Isend(work->out[k], req_words(k), MPI_UINT64_T, to, k, work->comm, request);
}

void req_irecv(struct req_work *work, int from, int k, MPI_Request *request)
{
    MPI_Irecv(work->in[k], req_words(k), MPI_UINT64_T, from, k, work->comm, request);
}

void req_demand(const struct req *req, const struct req_work *work, bool fact, const char *words)
{
    if (!fact)
        fail(&req->program, "%s, step %ld: %s", work->function, req->step, words);
}

bool req_is_empty(const MPI_Status *status)
{
    int count, is_cancelled;
    MPI_Get_count(status, MPI_BYTE, &count);
    MPI_Test_cancelled(status, &is_cancelled);
    return status->MPI_SOURCE == MPI_ANY_SOURCE && status->MPI_TAG == MPI_ANY_TAG && !count && !is_cancelled;
}

/* ---- the patterns' work areas ---- */

static bool is_wanted(const struct req *req, const char *function)
{
    return !*req->program.mode || !strcmp(req->program.mode, function);
}

static struct req_work *work_new(const char *function, int number)
{
    struct req_work *work = calloc(1, sizeof *work);
    work->function = function;
    work->number = number;
    MPI_Comm_dup(MPI_COMM_WORLD, &work->comm);
    for (int i = 0; i < REQ_REQUESTS; i++)
        work->requests[i] = MPI_REQUEST_NULL;
    for (int k = 0; k < REQ_MESSAGES; k++) {
        work->out[k] = malloc(REQ_BIG * sizeof(uint64_t));
        work->in[k] = malloc(REQ_BIG * sizeof(uint64_t));
    }
    return work;
}

static void work_free(struct req_work *work)
{
    for (int i = 0; i < REQ_REQUESTS; i++)
        if (work->requests[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&work->requests[i]);
    for (int k = 0; k < REQ_MESSAGES; k++) {
        free(work->out[k]);
        free(work->in[k]);
    }
    MPI_Comm_free(&work->comm);
    free(work);
}

/* ---- the run ---- */

#define MAX_EXCHANGES 80
#define MAX_MEETINGS 20

struct run {
    const struct req_exchange *exchanges[MAX_EXCHANGES];
    struct req_work *works[MAX_EXCHANGES];
    int exchange_count;
    const struct req_meeting *meetings[MAX_MEETINGS];
    struct req_work *meeting_works[MAX_MEETINGS];
    int meeting_count;
};

static void choose(const struct req *req, struct run *run)
{
    int number = 0;
    for (size_t g = 0; g < GROUPS; g++)
        for (const struct req_exchange *e = groups[g]; e->function; e++, number++) {
            if (!is_wanted(req, e->function))
                continue;
            run->works[run->exchange_count] = work_new(e->function, number);
            run->exchanges[run->exchange_count++] = e;
        }
    for (const struct req_meeting *m = req_meetings; m->function; m++, number++) {
        if (!is_wanted(req, m->function) || (m->is_alone && run->exchange_count))
            continue;
        run->meeting_works[run->meeting_count] = work_new(m->function, number);
        run->meetings[run->meeting_count++] = m;
    }
}

static void list_functions(void)
{
    for (size_t g = 0; g < GROUPS; g++)
        for (const struct req_exchange *e = groups[g]; e->function; e++)
            printf("%s\n", e->function);
    for (const struct req_meeting *m = req_meetings; m->function; m++)
        printf("%s\n", m->function);
    for (const struct req_exchange *e = req_collectives; e->function; e++) /* each has its blocking twin */
        printf("MPI_%c%s\n", toupper(e->function[strlen("MPI_I")]), e->function + strlen("MPI_I") + 1);
}

/* The pairs change their roles when every meeting has been held. */
static void meet(struct req *req, const struct run *run)
{
    int round = (int)(req->step - 1), n = run->meeting_count;
    const struct req_meeting *meeting = n ? run->meetings[round % n] : NULL;
    if (meeting && (req->program.rank + round / n) % 2 == 0) {
        MPI_Pcontrol(1, meeting->function);
        meeting->block(req, run->meeting_works[round % n]);
        MPI_Pcontrol(2, meeting->function);
        return;
    }
    rest_ms((double)req->program.value);
    if (meeting)
        meeting->serve(req, run->meeting_works[round % n]);
}

static void run_steps(struct req *req, struct run *run)
{
    for (req->step = 1; req->step <= req->program.steps; req->step++) {
        for (int i = 0; i < run->exchange_count; i++) {
            run->exchanges[i]->begin(req, run->works[i]);
            MPI_Pcontrol(1, run->exchanges[i]->function); /* a tool may want to know */
        }
        meet(req, run);
        for (int i = 0; i < run->exchange_count; i++) {
            MPI_Pcontrol(2, run->exchanges[i]->function);
            run->exchanges[i]->end(req, run->works[i]);
        }
        program_step(&req->program, req->step);
    }
}

static void run_patterns(struct req *req)
{
    struct run run = {.exchange_count = 0};
    int bytes = BUFFERED * (REQ_BIG * (int)sizeof(uint64_t) + MPI_BSEND_OVERHEAD);
    void *buffer = malloc((size_t)bytes);
    MPI_Buffer_attach(buffer, bytes);
    choose(req, &run);
    if (!run.exchange_count && !run.meeting_count)
        fail(&req->program, "no pattern for %s", req->program.mode);
    run_steps(req, &run);
    for (int i = 0; i < run.exchange_count; i++)
        work_free(run.works[i]);
    for (int i = 0; i < run.meeting_count; i++)
        work_free(run.meeting_works[i]);
    MPI_Buffer_detach(&buffer, &bytes);
    free(buffer);
}

int main(int argc, char **argv)
{
    struct req req = {.program = {.steps = 34, .value = 120, .seed = 1}};
    MPI_Init(&argc, &argv);
    program_begin(&req.program, "req_functions", argc, argv);
    req.left = (req.program.rank + req.program.ranks - 1) % req.program.ranks;
    req.right = (req.program.rank + 1) % req.program.ranks;
    req.partner = req.program.rank ^ 1;
    if (req.program.ranks % 2)
        fail(&req.program, "an even number of ranks is needed");
    if (!strcmp(req.program.mode, "list")) {
        if (req.program.rank == 0)
            list_functions();
    } else {
        run_patterns(&req);
        program_end(&req.program);
    }
    MPI_Finalize();
    return 0;
}
