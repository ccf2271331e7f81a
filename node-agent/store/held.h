/*
 * held.h - the data that the files of this folder share: a store's images, deltas and staging.
 *
 * A part is held under JOB/image/LINE/RANK or JOB/delta/LINE/RANK at the keeper. A set is
 * made and dropped as a whole; a part that is missing has fd -1.
 */
#ifndef BELAY_NODE_AGENT_STORE_HELD_H
#define BELAY_NODE_AGENT_STORE_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/image/format.h"
#include "common/image/runs.h"
#include "common/util/digest.h"
#include "common/util/error.h"
#include "common/wire/job_name.h"
#include "node-agent/store/commits.h"
#include "node-agent/store/keeper.h"
#include "node-agent/store/pin_reason.h"
#include "node-agent/store/touched.h"

/* An image or delta of one rank. */
struct held {
    int fd;                     /* -1: not there (yet) */
    uint64_t bytes;             /* memory that it takes */
    uint64_t kept_line;         /* the line in its name at the keeper */
    uint64_t base_line;         /* of a delta; 0: an image */
    uint64_t image_bytes;       /* of a staged part: memory that the image will take */
    uint64_t line_bytes;        /* of an image: memory of the delta that made it; 0: not known */
    uint64_t number;            /* unique in this store; 0: the part is missing */
    uint32_t pins[PIN_REASONS]; /* number of pins, by reason (pin.h) */
    bool is_changing;           /* a delta is being applied in place: it cannot be pinned */
    bool is_damaged;            /* a committed image that is not what was captured: nothing is made of it */
    bool is_guest;              /* staged: the copy of a rank that another member runs */
    int copy;                   /* of a pinned image, for the next delta; -1: none */
    struct digest root;         /* of the image that it is or makes; none: not known */
};

/* What is known of the writes to a rank's image. */
struct held_touched {
    struct touched *touched; /* NULL: nothing */
    struct run_set written;  /* of the delta that is being applied */
};

/* The parts of one line. */
struct held_set {
    uint64_t line;  /* 0: no line */
    uint32_t ranks; /* of the world */
    uint32_t here;  /* of them, those that have a part on this node when the set is whole, guests not counted;
                       0: all; STORE_NOBODY_HERE: none */
    uint32_t parts; /* STORE_PARTS for each rank, of which all but the first may be missing */
    struct held *items;
};

/*
 * Parity of the committed line, of another set than that in the images (store_parity.c). The keeper has it
 * under JOB/spare/LINE/NUMBER, where NUMBER is twice the slot and `which`.
 */
struct held_spare {
    struct held_spare *next;
    uint32_t slot;
    uint32_t which; /* of two names */
    int fd;
    uint64_t bytes;
};

struct store {
    struct keeper *keeper;
    char job[JOB_NAME_BYTES];
    struct commits *commits;
    uint64_t parts_made;          /* how many numbers have been given */
    struct held_set images;       /* committed */
    struct held_set deltas;       /* committed and not applied yet */
    struct held_set staging;      /* of the line in progress, or of a protected one that was not committed */
    struct held_spare *spares;    /* of the committed line */
    struct held_touched *touched; /* of each rank; NULL: of none (yet) */
    uint32_t touched_count;
    uint64_t expected_line, expected_bytes; /* of images that are on their way here */
    uint32_t expected_count;
};

/* A store without a commit record. NULL with err. */
struct store *store_new(struct keeper *keeper, const char *job, struct belay_error *err);

/* It is there, and not damaged. */
bool held_is_usable(const struct held *held);

/* All pins of a part together. */
uint32_t held_pins(const struct held *held);

/* The name of a rank's part at the keeper, into name[KEEPER_NAME_BYTES]. */
void held_name(const struct store *store, const struct held *held, uint32_t rank, char *name);
/* Close it; in_keeper: have it dropped there as well. A part that is not there is left alone. */
void held_drop(struct store *store, struct held *held, uint32_t rank, bool in_keeper);

/*
 * What a staged part says of itself: fills in bytes, base_line and image_bytes, and the number of ranks of
 * its world. What is not what kept_line and rank (the part) say, or a delta where base_line is 0, is left
 * with 0 bytes. Returns 0, or -1 with err: it cannot be read now.
 */
int held_look(struct held *held, uint32_t rank, uint32_t *ranks, struct belay_error *err);

/* The number of ranks of the job that a part's header names. */
uint32_t held_world(const struct image_header *header);
/* Whether the header is of this part. */
bool held_is_of(const struct image_header *header, uint32_t part);
/* The group that a part names, an image or a delta of a rank; UINT32_MAX: it cannot be read. */
uint32_t held_group(const struct held *held);

/* Close all spares, and leave them with the keeper. */
void spares_forget(struct store *store);
/* Of the spares that were adopted, drop those that are not what their names say, or are in the images. */
void spares_check(struct store *store);

/* An empty set of a line. Returns 0 or -1 with err (ENOMEM). */
int set_begin(struct held_set *set, uint64_t line, uint32_t ranks, struct belay_error *err);
/* Give the set at least `parts` parts; the new ones are missing. Returns 0 or -1 with err (ENOMEM). */
int set_extend(struct held_set *set, uint32_t parts, struct belay_error *err);
/* Drop its parts; the set is then of no line. */
void set_drop(struct store *store, struct held_set *set, bool in_keeper);
/* Whether it has a part of each rank that is to be here. */
bool set_is_whole(const struct held_set *set);
/* Whether a part of so many ranks is the tables of a rank, without its pages. */
bool held_is_tables(uint32_t part, uint32_t ranks);
/* How many ranks have a part in it; and how many groups. */
uint32_t set_count(const struct held_set *set);
/* The same, as it is recorded: STORE_NOBODY_HERE if there are none. */
uint32_t set_count_here(const struct held_set *set);
uint32_t set_count_shared(const struct held_set *set);
/* Memory that its parts take, in bytes. */
uint64_t set_bytes(const struct held_set *set);

#endif
