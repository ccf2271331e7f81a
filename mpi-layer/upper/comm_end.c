/*
 * comm_end.c - communicators that the application has freed, until nothing is on its way there any more.
 */
#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/drained.h"

#define MAX_REAP_LOOKS 4 /* in vain: a thousand freed in a row must not be looked at a thousand times */

static struct comm *first_ending, *last_ending; /* oldest first */

static void ending_free(struct ending *ending)
{
    arena_free(ending->sent);
    arena_free(ending->coming);
    arena_free(ending);
}

static struct ending *ending_new(const struct comm *c)
{
    struct ending *ending = arena_alloc(sizeof *ending);
    if (!ending)
        return NULL;
    ending->sent = arena_alloc((size_t)c->size * sizeof *ending->sent + 1);
    ending->coming = arena_alloc((size_t)c->size * sizeof *ending->coming + 1);
    if (ending->sent && ending->coming)
        return ending;
    ending_free(ending);
    return NULL;
}

int comm_end(struct comm *c)
{
    struct ending *ending = ending_new(c);
    if (!ending)
        return MPI_ERR_NO_MEM;
    for (int i = 0; i < c->size; i++)
        ending->sent[i] = c->peers[i].sent;
    int code = lower_MPI_Ialltoall(ending->sent, 1, api_real(MPI_UINT64_T), ending->coming, 1,
                                   api_real(MPI_UINT64_T), c->handle->real, &ending->request);
    if (code != MPI_SUCCESS) {
        ending_free(ending);
        return code;
    }
    c->ending = ending;
    *(last_ending ? &last_ending->next_ending : &first_ending) = c;
    last_ending = c;
    return MPI_SUCCESS;
}

static bool is_exchanged(struct ending *ending)
{
    int flag = 1;
    if (ending->request)
        lower_MPI_Test(&ending->request, &flag, MPI_STATUS_IGNORE);
    if (flag)
        ending->request = NULL;
    return flag;
}

static void expect_coming(struct comm *c)
{
    for (int i = 0; i < c->size; i++)
        peer_expect(&c->peers[i], c->ending->coming[i]);
}

bool comm_endings_in_flight(void)
{
    bool in_flight = false;
    for (struct comm *c = first_ending; c; c = c->next_ending) {
        if (is_exchanged(c->ending))
            expect_coming(c);
        else
            in_flight = true;
    }
    return in_flight;
}

void comm_reap(void)
{
    struct comm **link = &first_ending, *before = NULL;
    for (int looks = MAX_REAP_LOOKS; *link && looks;) {
        struct comm *c = *link;
        if (!is_exchanged(c->ending) || c->pending) {
            looks--;
            before = c;
            link = &c->next_ending;
            continue;
        }
        void *real = c->handle->real;
        if (real)
            lower_MPI_Comm_free(&real);
        *link = c->next_ending;
        if (last_ending == c)
            last_ending = before;
        ending_free(c->ending);
        drained_drop(c);
        comm_unregister(c);
    }
}
