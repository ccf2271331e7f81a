/*
 * rebuild_state.h - shared by the files of the rebuilder (rebuilder.c): images that are made here
 * (rebuild_make.c), and shares that this node gives (rebuild_give.c).
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

enum rebuild_kind { REBUILD_NO_NOTE = 0, REBUILD_WANT, REBUILD_SHARE, REBUILD_REFUSED };
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
    uint64_t line;
};

/* What this node gives: to another one, or to itself. */
struct giving {
    struct giving *next;
    struct rebuilder *rebuilder; /* NULL: gone */
    struct epoch_rebuild plan;
    enum rebuild_what what;
    uint32_t position;
    uint8_t coefficients[PARITY_MEMBERS_MAX]; /* by codeword */
    struct store_pin pin;
    struct share *share;       /* NULL: tables */
    struct outgoing *outgoing; /* of tables */
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
    bool awaits_tables, has_shared, is_over;
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
};

/* rebuild.c */
struct rebuild_note rebuild_note_of(const struct rebuilder *rebuilder, enum rebuild_kind kind,
                                    enum rebuild_what what, uint32_t rank, uint32_t position);
/* The member that has a part, by the arbiter's decision. */
uint32_t rebuild_source_of(const struct epoch_rebuild *plan, enum rebuild_what what, uint32_t position);
/* A decision for an attempt: without what a position has (plus 1; 0: with all). */
struct epoch_rebuild rebuild_plan_without(const struct epoch_rebuild *plan, uint32_t without);

/* rebuild_give.c */
/* The coefficient of each codeword. Returns whether any block of the part is needed. */
bool rebuild_coefficients(const struct epoch_rebuild *plan, enum rebuild_what what, uint32_t position,
                          uint8_t *coefficients);
struct giving *giving_create(struct rebuilder *rebuilder, const struct epoch_rebuild *plan,
                             enum rebuild_what what, uint32_t position, struct belay_error *err);
void giving_destroy(struct giving *giving);
/* What another node has asked for. Returns 0 or an errno. */
int giving_start(struct rebuilder *rebuilder, uint32_t node, const struct rebuild_note *note);

/* rebuild_make.c */
struct making *making_find(const struct rebuilder *rebuilder, uint32_t rank);
/* Something has come: go on with what there is. */
void making_go_on(struct making *making);
void making_fail(struct making *making, const char *why);
void making_unref(struct making *making);

#endif
