/*
 * arbiter_state.h - what the arbiter of `belay run` knows, for its files: arbiter.c (its life, an epoch, the
 * verdict), arbiter_calls.c (what is said to the agents), arbiter_ranks.c (where the ranks are),
 * arbiter_lack.c (why it cannot go on). Nobody else includes it.
 */
#ifndef BELAY_CMD_ARBITER_STATE_H
#define BELAY_CMD_ARBITER_STATE_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/arbiter_types.h"
#include "cmd/calls.h"
#include "cmd/heard.h"
#include "common/util/error.h"
#include "common/wire/job_name.h"
#include "common/wire/placement.h"
#include "coord/opener.h"
#include "coord/verdict.h"

/* A node and its agent. */
struct arbiter_member {
    struct caller agent;
    Belay__Wire__Reply *state; /* its answer to the newest inquiry; NULL: none */
    bool is_gone;              /* it has lost its memory */
    bool is_newly_gone;        /* since the newest epoch was opened */
    bool has_entered;          /* the epoch that is being opened, or the newest */
    enum job_arbiter_failure failure;
    const char *address; /* of its host; NULL: all nodes are on one */
    const char *rundir;  /* where it is reached; NULL: not known yet */
    bool is_elsewhere;   /* on another host than the launcher */
};

struct job_arbiter {
    char rundir[PATH_MAX];
    char nodes_dir[PATH_MAX]; /* where other hosts have their sockets; "": there are none */
    char job[JOB_NAME_BYTES]; /* "": no agent has named it yet */
    struct arbiter_member members[PLACEMENT_NODES_MAX];
    uint32_t node_count, min_count;
    enum scheme scheme;
    struct parity_code code;
    struct job_secret secret;    /* of several nodes */
    uint32_t secret_epoch;       /* that its epoch_secret is of; 0: none */
    struct epoch_start *offered; /* newest record that agents have told of; NULL: none */
    uint32_t offered_epoch;      /* newest that they have heard of */
    struct opener *opener;
    uint32_t opener_nodes; /* that it was made for */
    pthread_mutex_t mutex; /* over the opener, which a thread has renew leases; recursive */
    uint64_t lease_ms;     /* 0: members need none */
    bool binds_leases;
    struct heard heard; /* if it does */
    uint32_t fan_out;   /* of the tree over the members */
    job_arbiter_grant_f *grant;
    void *grant_context;
    struct job_arbiter_launch launch;
    char reason[VERDICT_REASON_BYTES];
    struct verdict_loss last_loss;
    uint32_t *placement; /* of the epoch, as far as nodes have told; NULL: nothing */
    uint32_t world_size, placed;
    bool has_told_of_disk;
    struct belay_error *err; /* of the call that is made */
    uint32_t failed_node;    /* whose agent was lost, as err says; EPOCH_NOBODY: err says something else */
};

/* For the opener; its context is the struct job_arbiter. */
extern const struct opener_ops arbiter_calls;
/* By CLOCK_BOOTTIME: suspended with the machine, it goes on. */
uint64_t arbiter_now_us(void *context);
void arbiter_lock(void *context, bool is_taken);

/* What nodes have told of the ranks of a launch counts no more. */
void arbiter_forget_placement(struct job_arbiter *arbiter);
/* A line for each node of whose images some are others than the committed ones. */
void arbiter_tell_refused(const struct job_arbiter *arbiter);
/* Why the nodes that are left are not enough for another epoch. */
void arbiter_tell_what_lacks(const struct job_arbiter *arbiter, struct belay_error *err);

#endif
