/*
 * member.h - one node's part in the epochs of a job: what it promises, how long it may run its ranks, which
 * orders of a coordinator it obeys, what its records say, and what becomes of what it holds.
 *
 * Pure: events in, actions out. Times are microseconds of the node's own monotonic clock and come with each
 * event. No socket, thread or output, and no memory that outlives member_destroy(). Whoever runs it (the node
 * agent, or the simulation) carries messages, keeps the record where it outlives the agent, does the work,
 * and steps the machine at member_wake_us(). The rules are those of docs/line.md, "Epochs and the lease" and
 * "The agent's side".
 *
 * An agent's life: BEGIN, which takes up what an earlier life has left; then epochs, each from START to the
 * next INQUIRE, or to the end of the lease. Between them the node runs no ranks and obeys nobody.
 */
#ifndef BELAY_COORD_MEMBER_H
#define BELAY_COORD_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/coord.h"
#include "coord/epoch.h"

struct member;

struct member_settings {
    uint32_t node; /* its number */
    enum scheme scheme;
    uint64_t lease_us;  /* as the arbiter's; 0: none is needed */
    uint64_t guard_us;  /* the node stops its ranks this long before the lease ends */
    uint64_t repeat_us; /* how often it asks for its lease, and says again what may have been lost */
};

/* What outlives the agent, as long as the node's memory does. */
struct member_record {
    uint64_t incarnation; /* of that memory: random */
    uint32_t promised;    /* newest epoch that an arbiter has asked about */
    uint32_t entered;     /* newest epoch that it took part in */
    uint64_t last_line;   /* largest number that a line has had here */
    uint64_t committed_line;
    uint64_t protected_line; /* 0: none, or a capture writes over it */
    uint32_t protected_epoch;
};

enum member_event_type {
    MEMBER_EVENT_NONE = 0,
    MEMBER_EVENT_BEGIN,     /* the agent begins; once, before all others */
    MEMBER_EVENT_TICK,      /* member_wake_us() has come */
    MEMBER_EVENT_INQUIRE,   /* from the arbiter: epoch, which it is about to open; room, held */
    MEMBER_EVENT_START,     /* from the arbiter: start, held */
    MEMBER_EVENT_PLACED,    /* from the arbiter: start, of the epoch that runs: its ranks have come up */
    MEMBER_EVENT_GRANT,     /* from the arbiter: epoch, asked_us */
    MEMBER_EVENT_LINK_LOST, /* epoch, peer: the link that both had in this epoch is gone */
    MEMBER_EVENT_RANK_LOST, /* epoch: one of our ranks */
    MEMBER_EVENT_FETCH,     /* epoch, peer, rank, line: it needs this image; image_line: of ours */
    MEMBER_EVENT_IMAGE,     /* epoch, rank, line: an image that we needed is here now */
    /* of a line */
    MEMBER_EVENT_ORDER,     /* epoch, line, order: the coordinator's */
    MEMBER_EVENT_CAPTURED,  /* line, rank: it is staged */
    MEMBER_EVENT_DATA,      /* epoch, peer, line, rank, base_line: what it has staged; image_line: of ours */
    MEMBER_EVENT_HELD,      /* epoch, line, rank: it is where the scheme wants it */
    MEMBER_EVENT_NEED_BASE, /* epoch, line, rank: our partner has not the image that it rests on */
    MEMBER_EVENT_APPLIED,   /* line: it is in all images */
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
    uint32_t room;
    uint32_t held_count;
    const struct holding *held;      /* by rank, what this node holds; borrowed for the call */
    const struct epoch_start *start; /* borrowed for the call */
};

enum member_action_type {
    MEMBER_ACTION_NONE = 0,
    MEMBER_ACTION_RECORD, /* record: it outlives the agent when the callback returns 0 */
    MEMBER_ACTION_STOP,   /* no rank of this job runs on the node any more when the callback returns, none is
                             captured, and the coordinator, if it was here, is gone */
    MEMBER_ACTION_APPLY,  /* line: bring what is staged of it into the images; drop nothing */
    MEMBER_ACTION_SETTLE, /* line: the same, then drop all else that is staged */
    /* to the arbiter */
    MEMBER_ACTION_ANSWER,  /* epoch, state */
    MEMBER_ACTION_RENEW,   /* epoch, asked_us */
    MEMBER_ACTION_TROUBLE, /* epoch */
    /* an epoch */
    MEMBER_ACTION_ENTER,      /* start */
    MEMBER_ACTION_COORDINATE, /* start: the coordinator of the epoch is here */
    MEMBER_ACTION_FENCE, /* until_us: ranks must not run after that, whatever becomes of the agent; stands
                            where whoever outlives it sees it when the callback returns */
    MEMBER_ACTION_FETCH, /* to peer: epoch, rank, line */
    MEMBER_ACTION_SEND_IMAGE, /* to peer: epoch, rank, line */
    MEMBER_ACTION_LAUNCH,     /* our ranks, from line */
    MEMBER_ACTION_READY,      /* to the coordinator: they run */
    /* a line */
    MEMBER_ACTION_OBEY,      /* order, line */
    MEMBER_ACTION_SAY,       /* to the coordinator: word, line */
    MEMBER_ACTION_PROTECT,   /* to peer (EPOCH_NOBODY: the scheme wants no copy, HELD follows at once): line,
                                rank,   is_whole: what is staged, or a whole image made with it */
    MEMBER_ACTION_ADMIT,     /* line, rank: keep what has come; it outlives the agent when 0 is returned */
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
 * RECORD and ADMIT it may return -1 with errno: then what was to follow is not done or said.
 */
typedef int (*member_action_f)(void *context, const struct member_action *action);

/* record: of the node's memory; copied. NULL with ENOMEM. */
struct member *member_create(const struct member_settings *settings, const struct member_record *record,
                             member_action_f emit, void *context);
/* Accepts NULL. Says and does nothing. */
void member_destroy(struct member *member);

/*
 * Take one event. What does not fit (another epoch, line or phase, said already) is ignored. Returns 0, or -1
 * with ENOMEM, EINVAL (a number out of range), or RECORD's or ADMIT's errno; of a line the coordinator has
 * been told then.
 */
int member_step(struct member *member, const struct member_event *event);

/* When a TICK is due at the latest, UINT64_MAX: never. Changes with each step. */
uint64_t member_wake_us(const struct member *member);
const struct member_record *member_record(const struct member *member);
/* The epoch that the node has a part in, 0: none. */
uint32_t member_epoch(const struct member *member);
/* The line in progress, 0: none. */
uint64_t member_line(const struct member *member);

#endif
