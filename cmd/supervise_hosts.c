#include "cmd/supervise_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/launcher.h"
#include "cmd/supervise.h"

static int take_hosts(struct supervisor *s, struct belay_error *err)
{
    struct hosts *hosts = &s->hosts;
    if (nodes_set_count(&s->nodes, hosts->folder, hosts->count, err) < 0)
        return -1;
    job_arbiter_set_nodes_dir(s->arbiter, hosts->folder);
    for (uint32_t node = 0; node < hosts->count; node++) {
        s->nodes.of[node].is_remote = node > 0;
        job_arbiter_set_host(s->arbiter, node, hosts->of[node].address, node > 0);
    }
    return 0;
}

/* Those of a launch that has begun. */
static int copy_hosts(struct hosts *hosts, const struct hosts *given, struct belay_error *err)
{
    memcpy(hosts->of, given->of, sizeof hosts->of);
    hosts->count = given->count;
    hosts->ranks = given->ranks;
    hosts->placement = calloc((size_t)given->ranks + 1, sizeof *hosts->placement);
    if (!hosts->placement)
        return belay_error_set(err, ENOMEM, "out of memory");
    memcpy(hosts->placement, given->placement, given->ranks * sizeof *given->placement);
    return 0;
}

int supervise_find_hosts(struct supervisor *s, char *const argv[], char *const environment[],
                         struct belay_error *err)
{
    char name[HOST_NAME_MAX + 1];
    const struct launcher *launcher = s->plan->hosts ? NULL : launcher_of(argv[0]);
    const struct hosts_launch launch = {.argv = argv,
                                        .launcher = launcher,
                                        .environment = environment,
                                        .relay = s->layout.relay,
                                        .rundir = s->rundir,
                                        .signal_mask = s->signals.fd >= 0 ? &s->signals.original : NULL};
    if (gethostname(name, sizeof name) < 0)
        return belay_error_errno(err, "this host has no name");
    if (s->plan->hosts) {
        if (copy_hosts(&s->hosts, s->plan->hosts, err) < 0 || hosts_await(&s->hosts, &launch, err) < 0)
            return -1;
        return take_hosts(s, err);
    }
    if (s->plan->nodes || !launcher || !launcher->is_wide(argv, environment, name))
        return 0;
    if (hosts_find(&s->hosts, &launch, (uint32_t)s->settings.spares, err) < 0)
        return -1;
    if (s->hosts.count == 1)
        return 0;
    return hosts_join(&s->hosts, &launch, err) < 0 ? -1 : take_hosts(s, err);
}

/* Ranks of a host that is lost go to those that are left, in turn. */
static uint32_t home_of(const struct supervisor *s, const struct epoch_start *start, uint32_t rank)
{
    uint32_t node = s->hosts.placement[rank];
    return epoch_start_index(start, node) != EPOCH_NOBODY ? node : start->members[rank % start->member_count];
}

int supervise_place(struct supervisor *s, struct belay_error *err)
{
    const struct epoch_start *start = job_arbiter_record(s->arbiter);
    uint32_t ranks = s->hosts.ranks;
    if ((s->hosts.count < 2 && !s->plan->hosts) || start->rank_count > 0)
        return 0;
    uint32_t *nodes = calloc((size_t)ranks + 1, sizeof *nodes);
    if (!nodes)
        return belay_error_set(err, ENOMEM, "out of memory");
    for (uint32_t rank = 0; rank < ranks; rank++)
        nodes[rank] = home_of(s, start, rank);
    int rc = job_arbiter_place(s->arbiter, ranks, nodes, err);
    free(nodes);
    return rc;
}

int supervise_settle_streams(struct supervisor *s, struct belay_error *err)
{
    for (uint32_t i = 0; i < s->nodes.count; i++) {
        const struct node *node = &s->nodes.of[i];
        if (node->is_remote && node->sock >= 0 && job_arbiter_settle(s->arbiter, i, err) < 0)
            return -1;
    }
    return 0;
}

int supervise_call_host(struct supervisor *s, uint32_t node, struct hosts_child *child,
                        struct belay_error *err)
{
    const struct hosts_launch launch = {.argv = s->argv,
                                        .launcher = launcher_of(s->argv[0]),
                                        .environment = s->environment,
                                        .relay = s->layout.relay,
                                        .rundir = s->rundir,
                                        .signal_mask = &s->signals.original};
    return hosts_call_back(&s->hosts, node, &launch, child, err);
}
