/*
 * refill_state.h - what the files of a refill share: refill_next.c (what is lacking, one after the other),
 * refill_copy.c (copies and tables that come), refill_give.c (those that go), refill_parity.c (parity).
 */
#ifndef BELAY_NODE_AGENT_MEMBER_REFILL_STATE_H
#define BELAY_NODE_AGENT_MEMBER_REFILL_STATE_H

#include "node-agent/loop/pool.h"
#include "node-agent/loop/timer.h"
#include "node-agent/member/incoming.h"
#include "node-agent/member/refill.h"
#include "node-agent/store/parity_part.h"

#define REFILL_NOTE_MAGIC 0x6c666572u
#define REFILL_AGAIN_MS 1000 /* until what has not been answered, or was refused, is asked for again */

enum refill_note_kind {
    REFILL_NOTE_NONE = 0,
    REFILL_NOTE_WANT,    /* a word: send this part */
    REFILL_NOTE_PART,    /* a tag: this is it */
    REFILL_NOTE_REFUSED, /* a word: it is not sent (now); error tells why */
    /* Words between the members of a parity set: */
    REFILL_NOTE_MADE,  /* the sender has all parity of the line that it has to have, in the images or spare */
    REFILL_NOTE_TAKEN, /* all of that is in the images */
};

struct refill_note {
    uint32_t magic;
    uint32_t kind; /* enum refill_note_kind */
    uint32_t epoch;
    uint32_t part, ranks; /* part of the store; ranks of the world. MADE, TAKEN: part is 0 */
    int32_t error;        /* REFUSED: errno */
    uint32_t has_shared;  /* PART, of a rank: what its group shares has its number, and is wanted, too */
    uint32_t is_answer;   /* MADE, TAKEN: to the same word, and not to be answered */
    uint64_t line;
};

/* A part that comes. */
struct refill_arrival {
    struct refill *refill; /* NULL: nobody waits for it any more */
    struct refill_note note;
    struct incoming incoming;
    bool is_dropped; /* atomic: as refill NULL */
    bool is_whole;
    uint64_t bytes; /* that it will count with */
    struct digest root;
    struct belay_error err; /* code 0: it is what it should be */
};

/* A part that goes. */
struct refill_loan {
    struct refill_loan *next;
    struct refill *refill;
    uint32_t part, node;
    struct store_pin pin;
    struct outgoing *outgoing;
};

/* Parity of a slot that is made of its sum, in a thread. */
struct refill_making {
    struct refill *refill; /* NULL: nobody waits for it any more */
    struct parity_part_request request;
    int fd; /* the part; -1 with err */
    struct belay_error err;
};

struct refill {
    struct mirror_epoch epoch; /* its arrays are those of the set */
    struct set set;
    struct gatherer *gatherer;
    refilled_f *done;
    void *context;
    struct timer *again;
    struct refill_loan *loans;

    bool is_active;       /* no line is in progress */
    uint64_t line;        /* the committed one; 0: nothing is to be done */
    bool has_given_up;    /* of that line */
    bool has_told;        /* done() was called */
    uint32_t made, taken; /* masks of positions of the set that have said so of the line */

    uint32_t asked; /* the part that is awaited; EPOCH_NOBODY: none */
    uint32_t asked_of;
    struct refill_arrival *arrival; /* of it; NULL: nothing has come */
    struct store_fetched pending;   /* of a rank, as what its group shares is awaited; fd -1: nothing */
    struct gathering *gathering;    /* of parity */
    struct refill_making *making;
    uint32_t slot; /* that is gathered or made */
};

/* ---- refill_next.c ---- */

/* The next thing that is lacking. */
void refill_step(struct refill *refill);
/* It cannot be had now: after a while. */
void refill_later(struct refill *refill);
/* It cannot be had of this line. */
void refill_give_up(struct refill *refill, const char *why);
struct refill_note refill_note_of(const struct refill *refill, enum refill_note_kind kind, uint32_t part);
/* Whether the member of this index keeps a copy, or the tables, of what the one of another runs. */
bool refill_is_keeper(const struct refill *refill, uint32_t home, uint32_t index);
/* The part of a rank that is kept for another node: a copy, or tables. */
uint32_t refill_kept_part(const struct refill *refill, uint32_t rank);

/* ---- refill_copy.c ---- */

/* Ask for what is lacking of copies and tables. False: nothing is. */
bool refill_ask_copy(struct refill *refill);
int refill_offered(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                   struct transfer_intake *intake);
/* Nothing that comes is wanted any more. */
void refill_forget_copy(struct refill *refill);

/* ---- refill_give.c ---- */

/* A part is wanted. It is sent, or the node is told that it is not. */
void refill_give(struct refill *refill, uint32_t node, const struct refill_note *note);
void refill_drop_loans(struct refill *refill);

/* ---- refill_parity.c ---- */

/* Begin to make what is lacking of parity. False: nothing is, but for what others lack. */
bool refill_make_parity(struct refill *refill);
/* All that is lacking here has been made: have it take its place once all have theirs. True: so it has. */
bool refill_settle_parity(struct refill *refill);
/* MADE or TAKEN. */
void refill_hear_member(struct refill *refill, uint32_t position, const struct refill_note *note);
void refill_forget_parity(struct refill *refill);

#endif
