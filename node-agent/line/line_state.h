/*
 * line_state.h - what the files of this room share: the state of a job's lines, and the steps between them.
 */
#ifndef BELAY_NODE_AGENT_LINE_LINE_STATE_H
#define BELAY_NODE_AGENT_LINE_LINE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/coord.h"
#include "coord/targets.h"
#include "node-agent/job/membership.h"
#include "node-agent/line/line.h"
#include "node-agent/line/line_actions.h"
#include "node-agent/line/line_ahead.h"
#include "node-agent/line/line_apply.h"
#include "node-agent/line/line_capture.h"
#include "node-agent/line/line_measure.h"
#include "node-agent/line/line_pace.h"
#include "node-agent/line/line_requests.h"

#define OWN_AGENT 0u /* of the coordinator's agents: there is one node */

/* What is known of a rank in the line in progress. */
struct member {
    struct rank *rank;
    bool is_read;  /* its report was read after the strobe */
    bool has_sent; /* sent is valid */
    struct coord_report sent;
    int32_t sent_peers[CONTROL_MAX_PEERS];
    bool is_parked;
    bool has_failed; /* it cannot do its part */
};

struct line {
    struct job *job;
    struct coord *coord;
    uint32_t epoch;
    struct rank *const *ranks; /* of the epoch; NULL: no epoch is open */
    struct member *members;
    struct memory **memories; /* of the ranks */
    struct memory **former;   /* of the ranks of the epoch before, until the next one is open; NULL: none */
    uint32_t former_count;
    struct shared *shared; /* what they share */
    bool has_complained;   /* that something of it cannot be captured ... */
    bool has_told_lost;    /* ... or brought back */
    uint32_t unseen_told;  /* see memories_look() */
    char refusal[512];     /* why no line is taken of this launch; "": lines are */
    bool is_closed;        /* the ranks of this epoch end: what becomes of a line is no news */
    uint32_t count;
    uint64_t number;          /* of the line in progress, 0: none */
    bool is_impatient;        /* it takes long to converge */
    uint32_t targets_version; /* newest, 0: none yet */
    uint32_t parked;
    struct targets clocks;        /* the largest of our ranks */
    struct targets ordered;       /* being handed to our ranks */
    struct line_ahead *ahead;     /* what was written is copied before the ranks are told to converge */
    struct line_capture *capture; /* until the line has committed or aborted */
    struct line_apply *apply;     /* deltas of the committed line are being applied */
    struct line_copy *copy;       /* after a restart: the images are being copied; deltas wait for it */
    struct timer *patience;       /* with the convergence */
    struct timer *copy_delay;     /* until that begins */
    bool is_apply_due;            /* a line has committed, and its deltas wait for the copies */
    bool is_apply_told;           /* that deltas could not be applied */
    struct timer *apply_again;    /* until that is tried again */
    struct line_actions actions;
    bool is_acting; /* the actions are being carried out */
    struct line_requests requests;
    struct line_pace pace;
    struct line_measure measure;  /* of the line in progress */
    struct line_measure settling; /* of the committed line whose ranks do not all run again yet */
    struct timer *settle_limit;   /* bounds the wait for them */
};

/* line.c: one event for the coordinator, and everything that follows from it. */
void line_step(struct line *line, struct coord_event event);
/* The same, of the line in progress. */
void line_say(struct line *line, enum coord_event_type type, const char *reason);

/* line_watch.c: a rank's report is fresh: tell the coordinator what it needs to know of it. */
void line_look_at(struct line *line, struct member *member);

/* line_settle.c: a committed line's measurements are final: write them down and tell those who wait. */
void line_settle(struct line *line);
/* The same, if all ranks run again. */
void line_settle_if_resumed(struct line *line);
void line_on_settle_limit(void *context);
/* Tell the arbiter how a line ended. */
void line_tell(struct line *line, const struct history_line *entry);

#endif
