/*
 * rebuild_state.h - shared by the files of the rebuilder (rebuilder.c): images that are made here as a whole
 * (rebuild_make.c) or range by range (rebuild_load.c), and shares that this node gives in the former
 * (rebuild_give.c) and the latter (rebuild_lend.c).
 *
 * An image that turns out to be another one than the committed one is made again without one of the positions
 * of the set, one after the other, as long as there is more parity than it takes.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_REBUILD_STATE_H
#define BELAY_NODE_AGENT_MEMBER_REBUILD_STATE_H

#include "node-agent/loop/pool.h"
#include "node-agent/member/incoming.h"
#include "node-agent/member/outgoing.h"
#include "node-agent/member/rebuild.h"
#include "node-agent/member/share.h"
#include "node-agent/store/store.h"

#define REBUILD_MAGIC 0x61687362u

enum rebuild_kind {
    REBUILD_NO_NOTE = 0,
    REBUILD_WANT,    /* a word: give this share */
    REBUILD_SHARE,   /* a tag: this is it */
    REBUILD_REFUSED, /* a word: it is not given; error tells why */
    /* Of an image whose rank runs while it is made: */
    REBUILD_WANT_RANGE, /* a word: the share in these pieces, which follow it */
    REBUILD_RANGE,      /* a tag: this is it */
    REBUILD_ZEROS,      /* a word: it is zero */
    REBUILD_LOADED,     /* a word: no more of the image is wanted */
};
enum rebuild_what { REBUILD_NOTHING = 0, REBUILD_TABLES, REBUILD_IMAGE, REBUILD_PARITY };

/* A word, and the tag in front of a share. */
struct rebuild_note {
    uint32_t magic;
    uint32_t kind, what; /* enum rebuild_kind, note_what */
    uint32_t epoch;
    uint32_t rank, position, ranks; /* the rank that is made again; whose share; ranks of the world */
    int32_t error;                  /* REFUSED: errno */
    uint32_t has_shared;            /* SHARE of TABLES */
    uint32_t without;               /* a position whose image and parity are not used, plus 1; 0: none */
    uint32_t is_bound;              /* SHARE of TABLES: the rank's group shares something */
    uint32_t range;                 /* its number, of WANT_RANGE and the answers to it; else 0 */
    uint64_t line;
};

/* Of a range of the image that is made. */
struct rebuild_piece {
    uint64_t address, bytes;
};
#define REBUILD_PIECES_MAX 256u        /* of a range ... */
#define REBUILD_RANGE_MAX (1ull << 20) /* ... and so many bytes */

/* What this node gives: to another one, or to itself. */
struct giving {
    struct giving *next;
    struct rebuilder *rebuilder; /* NULL: gone */
    struct epoch_rebuild plan;
    enum rebuild_what what;
    uint32_t position;
    uint8_t coefficients[PARITY_MEMBERS_MAX]; /* by codeword */
    struct store_pin pin;
    struct share *share;       /* NULL: tables, or range by range */
    struct outgoing *outgoing; /* of tables */
    struct share_pages *pages; /* all, of an image or of parity */
    /* Of one that is given range by range: */
    uint32_t node, without; /* to which node, of which attempt */
    bool is_over;           /* no more of it is wanted */
    uint32_t references;    /* one until it is over, and one of each range on its way */
};

/* An image that is made here. */
struct making {
    struct making *next;
    struct rebuilder *rebuilder; /* NULL: gone */
    uint32_t references;         /* that come, and a thread */
    struct epoch_rebuild plan;   /* of this attempt */
    uint32_t without;            /* of it: a position that is not used, plus 1; 0: none */
    uint64_t line;
    uint32_t ranks;
    bool is_loaded; /* its pages are made while the rank runs, unless its group shares something */
    bool awaits_tables, has_shared, is_bound, is_over;
    uint32_t images, parities; /* masks of positions whose shares are awaited */
    uint32_t coming_images, coming_parities;
    struct incoming incoming; /* its memfd gets the tables, and all shares */
    struct share_sum sum;
    struct giving *own; /* shares that are here */
    struct pool_work *work;
    bool is_busy; /* a thread is at work */
    uint64_t got; /* atomic: bytes that have come */
    struct rebuilt rebuilt;
    struct digest wanted; /* its root; none: not known */
    struct belay_error err;
};

struct rebuilder {
    struct job *job;
    struct remotes *remotes;
    const struct epoch_start *start;
    uint32_t own; /* index */
    rebuilder_done_f *done;
    void *context;
    struct making *makings;
    struct giving *givings;
    struct giving *lent;            /* those that are given range by range */
    struct rebuild_source *sources; /* images that are made so */
};

/* rebuild.c */
struct rebuild_note rebuild_note_of(const struct rebuilder *rebuilder, enum rebuild_kind kind,
                                    enum rebuild_what what, uint32_t rank, uint32_t position);
/* The member that has a part, by the arbiter's decision. */
uint32_t rebuild_source_of(const struct epoch_rebuild *plan, enum rebuild_what what, uint32_t position);
/* A decision for an attempt: without what a position has (plus 1; 0: with all). */
struct epoch_rebuild rebuild_plan_without(const struct epoch_rebuild *plan, uint32_t without);

/* The next attempt after one: a position that can be left out, plus 1; 0: there is none. */
uint32_t rebuild_next_without(const struct epoch_rebuild *decided, uint32_t without);
/* The user is told of it. */
void rebuild_tell_without(const struct rebuilder *rebuilder, uint32_t rank, uint32_t without,
                          const char *why);

/* rebuild_give.c */
/* The coefficient of each codeword. Returns whether any block of the part is needed. */
bool rebuild_coefficients(const struct epoch_rebuild *plan, enum rebuild_what what, uint32_t position,
                          uint8_t *coefficients);
struct giving *giving_create(struct rebuilder *rebuilder, const struct epoch_rebuild *plan,
                             enum rebuild_what what, uint32_t position, struct belay_error *err);
void giving_destroy(struct giving *giving);
/* For tests: what goes is another share than it should be. */
void giving_spoil(struct giving *giving);
/* Where a block of the giving, of which *context is a pointer, belongs in the image that is made
 * (share_map_f). */
bool giving_route(const void *context, uint64_t block, uint64_t *to_block, uint8_t *coefficient);
/* What another node has asked for. Returns 0 or an errno. */
int giving_start(struct rebuilder *rebuilder, uint32_t node, const struct rebuild_note *note);

/* rebuild_lend.c */
/* What this node gives range by range to a node, which may be this one; kept until giving_end_lent(). NULL
 * with err. */
struct giving *giving_lend(struct rebuilder *rebuilder, const struct epoch_rebuild *plan, uint32_t without,
                           enum rebuild_what what, uint32_t position, uint32_t node, struct belay_error *err);
/* Its share in these pieces, to be destroyed by share_destroy(); *is_zero: there is none. NULL with ENOMEM.
 */
struct share *giving_share_in(struct giving *giving, const struct rebuild_piece *pieces, uint32_t count,
                              bool *is_zero);
/* What another node has asked for. Returns 0 or an errno. */
int giving_send_range(struct rebuilder *rebuilder, uint32_t node, const struct rebuild_note *note,
                      const struct rebuild_piece *pieces, uint32_t count);
/* A node wants no more of a rank's image. */
void giving_end_lent(struct rebuilder *rebuilder, uint32_t rank, uint32_t node);
/* The rebuilder ends. */
void giving_end_all_lent(struct rebuilder *rebuilder);
void giving_unref(struct giving *giving);

/* rebuild_load.c */
struct rebuild_source *rebuild_source_find(const struct rebuilder *rebuilder, uint32_t rank);
/* A share in a range is offered. Returns 0 and fills *intake, or an errno. */
int rebuild_source_offered(struct rebuild_source *source, uint32_t node, const struct rebuild_note *note,
                           uint64_t bytes, struct transfer_intake *intake);
/* It is zero, or refused (note->kind). */
void rebuild_source_hear(struct rebuild_source *source, uint32_t node, const struct rebuild_note *note);

/* rebuild_make.c */
struct making *making_find(const struct rebuilder *rebuilder, uint32_t rank);
/* Something has come: go on with what there is. */
void making_go_on(struct making *making);
void making_fail(struct making *making, const char *why);
void making_unref(struct making *making);

#endif
