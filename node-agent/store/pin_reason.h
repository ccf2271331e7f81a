/*
 * pin_reason.h - what an image is pinned for (pin.h).
 */
#ifndef BELAY_NODE_AGENT_STORE_PIN_REASON_H
#define BELAY_NODE_AGENT_STORE_PIN_REASON_H

enum pin_reason {
    PIN_NONE = 0,
    PIN_MAPPED,   /* a process is restored from it, and has it mapped */
    PIN_COPIED,   /* a copy of it is being made */
    PIN_FETCHED,  /* another node is fetching it */
    PIN_SCRUBBED, /* it is being compared with its sums */
    PIN_ARCHIVED, /* it is being written to the archive */
    PIN_REASONS,  /* how many there are */
};

#endif
