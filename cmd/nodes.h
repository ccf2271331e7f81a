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
#include "common/wire/belay.pb-c.h"

struct watch;
struct node_event;

struct node {
    uint32_t number;
    char rundir[PATH_MAX];
    int sock;                  /* to its agent, -1: none */
    bool is_remote;            /* on another host: its agent is reached through a relay, which starts it */
    bool is_lost;              /* the agent has gone */
    uint32_t refilled_epoch;   /* the newest one in which it holds again what it has to hold for others */
    bool is_gone;              /* with all that it held: the job goes on without the node */
    bool is_left_out;          /* gone, but its agent is there, and holds what the job does without */
    bool is_empty;             /* gone, and its agent has said that it holds nothing of the job */
    bool has_leases;           /* a connection for them is open */
    bool is_spare;             /* it has no part in the newest epoch; sock -1: its agent has gone */
    struct outlet *outlet;     /* of its ranks' output; NULL: none yet */
    long long join_at_ms;      /* when its links are to have joined, if they are late; 0: they are not */
    uint32_t late_by;          /* the node that has told so */
    uint32_t cuts;             /* launches in a row, without a new line, that a link of its has ended */
    struct watch *watch;       /* that its events are for */
    struct node_event *events; /* that are kept, oldest first */
};

/* A zeroed struct has no nodes. */
struct nodes {
    struct node *of; /* never moved */
    uint32_t count;
    struct watch *watch; /* to be set before there are any */
};

/* So many nodes below the run directory, without connections; those that are there stay. Returns 0 or -1 with
 * err. */
int nodes_set_count(struct nodes *nodes, const char *rundir, uint32_t count, struct belay_error *err);
/* Connections are closed. */
void nodes_release(struct nodes *nodes);

/* Keep an event of its agent that may not be dealt with while a call waits for an answer; it is copied. */
void node_keep_event(struct node *node, const Belay__Wire__Event *event);
/* The oldest that is kept, to be freed; NULL: none. */
Belay__Wire__Event *node_take_event(struct node *node);
/* The agent does not answer: its process is killed, by its relay if it is on another host. */
void node_fence(const struct node *node);

bool nodes_have_lost_agent(const struct nodes *nodes);

/* How many ranks there were, in this launch or an earlier one; 0: none has come. */
uint32_t nodes_ranks(const struct nodes *nodes);

/* Those of outlet.h, for all nodes that have an outlet. */
int nodes_start_output(const struct nodes *nodes, bool is_forwarded, struct belay_error *err);
void nodes_cut_output(const struct nodes *nodes, bool is_cut);
void nodes_finish_output(const struct nodes *nodes, bool is_hurried);

#endif
