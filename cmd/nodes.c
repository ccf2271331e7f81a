#include "cmd/nodes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmd/calls.h"
#include "common/util/log.h"
#include "common/wire/peer.h"
#include "common/wire/placement.h"
#include "common/wire/rundir.h"

struct node_event {
    struct node_event *next;
    Belay__Wire__Event *event;
};

int nodes_set_count(struct nodes *nodes, const char *rundir, uint32_t count, struct belay_error *err)
{
    if (count > PLACEMENT_NODES_MAX)
        return belay_error_set(err, EINVAL, "a job has agents on %u nodes at most", PLACEMENT_NODES_MAX);
    if (!nodes->of)
        nodes->of = calloc(PLACEMENT_NODES_MAX, sizeof *nodes->of);
    if (!nodes->of)
        return belay_error_set(err, ENOMEM, "out of memory");
    for (; nodes->count < count; nodes->count++) {
        struct node *node = &nodes->of[nodes->count];
        *node = (struct node){.number = nodes->count, .sock = -1, .watch = nodes->watch};
        if (placement_rundir(node->rundir, sizeof node->rundir, rundir, nodes->count, err) < 0 ||
            (nodes->count > 0 && rundir_make(node->rundir, err) < 0))
            return -1;
    }
    return 0;
}

void nodes_release(struct nodes *nodes)
{
    for (uint32_t i = 0; i < nodes->count; i++) {
        outlet_destroy(nodes->of[i].outlet);
        if (nodes->of[i].sock >= 0)
            close(nodes->of[i].sock);
        Belay__Wire__Event *event;
        while ((event = node_take_event(&nodes->of[i])))
            belay__wire__event__free_unpacked(event, NULL);
    }
    free(nodes->of);
    *nodes = (struct nodes){0};
}

static Belay__Wire__Event *copy_event(const Belay__Wire__Event *event)
{
    uint8_t *packed = malloc(belay__wire__event__get_packed_size(event) + 1);
    Belay__Wire__Event *copy =
        packed ? belay__wire__event__unpack(NULL, belay__wire__event__pack(event, packed), packed) : NULL;
    free(packed);
    return copy;
}

void node_keep_event(struct node *node, const Belay__Wire__Event *event)
{
    struct node_event *kept = calloc(1, sizeof *kept), **last = &node->events;
    Belay__Wire__Event *copy = kept ? copy_event(event) : NULL;
    if (!copy) {
        log_error("out of memory: an event of the agent of node %" PRIu32 " is lost", node->number);
        free(kept);
        return;
    }
    kept->event = copy;
    while (*last)
        last = &(*last)->next;
    *last = kept;
}

Belay__Wire__Event *node_take_event(struct node *node)
{
    struct node_event *first = node->events;
    Belay__Wire__Event *event = first ? first->event : NULL;
    if (first)
        node->events = first->next;
    free(first);
    return event;
}

void node_fence(const struct node *node)
{
    if (!node->is_remote)
        peer_kill_server(node->sock);
    else
        send_fence(node->sock);
}

bool nodes_have_lost_agent(const struct nodes *nodes)
{
    for (uint32_t i = 0; i < nodes->count; i++)
        if (nodes->of[i].is_lost)
            return true;
    return false;
}

uint32_t nodes_ranks(const struct nodes *nodes)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < nodes->count; i++) {
        uint32_t ranks = nodes->of[i].outlet ? outlet_ranks(nodes->of[i].outlet) : 0;
        most = ranks > most ? ranks : most;
    }
    return most;
}

int nodes_start_output(const struct nodes *nodes, bool is_forwarded, struct belay_error *err)
{
    for (uint32_t i = 0; i < nodes->count; i++)
        if (nodes->of[i].outlet && outlet_start(nodes->of[i].outlet, is_forwarded, err) < 0)
            return -1;
    return 0;
}

void nodes_cut_output(const struct nodes *nodes, bool is_cut)
{
    for (uint32_t i = 0; i < nodes->count; i++)
        if (nodes->of[i].outlet)
            outlet_set_cut(nodes->of[i].outlet, is_cut);
}

void nodes_finish_output(const struct nodes *nodes, bool is_hurried)
{
    for (uint32_t i = 0; i < nodes->count; i++)
        if (nodes->of[i].outlet)
            outlet_finish(nodes->of[i].outlet, is_hurried);
}
