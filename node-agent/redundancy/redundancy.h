/*
 * redundancy.h - the redundancy of an epoch's images: which members hold each rank's image, and which loss is
 * survived.
 *
 * Answers are given per rank, not per node: after a loss ranks are protected anew one after the other.
 * Members are indices of the epoch's list of members. All functions are called from the agent's loop.
 */
#ifndef BELAY_NODE_AGENT_REDUNDANCY_REDUNDANCY_H
#define BELAY_NODE_AGENT_REDUNDANCY_REDUNDANCY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"

/* The members and the ranks that are protected; all is copied. */
struct redundancy_epoch {
    uint32_t member_count;
    uint32_t ranks;            /* of the world */
    const uint32_t *placement; /* by rank: the member that runs it */
};

struct redundancy_ops {
    /* No copy of the rank's staging is wanted. May be called within protect(). */
    void (*held)(void *context, uint64_t line, uint32_t rank);
    /* A copy is wanted on this member: of what is staged, or, with is_whole, of the image that it makes. */
    void (*send)(void *context, uint64_t line, uint32_t rank, uint32_t member, bool is_whole);
    /* What is staged of the rank is to be part of its set's parity. */
    void (*encode)(void *context, uint64_t line, uint32_t rank);
};

struct redundancy;

/* What a scheme does; see the functions below. */
struct redundancy_class {
    uint64_t (*need)(const struct redundancy *redundancy, uint64_t own_bytes);
    void (*protect)(struct redundancy *redundancy, uint64_t line, uint32_t rank, bool is_whole);
    uint32_t (*holders)(const struct redundancy *redundancy, uint32_t rank, uint32_t *members);
    bool (*can_restore)(const struct redundancy *redundancy, uint32_t rank, const bool *is_lost);
    int (*rebuild)(struct redundancy *redundancy, uint32_t rank, struct belay_error *err);
};

/* First member of each scheme's struct. */
struct redundancy {
    const struct redundancy_class *class;
    const struct redundancy_ops *ops;
    void *context;
    uint32_t member_count, ranks;
    uint32_t *placement;
};

/* For the implementation of a scheme. Returns 0 or -1 with ENOMEM. */
int redundancy_init(struct redundancy *redundancy, const struct redundancy_class *class,
                    const struct redundancy_epoch *epoch, const struct redundancy_ops *ops, void *context);

/* Frees. ops are not called any more. Accepts NULL. */
void redundancy_destroy(struct redundancy *redundancy);

/* Bytes that a member must have room for, beside its own images and staging (own_bytes), to hold those of
 * others. */
uint64_t redundancy_need(const struct redundancy *redundancy, uint64_t own_bytes);

/*
 * Protect the staging of a rank of this node: held(), send() or encode() follows. is_whole: whoever is to
 * hold the copy lacks the image that the staged delta changes.
 */
void redundancy_protect(struct redundancy *redundancy, uint64_t line, uint32_t rank, bool is_whole);

/* The members that hold the rank's image, into members[member_count]. Returns how many. */
uint32_t redundancy_holders(const struct redundancy *redundancy, uint32_t rank, uint32_t *members);

/* Whether the rank's image exists or can be rebuilt without the members with is_lost[member]. */
bool redundancy_can_restore(const struct redundancy *redundancy, uint32_t rank, const bool *is_lost);

/* Make the image of a rank of this node again from what others hold. Returns 0, or -1 with err (ENODATA:
 * nobody can). */
int redundancy_rebuild(struct redundancy *redundancy, uint32_t rank, struct belay_error *err);

#endif
