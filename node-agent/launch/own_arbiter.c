#include "node-agent/launch/own_arbiter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/fault/fault.h"
#include "common/util/log.h"
#include "common/wire/epoch_record.h"
#include "coord/epoch_message.h"
#include "node-agent/job/membership.h"

struct own_arbiter {
    struct job *job;
    const struct own_arbiter_ops *node;
    struct opener *opener;
    struct epoch_state state; /* of this node, the only one */
    struct belay_error *err;  /* of the call that is made */
};

static int ask(void *context, uint32_t node, uint32_t epoch)
{
    struct own_arbiter *arbiter = context;
    (void)node;
    return arbiter->node->promise(arbiter->job, epoch, &arbiter->state, arbiter->err);
}

static int hear(void *context, uint32_t node, uint32_t epoch, struct epoch_state *state)
{
    const struct own_arbiter *arbiter = context;
    (void)node;
    (void)epoch;
    *state = arbiter->state;
    return 0;
}

/* This node is the only one, and its keeper has the record before anything follows from it (epoch_copy.h). */
static int record(void *context, const struct epoch_start *start)
{
    const struct own_arbiter *arbiter = context;
    const struct job *job = arbiter->job;
    const Belay__Wire__EpochRecord message = epoch_message_of_start(start, job->name);
    if (epoch_record_write(job->agent->rundir, &message) < 0)
        log_warning("job \"%s\": the record of its epochs is in memory only: %s", job->name, strerror(errno));
    fault_hit("agent.epoch.recorded", -1, start->epoch);
    return 0;
}

static int tell(void *context, uint32_t node, const struct epoch_start *start)
{
    struct own_arbiter *arbiter = context;
    (void)node;
    return arbiter->node->enter(arbiter->job, start, arbiter->err);
}

static int entered(void *context, uint32_t node, const struct epoch_start *start)
{
    (void)context;
    (void)node;
    (void)start;
    return 0;
}

static int placed(void *context, uint32_t node, const struct epoch_start *start)
{
    struct own_arbiter *arbiter = context;
    (void)node;
    return membership_place(arbiter->job->membership, start, arbiter->err);
}

static const struct opener_ops ops = {
    .ask = ask, .hear = hear, .record = record, .tell = tell, .entered = entered, .placed = placed};

struct own_arbiter *own_arbiter_create(struct job *job, const struct own_arbiter_ops *node,
                                       struct belay_error *err)
{
    const struct arbiter_settings settings = {.node_count = 1, .scheme = SCHEME_SINGLE};
    struct own_arbiter *arbiter = calloc(1, sizeof *arbiter);
    if (arbiter) {
        arbiter->job = job;
        arbiter->node = node;
        arbiter->opener = opener_create(&settings, NULL, &ops, arbiter);
    }
    if (arbiter && arbiter->opener)
        return arbiter;
    free(arbiter);
    belay_error_set(err, ENOMEM, "no memory for job \"%s\"", job->name);
    return NULL;
}

void own_arbiter_destroy(struct own_arbiter *arbiter)
{
    if (!arbiter)
        return;
    opener_destroy(arbiter->opener);
    free(arbiter);
}

/* What fails says so itself, but for the machine's own lack of memory. */
int own_arbiter_open(struct own_arbiter *arbiter, struct belay_error *err)
{
    belay_error_set(err, ENOMEM, "no memory for another epoch");
    arbiter->err = err;
    return opener_open(arbiter->opener);
}

int own_arbiter_place(struct own_arbiter *arbiter, uint32_t ranks, struct belay_error *err)
{
    uint32_t *placement = calloc(ranks ? ranks : 1, sizeof *placement);
    belay_error_set(err, ENOMEM, "no memory to place %u ranks", ranks);
    arbiter->err = err;
    int rc = placement ? opener_place(arbiter->opener, ranks, placement) : -1;
    free(placement);
    return rc;
}
