/*
 * lines.h - lines of a job on so many nodes, taken with the machines that the agents run: what they cost.
 */
#ifndef BELAY_TESTS_SIM_SCALE_LINES_H
#define BELAY_TESTS_SIM_SCALE_LINES_H

#include <stdint.h>

struct lines_cost {
    double messages_mean, messages_largest; /* of a node and a line, sent and received */
    double bytes_mean, bytes_largest;
    double chain;    /* messages of a line that depend on one another */
    double time;     /* of a line, in messages that one node sends or takes one after the other */
    double versions; /* of the targets */
    double links_mean, links_largest;
    double busiest_ms;    /* processor time of the coordinator's machine and messages, a line */
    double machine_bytes; /* memory of that machine */
    double watch_bytes;   /* of the machine of one member */
};

struct lines_job {
    uint32_t nodes, per_node; /* ranks of each */
    uint32_t lines;           /* to be taken */
    uint32_t arity;           /* of the tree */
};

/* Ends the process if one does not commit, or without memory. */
void lines_run(const struct lines_job *job, struct lines_cost *cost);

#endif
