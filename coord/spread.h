/*
 * spread.h - where the ranks of an epoch run: which member, and which member has the image that a rank goes
 * on from.
 *
 * A rank stays where it ran if its image is there and there is room. The other ranks are spread so that no
 * member gets more ranks than necessary. Among the members with so few ranks, a rank goes to the member that
 * has taken the place of its lost node, else to one that has its image, else to one whose copies are kept
 * where the image is, else to the one with the fewest ranks. A rank that goes on from an image goes to a
 * member whose processors are of the kind that it ran on; each kind of members is spread over by itself.
 *
 * Ranks that are bound and ran on one member are placed on one member again, whatever the balance: what they
 * shared is for all of them. They stay where they ran; if that member is lost, the best one for all of them
 * gets them.
 *
 * Where the launcher has put the ranks already, they stay, and only the holders are chosen: EXDEV if ranks
 * that are bound to one another are apart, if a rank's processors are other ones, or if there is another
 * number of ranks.
 *
 * A rank that moves goes where there is memory for it (budget.h): for its process, for its image if that is
 * not there, for what a line stages of it, and for its redundancy: on the member's partner for the copy, or,
 * with parity, on the member itself, as each one holds m/k of images like its own. If that cannot be, it is
 * placed without room for its lines and copies, so that the job goes on and lines abort for want of memory.
 * A rank that stays needs what it has had. Pure.
 */
#ifndef BELAY_COORD_SPREAD_H
#define BELAY_COORD_SPREAD_H

#include <stdint.h>

#include "coord/epoch.h"

/* What is known of a member of the epoch that is opened. */
struct spread_member {
    uint32_t room;      /* ranks that it can take, EPOCH_NO_LIMIT: all */
    uint64_t processor; /* kind of its processors */
    struct epoch_memory memory;
    uint32_t held_count;        /* parts of held */
    const uint32_t *ranks;      /* whose they are, as of epoch_state; borrowed; NULL: held[i] is of rank i */
    const struct holding *held; /* borrowed */
    uint32_t former;            /* index in the last epoch of the member whose ranks are for it: it was that
                                   member, or takes its place; EPOCH_NOBODY: none */
};

/* A rank for which no member has enough memory. */
struct spread_lack {
    uint32_t rank;        /* EPOCH_NOBODY: none; something else than memory is missing */
    uint64_t image_bytes; /* that its image takes where it is not; as much takes its process */
};

struct spread_facts {
    const struct epoch_start *last;      /* the epoch before; NULL: there was none */
    const struct spread_member *members; /* by index */
    enum scheme scheme;
    struct parity_code code; /* of SCHEME_PARITY */
    uint32_t first;          /* any number: of members that are equal, which one is taken */
    const uint32_t *placed;  /* by rank: the node where it is, whatever nodes hold; NULL: not known */
    uint32_t placed_count;
    struct spread_lack *lack; /* filled in with ENOSPC; NULL: not asked for */
};

/*
 * Fill in placement and holder of an epoch whose line, members and rank count are known. Returns 0, or -1
 * with errno: ENOSPC (there is no room for all ranks), EXDEV (no member has processors for some ranks),
 * ENOMEM; nothing is filled in then that counts.
 */
int spread_ranks(struct epoch_start *start, const struct spread_facts *facts);

#endif
