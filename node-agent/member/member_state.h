/*
 * member_state.h - shared by the files of this folder: the state of this node's part in a job's lines.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_MEMBER_STATE_H
#define BELAY_NODE_AGENT_MEMBER_MEMBER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/watch.h"
#include "node-agent/archive/archiver.h"
#include "node-agent/job/job.h"
#include "node-agent/job/membership.h"
#include "node-agent/link/link.h"
#include "node-agent/member/gather.h"
#include "node-agent/member/line_ahead.h"
#include "node-agent/member/line_apply.h"
#include "node-agent/member/line_capture.h"
#include "node-agent/member/line_copy.h"
#include "node-agent/member/line_next.h"
#include "node-agent/member/mirror.h"
#include "node-agent/member/parity.h"
#include "node-agent/member/refill.h"
#include "node-agent/member/scrub.h"
#include "node-agent/member/times.h"
#include "node-agent/member/verify.h"
#include "node-agent/redundancy/redundancy.h"

struct line_member_epoch;

struct line_member {
    struct job *job;

    /* the epoch */
    uint32_t epoch; /* 0: none is open */
    uint32_t node, host_node;
    uint32_t world;                /* ranks of the job */
    struct link *link;             /* to the host; NULL: none, or it is lost */
    bool takes_lines;              /* of this epoch's ranks */
    bool has_closed;               /* the host knows that the program ends */
    uint32_t count;                /* of ranks here */
    struct rank **ranks;           /* by ascending world rank */
    struct watch *watch;           /* of them, in the same order */
    struct memory **memories;      /* of the ranks */
    struct redundancy *redundancy; /* of the images */
    struct mirror *mirror;         /* to and from other members; NULL: no copies are made */
    struct parity *parity;         /* with other members of the set; NULL: there is no parity */
    struct gatherer *gatherer;     /* of what parity follows from; NULL as parity */
    struct refill *refill;         /* of what a restart has left lacking; NULL as mirror */
    struct verifier *verifier;     /* of the images */
    struct loads *loads;           /* images that come while their ranks run; NULL: none does */
    struct shared *shared;         /* what they share */
    bool has_complained;           /* that something of it cannot be captured ... */
    bool has_told_lost;            /* ... or brought back */
    bool has_told_held;            /* ... and of a process that holds up lines, */
    uint32_t held_lines;           /* so many in a row so far */
    uint32_t unseen_told;          /* see memories_look() */
    enum policy policy;            /* of the job */

    /* the epoch before, until the next one is open */
    struct memory **former; /* NULL: none */
    uint32_t *former_ranks; /* of the world, ascending */
    uint32_t former_count;

    /* the line in progress */
    uint64_t line;                       /* 0: none */
    const struct peer_message *arrived;  /* the order that is being obeyed */
    char failure[CONTROL_FAILURE_BYTES]; /* of a rank, as it is being told */
    struct timer *patience;              /* with the convergence */
    struct line_ahead *ahead;            /* what was written is copied before the ranks converge */
    struct line_capture *capture;        /* until the line has committed or aborted */
    bool awaits_images;                  /* it is captured, and an image that it changes is still to come */
    struct line_times times;             /* of the line in progress */

    struct archive_ends *ends; /* of its ranks' output, as the line has found it; NULL: not noted */
    uint32_t end_count;

    /* committed lines */
    bool archives;              /* the newest one is written to files once it is in the images */
    uint64_t committed_line;    /* newest of this epoch, 0: none */
    struct line_times settling; /* of the line whose ranks do not all run again yet */
    struct timer *settle_limit; /* bounds the wait for them */
    struct line_apply *apply;   /* deltas of the committed line are being applied */
    struct line_next *next;     /* they are applied, and memory is being made for the next ones */
    struct line_copy *copy;     /* after a restart: the images are being copied; deltas wait for it */
    struct timer *copy_delay;   /* until that begins */
    bool is_apply_due;          /* a line has committed, and its deltas wait for the copies */
    bool is_apply_told;         /* that deltas could not be applied */
    struct timer *apply_again;  /* until that is tried again */
    struct scrub *scrub;        /* of the images, between lines; NULL before the first epoch */
};

/* orders.c: what the machine says is to be done. */
extern const struct membership_ops member_ops;
void member_on_held(void *context, uint64_t line, uint32_t rank);
void member_encode(void *context, uint64_t line, uint32_t rank);
void member_on_parity(void *context, uint64_t line, uint32_t rank);
void member_send_copy(void *context, uint64_t line, uint32_t rank, uint32_t to, bool is_whole);
void member_on_unprotected(void *context, uint64_t line, const char *reason, bool is_refuted);
void member_on_patience(void *context);
/* The line is captured: say so, if the images that it changes are here. */
void member_say_captured(struct line_member *member);
/* Whether images of its ranks are still to come. */
bool member_is_loading(const struct line_member *member);

/* commit.c */
int member_record_commit(void *context, uint64_t line);
void member_commit(struct line_member *member);
void member_on_copy_delay(void *context);
void member_on_apply_again(void *context);
/* The epoch ends: what was committed is what a restart gets. */
void member_finish_apply(struct line_member *member);
/* A committed line's measurements are final: tell the host. Without one: nothing. */
void member_settle(struct line_member *member);
/* The same, if all ranks run again. */
void member_settle_if_resumed(struct line_member *member);
void member_on_settle_limit(void *context);

/* damage.c: images are compared with their sums while no line is taken. */
void member_on_damaged(void *context, uint32_t part, const struct belay_error *damage);
int member_scrub_begin(struct line_member *member, struct belay_error *err);
/* If nothing is in progress that needs the images or the memory of ranks. */
void member_scrub_go_on(struct line_member *member);
void member_scrub_rest(struct line_member *member);

/* damage.c: what other members lost is made again while no line is taken, unless the job is to wait. */
void member_refill_go_on(struct line_member *member);
void member_on_refilled(void *context, uint64_t line);

/* watch.c: of an epoch's ranks. NULL: out of memory. */
struct watch *member_watch_create(struct line_member *member, const struct line_member_epoch *epoch);
/* A rank's report is fresh: tell the host what it needs to know of it. */
void member_look_at(struct line_member *member, uint32_t index);

#endif
