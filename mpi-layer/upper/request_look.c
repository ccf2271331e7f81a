/* request_look.c - see request_look.h. */
#include "mpi-layer/upper/request_look.h"

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/ack.h"
#include "mpi-layer/upper/deliver.h"
#include "mpi-layer/upper/request_done.h"

#define MAX_REAP_LOOKS 4 /* in vain */

bool request_look(struct request *request)
{
    MPI_Status status;
    int flag = 0;
    if (UNLIKELY(request->is_to_post))
        half_post_now();
    if (request->is_done)
        return true;
    if (UNLIKELY(!request->real)) {
        ack_poll();
        return request->is_done;
    }
    int code = lower_MPI_Test(&request->real, &flag, &status);
    if (flag || code != MPI_SUCCESS)
        request_complete(request, &status, code);
    return request->is_done;
}

bool request_complete_drained(struct request *request, struct message *message, int *code)
{
    bool is_gone, is_raised = message->real != NULL;
    *code = deliver(message, request->buffer, request->count, request->type, &request->status, &is_gone);
    if (!is_gone)
        return false;
    request_set_done(request, *code);
    request->must_raise = *code != MPI_SUCCESS && !is_raised;
    drained_take(message);
    deliver_end(message);
    return true;
}

/* True: it is gone. */
static bool reap(struct request *r)
{
    bool is_done = request_look(r);
    if (is_done)
        request_reap(r);
    return is_done;
}

/* Those that are not done go behind the others, and are looked at again when these have been. */
void request_reap_some(void)
{
    struct request *r;
    for (int looks = 0; (r = request_first_orphan()) && looks < MAX_REAP_LOOKS;) {
        if (reap(r))
            continue;
        looks++;
        request_put_behind(r);
    }
}

void request_reap_all(void)
{
    for (struct request *r = request_first_orphan(), *next; r; r = next) {
        next = r->next_orphan;
        reap(r);
    }
}
