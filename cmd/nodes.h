/*
 * nodes.h - the nodes of a job, as its arbiter has them: the connection to each one's agent, and the output
 * of its ranks. Nodes are numbered from 0, whose agent is that of the run directory.
 */
#ifndef BELAY_CMD_NODES_H
#define BELAY_CMD_NODES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/outlet.h"
#include "common/util/error.h"

struct node {
    char rundir[PATH_MAX];
    int sock;              /* to its agent, -1: none */
    bool is_remote;        /* on another host: its agent is reached through a relay, which starts it */
    bool is_lost;          /* the agent has gone */
    bool is_gone;          /* with all that it held: the job goes on without the node */
    struct outlet *outlet; /* of its ranks' output; NULL: none yet */
};

struct nodes {
    struct node *of;
    uint32_t count;
};

/* So many nodes below the run directory, without connections; those that are there stay. Returns 0 or -1 with
 * err. */
int nodes_set_count(struct nodes *nodes, const char *rundir, uint32_t count, struct belay_error *err);
/* Connections are closed. */
void nodes_release(struct nodes *nodes);

bool nodes_have_lost_agent(const struct nodes *nodes);

/* How many ranks there were, in this launch or an earlier one; 0: none has come. */
uint32_t nodes_ranks(const struct nodes *nodes);

/* Those of outlet.h, for all nodes that have an outlet. */
int nodes_start_output(const struct nodes *nodes, bool is_forwarded, struct belay_error *err);
void nodes_cut_output(const struct nodes *nodes, bool is_cut);
void nodes_finish_output(const struct nodes *nodes, bool is_hurried);

#endif
