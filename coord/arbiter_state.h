/*
 * arbiter_state.h - what an arbiter knows, for the files that decide: arbiter.c (when an epoch is opened),
 * arbiter_line.c (from which line), arbiter_members.c (with which nodes). Nobody else includes it.
 */
#ifndef BELAY_COORD_ARBITER_STATE_H
#define BELAY_COORD_ARBITER_STATE_H

#include "coord/arbiter_types.h"
#include "coord/spread.h"

/* What the arbiter knows of one node. */
struct node {
    bool is_gone;              /* with its memory: nothing is expected of it */
    bool is_silent;            /* the same, but nobody has seen the end of its ranks: its lease counts */
    bool has_answered;         /* the inquiry; state is valid */
    bool is_listed;            /* among the members of the epoch that is opened */
    struct epoch_state *state; /* its answer, a copy; NULL: none yet */
    uint32_t index;            /* of the member that it is in the newest epoch; EPOCH_NOBODY: none */
    uint64_t granted_us;       /* last lease that it may have been given */
    uint32_t former; /* of a node that becomes a member: the one of the last epoch that it was, or whose place
                        it takes; EPOCH_NOBODY: none */
};

struct arbiter {
    struct arbiter_settings settings;
    arbiter_action_f emit;
    void *context;
    struct epoch_start *record; /* NULL: no epoch yet */
    struct node *nodes;
    uint32_t *listed; /* nodes that become members, in their order */
    uint32_t listed_count;
    uint32_t answer_count, gone_count, silent_count; /* of the nodes */
    uint32_t *told_first, *told; /* of the decision that is made: told[told_first[rank]] and so on, up to
                                    told_first[rank + 1], are the nodes that tell something of a rank */
    uint32_t *domains, *room;    /* by node, and room to arrange them; NULL: each node is a domain */
    uint32_t *placed;            /* by rank: a node; NULL: ranks are placed by what nodes hold */
    const struct epoch_start
        *homes;      /* its ranks have their images where they are, whatever was told; NULL: not known */
    bool has_grants; /* when leases were given is known */
    bool is_inquiring;
    uint64_t inquiry_us; /* began then */
    uint64_t asked_us;   /* last time */
    enum arbiter_want want;
    struct spread_lack lack;          /* of ARBITER_WANT_ROOM */
    struct arbiter_refusal *refusals; /* of this inquiry */
    uint32_t refusal_count, refusal_room;
};

/* The line from which the next epoch goes on, 0: the beginning; if nothing is wanted for that. */
enum arbiter_want arbiter_choose_line(const struct arbiter *arbiter, uint64_t *line);
/* Nodes that have told something of a rank, ascending; while a decision is made. */
struct arbiter_tellers {
    const uint32_t *nodes;
    uint32_t count;
};
struct arbiter_tellers arbiter_tellers(const struct arbiter *arbiter, uint32_t rank);
/* Find them. Returns -1 with ENOMEM. */
int arbiter_list_tellers(struct arbiter *arbiter);
/* Whether a node has answered that it holds a rank's part of a line. */
bool arbiter_node_holds(const struct node *node, uint64_t line, uint32_t rank);

/* Whether somebody who has answered holds a rank's part, or it can be made again; of each rank. */
bool arbiter_is_held_of(const struct arbiter *arbiter, uint64_t line, uint32_t rank);
bool arbiter_is_held(const struct arbiter *arbiter, uint64_t line);
/* A member of the last epoch that answers and has kept its memory since that epoch was opened. */
bool arbiter_is_survivor(const struct arbiter *arbiter, uint32_t index);
/*
 * Leave aside what is not of the line as it was committed. Returns 0, or -1 with errno: ENODATA, what is left
 * is not that line, and nobody can tell which part of it is another one; ENOMEM.
 */
int arbiter_check_roots(struct arbiter *arbiter, uint64_t line);
/* The roots of the images that the ranks go on from, by their holders. */
void arbiter_fill_roots(const struct arbiter *arbiter, struct epoch_start *start);

/*
 * How the image of a rank at a line is made again, if no node has it: the rebuild's members are nodes. False:
 * it cannot be.
 */
bool arbiter_find_rebuild(const struct arbiter *arbiter, uint64_t line, uint32_t rank,
                          struct epoch_rebuild *rebuild);
/* Whether a node has a part in that. */
bool arbiter_is_source(const struct arbiter *arbiter, uint64_t line, uint32_t rank, uint32_t node);
/* Add the rebuilds to an epoch whose ranks are placed. Returns 0, or -1 with ENODATA or ENOMEM. */
int arbiter_plan_rebuilds(const struct arbiter *arbiter, struct epoch_start **start);

/* How many members the next epoch has, but for nodes that alone have an image. */
uint32_t arbiter_count_members(const struct arbiter *arbiter);
/* Which nodes they are, in their order, into arbiter->listed, and each one's former place. */
void arbiter_list_members(struct arbiter *arbiter, uint64_t line);

/* Of a line once they are known; a program that begins anew may begin with others. */
static inline uint32_t arbiter_rank_count(const struct arbiter *arbiter)
{
    uint32_t known = arbiter->record ? arbiter->record->rank_count : 0;

    return known ? known : arbiter->settings.rank_count;
}

static inline uint32_t arbiter_member_count(const struct arbiter *arbiter)
{
    return arbiter->record ? arbiter->record->member_count : 0;
}

/* Of the newest epoch. */
static inline struct node *arbiter_member(const struct arbiter *arbiter, uint32_t index)
{
    return &arbiter->nodes[arbiter->record->members[index]];
}

#endif
