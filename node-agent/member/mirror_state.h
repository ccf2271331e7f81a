/*
 * mirror_state.h - what the files of the mirror share: mirror_epoch.c (an epoch's mirror, words),
 * mirror_out.c (copies of this node's ranks on their way to their keepers), mirror_in.c (copies of guests'
 * parts that come).
 */
#ifndef BELAY_NODE_AGENT_MEMBER_MIRROR_STATE_H
#define BELAY_NODE_AGENT_MEMBER_MIRROR_STATE_H

#include "node-agent/member/incoming.h"
#include "node-agent/member/mirror.h"
#include "node-agent/member/outgoing.h"
#include "node-agent/member/rooting.h"

#define MIRROR_NOTE_MAGIC 0x746f6e6du

enum mirror_note_kind {
    MIRROR_NOTE_NONE = 0,
    MIRROR_NOTE_PART,
    MIRROR_NOTE_HELD,
    MIRROR_NOTE_NEED_BASE,
    MIRROR_NOTE_REFUSED
};

/* In front of a part, and the answer to it. */
struct mirror_note {
    uint32_t magic;
    uint32_t kind; /* enum mirror_note_kind */
    uint32_t epoch;
    uint32_t part, ranks; /* part of the store; ranks of the world */
    int32_t error;        /* REFUSED: errno */
    uint64_t packing;     /* PART: enum packing */
    uint64_t line;
    uint64_t base_line; /* PART: of a delta; 0: an image */
    struct digest root; /* HELD: of the image that the copy is, or makes */
};

/* A part that waits to be sent, or is being sent. */
struct mirror_sending {
    struct mirror_sending *next;
    struct mirror *mirror;
    uint64_t line;
    uint32_t part, member;
    bool is_whole;
    struct outgoing *outgoing; /* NULL: it waits */
};

/* The root of a part here, and of its copy: only if they are the same is the copy one. */
struct mirror_proof {
    struct mirror_proof *next;
    struct mirror *mirror;
    uint64_t line;
    uint32_t part, member;   /* that keeps the copy */
    struct rooting *rooting; /* NULL: own is known */
    bool is_held;            /* there: its root has come */
    struct digest own, its;
};

/* A guest's part that comes. */
struct mirror_taking {
    struct mirror_taking *next;
    struct mirror *mirror; /* NULL: gone */
    struct mirror_note note;
    uint32_t node;           /* that sends it */
    bool is_whole;           /* all of it is there */
    struct rooting *rooting; /* it has come, and its root is computed; NULL: not */
    struct digest root;
    struct incoming incoming;
    struct unpacker *unpacker; /* in front of it; NULL: it comes as it is */
};

struct mirror {
    struct mirror_epoch epoch;
    uint32_t *members, *placement; /* of it */
    uint32_t own;                  /* index */
    mirror_failed_f *failed;
    void *context;
    struct mirror_sending *sendings;
    uint32_t sending_count; /* of them those that do not wait */
    uint64_t sent_line;     /* the one that was sent last */
    struct peer_sent sent;
    struct choice_rates rates;
    enum packing packing; /* that the user wants where it saves time */
    struct pack_rates pack_rates;
    struct mirror_proof *proofs;
    struct mirror_taking *takings;
    const struct mirror_note *asked; /* the part that the machine is asked about; NULL: none */
};

/* ---- mirror_epoch.c ---- */

/* Whether a member keeps copies, or tables, of what member `home` runs. */
bool mirror_is_keeper(const struct mirror *mirror, uint32_t home, uint32_t index);
/* The rank that the machine knows a part by: what a group shares goes with the rank of its number. */
uint32_t mirror_rank_of(const struct mirror *mirror, uint32_t part);
/* Of the part of the store at the other node: its tables alone go there. */
bool mirror_is_tables(const struct mirror *mirror, uint32_t part);
/* Is it a note of this epoch? Fills *note. */
bool mirror_read_note(const struct mirror *mirror, const void *bytes, size_t count, struct mirror_note *note);

/* ---- mirror_out.c ---- */

/* A keeper's word about a copy of ours, of the line in progress. */
void mirror_hear_keeper(struct mirror *mirror, uint32_t node, uint32_t member,
                        const struct mirror_note *note);

/* ---- mirror_in.c ---- */

/* A part is offered (struct remotes_ops); context is the mirror. */
int mirror_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                   struct transfer_intake *intake);
/* Nothing that comes is of use any more; the fabric may still give to it. */
void mirror_leave_takings(struct mirror *mirror);

#endif
