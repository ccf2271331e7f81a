/*
 * parity_state.h - what the files of parity share: parity_epoch.c (an epoch's parity, words), parity_out.c
 * (this node's ranks on their way into the parity of others), parity_in.c (parity that is made here).
 */
#ifndef BELAY_NODE_AGENT_MEMBER_PARITY_STATE_H
#define BELAY_NODE_AGENT_MEMBER_PARITY_STATE_H

#include "coord/fold.h"
#include "node-agent/delta/pack_stream.h"
#include "node-agent/loop/pool.h"
#include "node-agent/member/parity.h"
#include "node-agent/member/set.h"
#include "node-agent/member/share.h"
#include "node-agent/store/parity_part.h"

#define PARITY_NOTE_MAGIC 0x79746972u

enum parity_note_kind {
    PARITY_NOTE_NONE = 0,
    PARITY_NOTE_PART,
    PARITY_NOTE_HELD,
    PARITY_NOTE_NEED_BASE,
    PARITY_NOTE_REFUSED
};

/* In front of a contribution, and the answer to it. */
struct parity_note {
    uint32_t magic;
    uint32_t kind; /* enum parity_note_kind */
    uint32_t epoch;
    uint32_t slot, ranks; /* ranks of the world */
    int32_t error;        /* REFUSED: errno */
    uint64_t line;
    uint64_t base_line; /* PART: of the old content; 0: that is zero */
    uint64_t packing;   /* PART: enum packing */
};

/* A rank of this node on its way into parity. */
struct parity_guard {
    struct parity_guard *next;
    uint64_t line;
    uint32_t rank, slot;
    struct guard_marks marks;
    uint64_t base_line;              /* of the old content; 0: everybody gets all of it */
    struct share_pages *delta, *all; /* NULL: not made (yet) */
};

/* A contribution that waits to be sent, or is being sent. */
struct parity_sending {
    struct parity_sending *next;
    struct parity *parity; /* NULL: cancelled */
    uint64_t line;
    uint32_t rank, slot, position;
    bool is_whole;
    struct share *share;   /* NULL: it waits */
    struct packer *packer; /* of the share; NULL: it goes as it is */
    uint64_t begun_ns;
};

/* Where contributions to a slot are added up; shared by those that come. */
struct parity_adding {
    uint32_t references;
    int fd;
    struct share_sum sum;
    struct parity_code code;
    uint32_t position; /* of this node */
};

/* The parity of a slot that is being made here. */
struct parity_gathering {
    struct parity_gathering *next;
    struct parity *parity; /* NULL: gone */
    uint64_t line;
    uint32_t slot;
    struct fold fold;
    struct parity_holding holding;
    struct parity_adding *adding;
    struct pool_work *work; /* the part is being made */
    int part;               /* that was made; -1 */
    struct belay_error err;
    struct parity_part_request request;
};

/* A contribution that comes. */
struct parity_taking {
    struct parity_taking *next;
    struct parity *parity; /* NULL: gone */
    struct parity_adding *adding;
    uint64_t line;
    uint32_t slot, position;
    struct share_intake intake;
    struct unpacker *unpacker; /* in front of it; NULL: it comes as it is */
};

struct parity {
    struct mirror_epoch epoch;
    struct set set;
    const struct parity_ops *ops;
    void *context;
    struct parity_guard *guards;
    struct parity_sending *sendings;
    uint32_t sending_count; /* of them those that do not wait */
    uint64_t sent_line, sent_bytes, sent_page_bytes;
    enum packing packing; /* that the user wants where it saves time */
    struct pack_rates pack_rates;
    struct parity_gathering *gatherings;
    struct parity_taking *takings;
};

/* ---- parity_epoch.c ---- */

/* Is it a note of this epoch? Fills *note. */
bool parity_read_note(const struct parity *parity, const void *bytes, size_t count, struct parity_note *note);
/* An errno value of a link or of the other node. */
const char *parity_tell_error(int error);
void parity_fail(struct parity *parity, uint64_t line, uint32_t rank, uint32_t node, const char *why);

/* ---- parity_out.c ---- */

/* The holder at a position says something of a rank of this node, of the line in progress. */
void parity_hear_holder(struct parity *parity, uint32_t position, const struct parity_note *note);
void parity_drop_guards(struct parity *parity);

/* ---- parity_in.c ---- */

/* A contribution is offered (struct remotes_ops); context is the parity. */
int parity_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                   struct transfer_intake *intake);
void parity_drop_gatherings(struct parity *parity);
/* Nothing that comes is of use any more; the fabric may still give to it. */
void parity_leave_takings(struct parity *parity);

#endif
