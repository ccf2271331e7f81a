/*
 * epoch_state.h - what is known of a launch and of its ranks.
 */
#ifndef BELAY_NODE_AGENT_LAUNCH_EPOCH_STATE_H
#define BELAY_NODE_AGENT_LAUNCH_EPOCH_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "coord/verdict.h"
#include "node-agent/job/job.h"
#include "node-agent/job/remains.h"
#include "node-agent/launch/launcher.h"
#include "node-agent/rank/rank.h"

struct epoch {
    struct job *job;
    uint32_t number;
    uint64_t restore_line;  /* 0: from the start */
    uint32_t ranks;         /* of the world; 0: no hello yet */
    uint32_t here;          /* of them on this node (places.h) */
    struct rank **table;    /* by number; NULL: not there yet, or on another node */
    struct store_pin *pins; /* by number, of the images that they are restored from */
    uint32_t joined, gone;
    uint64_t begin_ns;          /* CLOCK_MONOTONIC */
    bool is_ready;              /* all have joined and have left CONTROL_STATE_NONE */
    bool has_lines;             /* is_ready, and the arbiter knows the placement: lines may be taken */
    bool is_guarded;            /* the keeper knows of its ranks, and kills them when the lease is over */
    bool is_killed;             /* the agent has killed the ranks */
    bool has_loss;              /* a rank is gone without having announced its exit */
    bool has_abort;             /* a rank has called MPI_Abort */
    bool is_asking;             /* the arbiter, for the next */
    enum control_answer answer; /* to ranks that have announced an end of all */
    char refused[VERDICT_REASON_BYTES];
    struct launcher launcher;
    char launch[64];                        /* of the ranks; "": it has no name */
    char turned_away[VERDICT_REASON_BYTES]; /* why another program was not let in; "": none came */
    bool has_second;                        /* the user has been told of another program */
    bool has_launch_ended;
    struct connection *facts_to; /* the arbiter, while it waits to hear how the ranks ended */
    struct timer *patience;      /* for a launcher that does not end after a loss, and the like */
    struct timer *nudge;         /* for a launcher that sleeps after a loss */
    unsigned kills;              /* how often patience has run out */
    struct remains remains;      /* what its processes may leave behind */
};

/* For the files of an epoch (epoch*.c) only. */

/* Room for the ranks of the world. Returns 0, or -1 with err. */
int epoch_make_table(struct epoch *epoch, uint32_t ranks, struct belay_error *err);
/* What the rank's process may leave behind, as it has said by now. */
void epoch_note_remains(struct epoch *epoch, const struct rank *rank);
/* Whether all of its ranks that belong here have come, and run. */
bool epoch_is_up(const struct epoch *epoch);
/* They do: tell the arbiter, and begin with lines once it knows where they are. */
void epoch_become_ready(struct epoch *epoch);
void epoch_place_ranks(struct epoch *epoch);

#endif
