/*
 * placement.h - which node each rank of a launch runs on, in words, and where the agents of local nodes are.
 *
 * The words stand in BELAY_PLACEMENT, from an arbiter that has agents on several nodes. "0,1,2": the ranks,
 * as many as there are, in blocks over these nodes. "0*4,2*2": four ranks on node 0, and the next two on
 * node 2. Numbers of nodes are below PLACEMENT_NODES_MAX.
 *
 * Local nodes are agents on one machine that have nothing in common: node 0 has the run directory itself, the
 * others have RUNDIR/node-N.
 */
#ifndef BELAY_COMMON_WIRE_PLACEMENT_H
#define BELAY_COMMON_WIRE_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"

#define PLACEMENT_VARIABLE "BELAY_PLACEMENT"
#define PLACEMENT_NODES_MAX 64u

/* Ranks in blocks over `count` nodes: the index of the node that has the rank. */
uint32_t placement_block(uint32_t rank, uint32_t ranks, uint32_t count);

/* The node of a rank. Returns 0, or -1 with err (EINVAL: the words make no sense, or leave the rank out). */
int placement_find(const char *words, uint32_t rank, uint32_t ranks, uint32_t *node, struct belay_error *err);

/*
 * The words for these nodes, and, if ranks > 0, for ranks of which placement gives the index of each one's
 * node. To be freed; NULL with ENOMEM.
 */
char *placement_words(const uint32_t *nodes, uint32_t count, const uint32_t *placement, uint32_t ranks);

/*
 * Nodes that are hosts: BELAY_HOSTS has their names, by number and separated by commas. The agent of the
 * first one, where `belay run` is, has the run directory itself, that of another host has RUNDIR/host-NAME
 * there, unless BELAY_RUNDIR_LOCAL is set. After `belay restart` on a host that was not the first one, the
 * run directory is that RUNDIR/host-NAME, and other hosts have theirs beside it.
 */
#define PLACEMENT_HOSTS_VARIABLE "BELAY_HOSTS"
/* What a rank has to know of its launch, for an array of names: job, run directory, epoch, nodes, places. */
#define PLACEMENT_LAUNCH_VARIABLES                                                                           \
    {                                                                                                        \
        "BELAY_NAME", "BELAY_RUNDIR", "BELAY_EPOCH", PLACEMENT_HOSTS_VARIABLE, PLACEMENT_VARIABLE            \
    }
#define PLACEMENT_LAUNCH_NEEDED                                                                              \
    3u /* the first ones, which each launch has; the others are those of several nodes */
/* Whether a host's name may stand in such lists, in launch lines and in paths: letters, digits, ".-_", no "-"
 * at its begin, 1 to HOST_NAME_MAX bytes. */
bool placement_is_host_name(const char *name);
/* The node that a host is. Returns 0, or -1 with err (EXDEV: it is none). */
int placement_find_host(const char *hosts, const char *name, uint32_t *node, struct belay_error *err);
/* Set: each host has a folder of its own at the path of the run directory, and its agent is there. */
#define PLACEMENT_LOCAL_VARIABLE "BELAY_RUNDIR_LOCAL"
/*
 * The folder in which those of hosts are: rundir itself; the folder above, if rundir is one of these: a job
 * is run from a host that was not its first one (`belay restart` there). Returns 0, or -1 with err
 * (ENAMETOOLONG).
 */
int placement_hosts_dir(char *path, size_t path_bytes, const char *rundir, struct belay_error *err);
/*
 * The run directory of another host, where the first one has `rundir`. Returns 0, or -1 with err
 * (ENAMETOOLONG, EINVAL: the name).
 */
int placement_host_rundir(char *path, size_t path_bytes, const char *rundir, const char *name,
                          struct belay_error *err);

/* The run directory of a local node. Returns 0, or -1 with err (ENAMETOOLONG). */
int placement_rundir(char *path, size_t path_bytes, const char *rundir, uint32_t node,
                     struct belay_error *err);

#endif
