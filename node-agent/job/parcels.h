/*
 * parcels.h - open files of the ranks that a restart would not find by a path: those without a name, and
 * those that may not be opened any more.
 *
 * At a line a rank puts their descriptors into the queue of a socket pair; the other socket is its parcel.
 * One descriptor holds all of them here and, as JOB/parcel/LINE/RANK or JOB/parcel/LINE/RANK/copied, in the
 * keeper. A restarted rank gets
 * the parcel of its line and looks at the queue without taking anything out, so that another one may come
 * after it.
 */
#ifndef BELAY_NODE_AGENT_JOB_PARCELS_H
#define BELAY_NODE_AGENT_JOB_PARCELS_H

#include <stdbool.h>
#include <stdint.h>

#include "node-agent/rank/rank.h"
#include "node-agent/store/keeper.h"

struct parcel;

/* Those of a job; all zero: none. */
struct parcels {
    struct parcel *first;
};

/*
 * The rank stands still at a line: take its parcel, if it has one. Returns 0, or -1 with err: the rank has a
 * parcel that cannot be taken, and the line must abort.
 */
int parcels_take(struct parcels *parcels, struct keeper *keeper, const char *job, const struct rank *rank,
                 uint64_t line, struct belay_error *err);

/* What a parcel's name at the keeper ends in if the files of it are in the rank's image, too. */
#define PARCELS_COPIED "/copied"

/* Take up what a former agent left; fd becomes ours. Returns 0, or -1 with err. */
int parcels_adopt(struct parcels *parcels, uint64_t line, uint32_t rank, bool is_copied, int fd,
                  struct belay_error *err);

/* The parcel of a rank at a line (borrowed), -1: it has none. */
int parcels_find(const struct parcels *parcels, uint64_t line, uint32_t rank);

/* Whether all that it holds is in the rank's image, too, so that a restart can do without it. */
bool parcels_are_copied(const struct parcels *parcels, uint64_t line, uint32_t rank);

/* Give up those of lines before this one; UINT64_MAX: all. In the keeper as well. */
void parcels_drop_before(struct parcels *parcels, struct keeper *keeper, const char *job, uint64_t line);

#endif
