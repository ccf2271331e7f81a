/* member_types.h - what goes into a member and comes out of it: settings, record, events and actions. */
#ifndef BELAY_COORD_MEMBER_TYPES_H
#define BELAY_COORD_MEMBER_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/coord.h"
#include "coord/epoch.h"

struct member_settings {
    uint32_t node; /* its number */
    enum scheme scheme;
    uint64_t lease_us;  /* as the arbiter's; 0: no lease is needed */
    uint64_t guard_us;  /* the node stops its ranks this long before the lease ends */
    uint64_t repeat_us; /* how often it asks for its lease, and repeats messages that may have been lost */
};

/* The member's record: it outlives the agent, as long as the node's memory lasts. */
struct member_record {
    uint64_t incarnation; /* of the node's memory: random */
    uint32_t promised;    /* newest epoch that an arbiter has asked about */
    uint32_t entered;     /* newest epoch that it took part in */
    uint64_t last_line;   /* largest number that a line has had here */
    uint64_t committed_line;
    uint64_t protected_line; /* 0: none, or a capture overwrites its staging */
    uint32_t protected_epoch;
};

enum member_event_type {
    MEMBER_EVENT_NONE = 0,
    MEMBER_EVENT_BEGIN,   /* the agent begins; once, before all others */
    MEMBER_EVENT_TICK,    /* member_wake_us() has come */
    MEMBER_EVENT_INQUIRE, /* from the arbiter: epoch, which it is about to open; room, processor, memory, held
                           */
    MEMBER_EVENT_START,   /* from the arbiter: start, held, roots */
    MEMBER_EVENT_PLACED,  /* from the arbiter: start, of the epoch that runs: its ranks have come up */
    MEMBER_EVENT_GRANT,   /* from the arbiter: epoch, asked_us */
    MEMBER_EVENT_LINK_LOST, /* epoch, peer: the link to this node in this epoch is gone */
    MEMBER_EVENT_RANK_LOST, /* epoch: one of our ranks */
    MEMBER_EVENT_FETCH,     /* epoch, peer, rank, line: peer needs this image; image_line: of ours */
    MEMBER_EVENT_IMAGE,     /* epoch, rank, line: an image that this node needed has come */
    /* of a line */
    MEMBER_EVENT_ORDER,     /* epoch, line, order, is_refuted: the coordinator's */
    MEMBER_EVENT_CAPTURED,  /* line, rank: the rank is staged */
    MEMBER_EVENT_DATA,      /* epoch, peer, line, rank, base_line: peer's staging; image_line: of ours */
    MEMBER_EVENT_HELD,      /* epoch, line, rank: the copies that the scheme wants are there */
    MEMBER_EVENT_NEED_BASE, /* epoch, line, rank: the partner does not have the delta's base image */
    MEMBER_EVENT_APPLIED,   /* line: it is applied to all images */
};

struct member_event {
    enum member_event_type type;
    uint64_t now_us;
    uint32_t epoch;
    uint32_t peer; /* node */
    uint32_t rank;
    uint64_t line, base_line, image_line;
    uint64_t asked_us;
    enum coord_action_type order;
    bool is_refuted; /* ORDER: ABORT, and no verdict may choose the line */
    uint32_t room;
    uint64_t processor;
    struct epoch_memory memory; /* what it borrows is borrowed for the call */
    uint32_t held_count;
    const struct holding *held;      /* by rank, what this node holds; borrowed for the call */
    const struct digest *roots;      /* START: two for each rank of held, as in epoch_state; borrowed for the
                                        call; NULL: none is known */
    const struct epoch_start *start; /* borrowed for the call */
};

enum member_action_type {
    MEMBER_ACTION_NONE = 0,
    MEMBER_ACTION_RECORD, /* record: to outlive the agent when the callback returns 0 */
    MEMBER_ACTION_STOP,   /* no rank of this job runs on the node any more when the callback returns, none is
                             captured, and the coordinator, if it was here, is gone */
    MEMBER_ACTION_APPLY,  /* line: apply its staging to the images; drop nothing */
    MEMBER_ACTION_SETTLE, /* line: the same, then drop all other staging */
    /* to the arbiter */
    MEMBER_ACTION_ANSWER,  /* epoch, state */
    MEMBER_ACTION_RENEW,   /* epoch, asked_us */
    MEMBER_ACTION_TROUBLE, /* epoch */
    /* an epoch */
    MEMBER_ACTION_ENTER,      /* start */
    MEMBER_ACTION_COORDINATE, /* start: the coordinator of the epoch is here */
    MEMBER_ACTION_FENCE, /* until_us: ranks must not run after that, even without the agent; when the callback
                            returns, the keeper (which outlives the agent) knows this time */
    MEMBER_ACTION_FETCH, /* to peer: epoch, rank, line */
    MEMBER_ACTION_SEND_IMAGE, /* to peer: epoch, rank, line */
    MEMBER_ACTION_LAUNCH,     /* launch the node's ranks, from line */
    MEMBER_ACTION_READY,      /* to the coordinator: they run */
    /* a line */
    MEMBER_ACTION_OBEY,      /* order, line */
    MEMBER_ACTION_SAY,       /* to the coordinator: word, line */
    MEMBER_ACTION_PROTECT,   /* to peer: line, rank, is_whole: send the rank's staging, or a whole image made
                                with it; peer EPOCH_NOBODY: the scheme wants no copy, HELD follows at once */
    MEMBER_ACTION_ADMIT,     /* line, rank: keep the copy that has come; it is to outlive the agent when 0 is
                                returned */
    MEMBER_ACTION_HELD,      /* to peer: epoch, line, rank */
    MEMBER_ACTION_NEED_BASE, /* to peer: epoch, line, rank */
};

struct member_action {
    enum member_action_type type;
    uint32_t epoch;
    uint32_t peer;
    uint32_t rank;
    uint64_t line;
    uint64_t asked_us, until_us;
    enum coord_action_type order;
    enum coord_event_type word;
    bool is_whole;
    const struct member_record *record; /* all pointers are valid during the callback */
    const struct epoch_state *state;
    const struct epoch_start *start;
};

/*
 * Called for each action, in order, from within member_step(), which it must not call. Returns 0; only for
 * RECORD and ADMIT it may return -1 with errno: then the actions that rely on it do not follow.
 */
typedef int (*member_action_f)(void *context, const struct member_action *action);

#endif
