/*
 * newcomer.h - may a process that says hello be a rank of this epoch? A launch line may be a script, which
 * starts several MPI programs: lines are of one of them, the first.
 */
#ifndef BELAY_NODE_AGENT_LAUNCH_NEWCOMER_H
#define BELAY_NODE_AGENT_LAUNCH_NEWCOMER_H

#include "common/util/error.h"
#include "common/wire/belay.pb-c.h"
#include "node-agent/launch/epoch.h"

/*
 * Returns 0, or -1 with err. EALREADY: the epoch's program has ended, and this is one of another launch below
 * the same arbiter: it is to run as without Belay. EXDEV: this is one of another launch, while the first one
 * runs.
 */
int newcomer_check(const struct epoch *epoch, pid_t pid, const Belay__Wire__RankHello *hello,
                   struct belay_error *err);

/* The first one that is taken in names the launch that all ranks of the epoch belong to. */
void newcomer_bind(struct epoch *epoch, const Belay__Wire__RankHello *hello);

/* Tell the user of a second program, once. err: as newcomer_check() has set it. */
void newcomer_tell(struct epoch *epoch, const struct belay_error *err);

#endif
