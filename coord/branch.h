/*
 * branch.h - a member's place in the tree of an epoch (tree.h), between its parent and those below it: its
 * own member and its children.
 *
 * Upwards a branch is as a member with one rank, which stands for all ranks of the subtree: it says each word
 * once, when all below have said it, and it reports that "rank" settled when all below are. Downwards it is
 * as the coordinator: it hands orders on, and makes targets with versions of its own. At the root, the
 * coordinator (coord.h) speaks with one agent, the root's branch. Pure, as coord.h is. The rules are those of
 * docs/line.md, "The tree".
 *
 * - A communicator all of whose members have been counted below gets its target here, and is not told
 * upwards. The target of any other one comes from above. It goes to the voices that have counted members, or
 * to all if some members had not been counted where it was made. A version names to a voice what has risen
 * since the last one.
 * - A branch makes a version of its own when all have reported for the last one: each version is reported for
 * by all, so what they raise and release together makes one. A version of the parent is handed on at once.
 * - A branch raises targets by itself until it has said that it is settled in a version of its parent. After
 *   that it sends the clock upwards, and an ancestor that has not said so makes a new version: otherwise
 * ranks might move again in a subtree that counts as settled.
 * - Whom a rank of the subtree waits for, and who is elsewhere, is named in the branch's report; who is
 * waited for from elsewhere comes as DEMAND. A demand is for one version. Where more than DEMANDS_MAX ranks
 * would be named, all are demanded: that may release ranks without need, which costs time only.
 */
#ifndef BELAY_COORD_BRANCH_H
#define BELAY_COORD_BRANCH_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/coord.h"
#include "coord/tree.h"

#define BRANCH_ALL UINT32_MAX /* all voices */

struct branch;

/* Called in order from within branch_order() and branch_word(), which they must not call. */
struct branch_ops {
    /* To a voice, or BRANCH_ALL. Arrays and texts are valid during the call. */
    void (*order)(void *context, uint32_t voice, const struct coord_action *order);
    /* To the parent: type, line, and what the type carries. */
    void (*say)(void *context, const struct coord_event *word);
};

/* The placement is borrowed for the branch's life. NULL with ENOMEM. */
struct branch *branch_create(const struct tree_place *place, const struct branch_ops *ops, void *context);
/* Accepts NULL. */
void branch_destroy(struct branch *branch);

/* Voice 0 is the own member, voice i + 1 child i. */
uint32_t branch_voice_count(const struct branch *branch);
/* The index of the member that is the voice, or leads the branch that is. */
uint32_t branch_voice_member(const struct branch *branch, uint32_t voice);
/* Whether the voice is a branch. */
bool branch_is_group(const struct branch *branch, uint32_t voice);

/* The parent's order. Returns 0, or -1 with ENOMEM (ABORT has been said). */
int branch_order(struct branch *branch, const struct coord_action *order);
/*
 * The word of a voice. What is late or said twice is ignored, as in coord.h. Returns 0, or -1 with ENOMEM
 * (ABORT has been said) or EINVAL: a voice speaks of a rank that is not its own.
 */
int branch_word(struct branch *branch, uint32_t voice, const struct coord_event *word);

#endif
