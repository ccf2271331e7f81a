/*
 * choice.h - whether a delta goes to another node in whole pages or in lines of 64 bytes: what costs less
 * time, by the model (model.h), a sample of its pages, and what comparing and sending take on this machine.
 */
#ifndef BELAY_NODE_AGENT_DELTA_CHOICE_H
#define BELAY_NODE_AGENT_DELTA_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"

enum granularity {
    GRANULARITY_NONE = 0,
    GRANULARITY_AUTO, /* by the model */
    GRANULARITY_PAGE,
    GRANULARITY_LINE,
};

/* By its name in settings; NONE: there is no such granularity. */
enum granularity granularity_parse(const char *name);
const char *granularity_name(enum granularity granularity);

/* What a byte takes, in seconds; each follows what was measured. */
struct choice_rates {
    double compare_s; /* of a page, to be compared with the image and packed: of its memory */
    double send_s;    /* until the other node has it */
    bool has_sent;    /* send_s was measured */
};

/* At the agent's start: compares memory of its own, which takes some milliseconds. Nothing is known of links.
 */
void choice_measure(struct choice_rates *rates);
/* In use: so many bytes took so long. */
void choice_note_compared(struct choice_rates *rates, uint64_t bytes, uint64_t ns);
void choice_note_sent(struct choice_rates *rates, uint64_t bytes, uint64_t ns);

struct choice {
    enum granularity granularity; /* PAGE or LINE */
    uint64_t pages;               /* of the delta */
    double share;                 /* of the lines of its pages, that changed, in the sample */
    double exponent;              /* a, of model.h */
    double page_s, line_s;        /* what the model says of both */
};

/*
 * Choose. delta and base are those of encode_delta(). `wanted` may be a granularity that the user has set,
 * which is chosen then. May run in a pool thread; reads the sample, 1 MiB at most of each, and the tables.
 * Returns 0, or -1 with err.
 */
int choice_make(const struct choice_rates *rates, enum granularity wanted, int delta, int base,
                struct choice *choice, struct belay_error *err);

#endif
