/*
 * agent.h - what every part of belayd shares: the loop, the run directory, the keeper and the jobs.
 */
#ifndef BELAY_NODE_AGENT_JOB_AGENT_H
#define BELAY_NODE_AGENT_JOB_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "node-agent/loop/connection.h"
#include "node-agent/store/keeper.h"

#define AGENT_PATH_BYTES 108 /* of a Unix socket's name */

struct job;

struct agent {
    uv_loop_t *loop;
    char rundir[AGENT_PATH_BYTES];
    char node[256]; /* host name */
    struct keeper *keeper;
    struct job *jobs; /* uthash by name: running, or ended with images */
    unsigned connection_count;
    uint64_t record_age_ms; /* records of ended jobs that are older are removed */
    bool is_cleaned;        /* all of it, and no job has come since: it need not stay for more work */
    bool leaves_jobs;       /* the agent ends and leaves its jobs with the keeper, for the next agent */
    /* Called when the agent may have become idle: it decides later whether to leave. */
    void (*settle)(struct agent *agent);
};

/* The connections' requests, for connection_create() with the agent as context. */
extern const struct connection_ops agent_connection_ops;

#endif
