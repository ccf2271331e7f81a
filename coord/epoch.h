/*
 * epoch.h - what an arbiter and the members of an epoch tell one another, and what the arbiter records.
 *
 * Plain data: no clock, no socket. The arbiter's program numbers the nodes, 0 .. node_count-1. A member is a
 * node of an epoch, and has an index in the epoch's list of members. The rules are those of
 * docs/line.md, "Epochs and the lease".
 */
#ifndef BELAY_COORD_EPOCH_H
#define BELAY_COORD_EPOCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/digest.h"
#include "coord/parity.h"

#define EPOCH_NOBODY UINT32_MAX   /* no node, no member */
#define EPOCH_NO_LIMIT UINT32_MAX /* of the ranks that a node has room for */

/* The redundancy scheme: which copies of a committed line are made. */
enum scheme {
    SCHEME_SINGLE = 0, /* none: a node's loss is not survived */
    SCHEME_PARTNER,    /* the next member in the epoch's list holds a copy of each image */
    SCHEME_PARITY,     /* sets of members hold parity (parity.h) */
};

/* What one node holds of one rank: numbers of lines; 0: none. */
struct holding {
    uint64_t image_line;   /* of the committed image */
    uint64_t staging_line; /* of the staging: a verdict applies it to the image, or drops it */
    uint64_t base_line;    /* of the image that the staging changes; 0: the staging is a whole image */
};

/* The parity that a node holds of a slot of a set (parity.h), and of which set that is. All numbers. */
struct parity_holding {
    uint64_t lines[3]; /* as of struct holding: image, staging, base of the staging */
    uint64_t slot, data, parity;
    uint64_t position;                  /* of the node that holds it */
    uint64_t ranks[PARITY_MEMBERS_MAX]; /* by position; EPOCH_NOBODY: that member had no rank in the slot */
};

/*
 * How the image of a rank is made again that no node has: from the data and the parity of a set. Members are
 * those of the epoch; EPOCH_NOBODY: nobody has that part. All numbers.
 */
struct epoch_rebuild {
    uint32_t rank, slot, data, parity;
    uint32_t position;                     /* of the rank */
    uint32_t tables;                       /* has its tables */
    uint32_t ranks[PARITY_MEMBERS_MAX];    /* by position; EPOCH_NOBODY: none, its data are zeros */
    uint32_t images[PARITY_MEMBERS_MAX];   /* by position: has the image of that rank */
    uint32_t parities[PARITY_MEMBERS_MAX]; /* by position: has the parity that was held there */
};

/* What a rank needs, in bytes of memory, as a node that holds its image tells; 0: not known. */
struct rank_size {
    uint64_t image_bytes; /* of its image; its process takes as much once it has changed all of it */
    uint64_t line_bytes;  /* that a line stages of it, as far as that is known */
    uint64_t is_bound;    /* 1: it shared something with the ranks of its node at the line: they have to be on
                             one    node again; else 0 */
};

/* The memory that a node has for images and for ranks, in bytes. All zero: not known, so there is no limit.
 */
struct epoch_memory {
    bool is_known;
    uint64_t limit_bytes;          /* that images may still take by the job's limit; UINT64_MAX: no limit */
    uint64_t machine_bytes;        /* that its machine has left, or its cgroup; UINT64_MAX: not known */
    uint64_t machine;              /* nodes with the same number share machine_bytes */
    const struct rank_size *sizes; /* one for each part of held; borrowed; NULL: not known */
};

/* An image that a node has sent, and that was not the one of its line: nobody is to go on from it. */
struct refuted {
    uint64_t node; /* that has sent it */
    uint64_t rank, line;
};

/* A node's answer to an inquiry: its keeper's records. */
struct epoch_state {
    uint64_t incarnation; /* of its memory: random, drawn anew when the memory was lost */
    uint64_t last_line;   /* largest line number that the node has seen used */
    uint64_t committed_line;
    uint64_t protected_line; /* protected in protected_epoch, and not overwritten by a capture */
    uint32_t protected_epoch;
    uint32_t entered_epoch; /* newest that it took part in with this memory, 0: none */
    uint32_t room;          /* ranks that it can take, EPOCH_NO_LIMIT: all */
    uint64_t processor;     /* kind of its processors, any number: ranks go on where it is the same */
    struct epoch_memory memory;
    uint32_t held_count;          /* parts of held */
    const uint32_t *ranks;        /* whose they are, ascending; borrowed; NULL: held[i] is of rank i */
    const struct holding *held;   /* borrowed for the call */
    const struct holding *tables; /* for each part of held: lines of which the node has the tables alone;
                                     borrowed; NULL: none */
    const struct digest *roots;   /* two for each part of held: of the image, of what the staging makes of it;
                                     of the tables if the image is not there; borrowed; NULL: none is known */
    struct digest committed_root; /* the sum of the roots of committed_line, as its coordinator told it */
    uint32_t refuted_count;
    const struct refuted *refuted; /* borrowed */
    uint32_t parity_count;
    const struct parity_holding *parities; /* borrowed */
};

/* An epoch as it was opened: the arbiter's record, and what each member is told. */
struct epoch_start {
    uint32_t epoch;         /* 1 is the first */
    uint64_t line;          /* the line that ranks continue from, 0: from the start */
    uint64_t last_line;     /* largest line number that may have been used before */
    uint32_t member_count;  /* at least 1 */
    uint32_t rank_count;    /* 0: not known yet, ranks come up where the launcher puts them */
    uint32_t coordinator;   /* index of a member */
    uint32_t *members;      /* nodes */
    uint64_t *incarnations; /* of the members; 0: this copy of the decision does not tell it */
    uint64_t *processors;   /* of the members: kinds */
    uint32_t *placement;    /* by rank: index of the member that runs it */
    uint32_t *holder;       /* by rank: index of the member that has its image at the line */
    struct digest *roots;   /* by rank: of that image; none: not known; NULL: none is known */
    uint32_t rebuild_count;
    const struct epoch_rebuild *rebuilds; /* ranks whose images are made again; holder[rank] has the tables */
};

/* Zeroed, its arrays in the same allocation: free() releases all. NULL with ENOMEM. */
struct epoch_start *epoch_start_create(uint32_t member_count, uint32_t rank_count);
/* The same, with the content of another. */
struct epoch_start *epoch_start_copy(const struct epoch_start *start);
/* The same, with another number of ranks: of ranks beyond those of `start` all is zero. */
struct epoch_start *epoch_start_resize(const struct epoch_start *start, uint32_t rank_count);
/*
 * Fill in what another copy of the same decision knows of incarnations and roots (epoch_telling.h). Where two
 * copies contradict each other, a root is not known any more. False: it is another decision, nothing changes.
 */
bool epoch_start_join(struct epoch_start *start, const struct epoch_start *other);
/* The same, with these rebuilds in the place of its own. */
struct epoch_start *epoch_start_with(const struct epoch_start *start, const struct epoch_rebuild *rebuilds,
                                     uint32_t count);
/* How the rank's image is made again; NULL: it is not, somebody has it. */
const struct epoch_rebuild *epoch_start_rebuild(const struct epoch_start *start, uint32_t rank);
/* Whether a rebuild is of a sound code, and its indices are in range. */
bool epoch_rebuild_is_valid(const struct epoch_rebuild *rebuild, uint32_t members, uint32_t ranks);
/* Whether of each codeword with a block of the image enough is left: a member without a rank has blocks of
 * zeros. */
bool epoch_rebuild_is_enough(const struct epoch_rebuild *rebuild);
/* Whether all its indices are of members: a message or a file may be damaged. */
bool epoch_start_is_valid(const struct epoch_start *start);
/* The index of a node among the members, EPOCH_NOBODY if it is no member. */
uint32_t epoch_start_index(const struct epoch_start *start, uint32_t node);

/*
 * The scheme that a user names, for a job on so many nodes; "": the best that there is. SINGLE, PARTNER,
 * XOR[:N], RS:k+m; the code (NULL: not asked for) is that of
 * the last two, else all zero. Returns 0, or -1 with EINVAL (no such
 * scheme) or EDOM (it needs more nodes).
 */
int scheme_choose(const char *name, uint32_t node_count, enum scheme *scheme, struct parity_code *code);

/* The index of the member that keeps copies for member `index` of `count`, EPOCH_NOBODY: none does. */
uint32_t scheme_partner(enum scheme scheme, uint32_t index, uint32_t count);

/* The member whose copies member `index` keeps, EPOCH_NOBODY: it keeps none. */
uint32_t scheme_guest(enum scheme scheme, uint32_t index, uint32_t count);

/* A copy of a state with all that it borrows, without parts that say nothing. One free() releases all. NULL
 * with ENOMEM. */
struct epoch_state *epoch_state_copy(const struct epoch_state *state);
/* The part of so many that is of a rank; ranks: as of epoch_state. EPOCH_NOBODY: there is none. */
uint32_t epoch_state_part(const uint32_t *ranks, uint32_t count, uint32_t rank);
/* What a node tells that it holds of a rank; NULL: nothing. */
const struct holding *epoch_state_holding(const struct epoch_state *state, uint32_t rank);
/* Whether a node has the tables of a rank of `line`, with the image or alone. */
bool epoch_state_has_tables(const struct epoch_state *state, uint64_t line, uint32_t rank);
/* The root that a node tells of the image of `line` that it has of a rank; NULL: it has none, or tells none.
 */
const struct digest *epoch_state_root(const struct epoch_state *state, uint64_t line, uint32_t rank);

/* Whether a node that holds this has the rank's image of `line`, or needs only to apply its staging. */
bool holding_has(const struct holding *holding, uint64_t line);
/* The same of parity. */
bool parity_holding_has(const struct parity_holding *holding, uint64_t line);

#endif
