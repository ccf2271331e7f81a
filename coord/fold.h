/*
 * fold.h - when contributions to parity count: the marks of a holder and of a home (docs/parity.md, "A
 * line").
 *
 * Pure. A *fold* is the parity of one slot that a holder makes for one line: it counts each member of its set
 * once, and either all contributions are deltas to the committed parity, or all of them are whole. A *guard*
 * is a rank on its way into parity, at its home. Positions are those of members in their set; masks have a
 * bit for each position.
 */
#ifndef BELAY_COORD_FOLD_H
#define BELAY_COORD_FOLD_H

#include <stdbool.h>
#include <stdint.h>

/* At a holder. */
struct fold {
    uint64_t base_line; /* of the committed parity that deltas change; 0: contributions are whole */
    uint32_t expected;  /* members that have a rank in the slot */
    uint32_t coming;    /* contributions on their way, and spoiled ones */
    uint32_t arrived;   /* the mark: contributions that are in the sum */
    bool is_made;       /* all have come, and the parity is made of them */
};

enum fold_answer {
    FOLD_NONE = 0,
    FOLD_TAKE,      /* it is to be added to the sum */
    FOLD_NEED_BASE, /* it is a delta to what is not here: all of it has to come */
    FOLD_AGAIN,     /* it has come already, or comes */
};

void fold_begin(struct fold *fold, uint32_t expected, uint64_t base_line);
/* Whether a contribution to old content of this line is whole while those before were deltas. */
bool fold_turns(const struct fold *fold, uint64_t base_line);
/* What has come is of no use. Returns the positions that have to send all of it. The sum is to be zero then.
 */
uint32_t fold_turn_whole(struct fold *fold);
/* A contribution is offered, to old content of this line (0: zeros). TAKE: it counts as coming. */
enum fold_answer fold_offer(struct fold *fold, uint32_t position, uint64_t base_line);
/*
 * What was coming is in the sum, as a whole or in part. Returns whether all have come: the parity is to be
 * made now, which is told once. A contribution of which only a part came has spoiled the sum: it stays
 * coming, so that the fold never ends.
 */
bool fold_add(struct fold *fold, uint32_t position, bool is_whole);

/* At a home. */
struct guard_marks {
    uint32_t awaited; /* holders that have not said HELD */
    uint32_t whole;   /* holders that get all of it */
};

/* has_base: there is a committed image, so that deltas go. */
void guard_begin(struct guard_marks *marks, uint32_t holders, bool has_base);
/* A holder needs all of it. Returns whether it is to be sent: not if it has been. */
bool guard_turn_whole(struct guard_marks *marks, uint32_t position);
/* A holder has its parity. Returns whether all have, which is told once: the tables go now. */
bool guard_is_held(struct guard_marks *marks, uint32_t position);

#endif
