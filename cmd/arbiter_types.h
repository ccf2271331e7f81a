/*
 * arbiter_types.h - what the arbiter of `belay run` is told and tells. See arbiter.h.
 */
#ifndef BELAY_CMD_ARBITER_TYPES_H
#define BELAY_CMD_ARBITER_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/epoch.h"

struct job_arbiter;

/* What an epoch is opened for. */
struct job_arbiter_launch {
    uint32_t launcher_pid;
    bool forwards_output; /* this process takes the ranks' output from the streams */
    double detect_ms;     /* from the first sign of a loss until the former launch had ended; 0: none */
};

/* The nodes of a job. */
struct job_arbiter_nodes {
    uint32_t count;     /* spares included */
    uint32_t max_count; /* that an epoch has, the others are spares */
    uint32_t min_count; /* an epoch is not opened with fewer */
    enum scheme scheme;
    struct parity_code code; /* of SCHEME_PARITY */
    const uint32_t *domains; /* by node: its failure domain; NULL: each is one */
    const uint32_t *placed;  /* by rank: the node on which it is already; NULL: the arbiter chooses */
    uint32_t placed_count;
    uint32_t fan_out;   /* of the tree over the members; 0: as Belay chooses */
    uint64_t lease_ms;  /* members need a lease of this length; 0: they need none */
    uint64_t rested_ms; /* for so long no arbiter before this process has given leases; 0: not known */
    bool binds_leases;  /* see job_arbiter_renew() */
};

/* What has become of a node's agent while an epoch was opened. */
enum job_arbiter_failure {
    JOB_ARBITER_FINE = 0,
    JOB_ARBITER_LOST,   /* it has gone */
    JOB_ARBITER_SILENT, /* it does not answer */
};

/* Gives a member the lease for which it has asked then, by its own clock. */
typedef void job_arbiter_grant_f(void *context, uint32_t node, uint32_t epoch, uint64_t asked_us);

#endif
