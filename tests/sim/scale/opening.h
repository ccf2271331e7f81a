/*
 * opening.h - an epoch that is opened after the loss of one node, with the arbiter that ships: what it costs.
 */
#ifndef BELAY_TESTS_SIM_SCALE_OPENING_H
#define BELAY_TESTS_SIM_SCALE_OPENING_H

#include <stdint.h>

struct opening_cost {
    double messages;   /* of the arbiter, sent and taken */
    double bytes;      /* of these, all together */
    double decide_ms;  /* processor time from the last answer to the decision: the choice of the line and the
                          placement */
    double told_bytes; /* of the decision, as the member is told it that is told most */
    double tell_ms;    /* processor time of making what all members are told, without packing it */
    double arbiter_ms; /* of all its steps */
    double arbiter_bytes; /* memory of the machine before the decision */
};

/* Ends the process if no epoch is opened, or without memory. */
void opening_run(uint32_t nodes, uint32_t per_node, struct opening_cost *cost);

#endif
