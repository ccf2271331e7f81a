/*
 * newcomer.h - may a process that says hello be a rank of this epoch? A launch line may be a script that
 * starts several MPI programs: only the first of them is protected.
 */
#ifndef BELAY_NODE_AGENT_LAUNCH_NEWCOMER_H
#define BELAY_NODE_AGENT_LAUNCH_NEWCOMER_H

#include "common/util/error.h"
#include "common/wire/belay.pb-c.h"
#include "node-agent/launch/epoch_state.h"

/*
 * Returns 0, or -1 with err. EALREADY: the epoch's program has ended, and the process belongs to another
 * launch under the same arbiter: it is to run as without Belay. EXDEV: the process belongs to another launch,
 * while the first one still runs.
 */
int newcomer_check(const struct epoch *epoch, pid_t pid, const Belay__Wire__RankHello *hello,
                   struct belay_error *err);

/* The first rank that is taken in names the launch to which all ranks of the epoch belong. */
void newcomer_bind(struct epoch *epoch, const Belay__Wire__RankHello *hello);

/* Tell the user of a second program, once. err: as newcomer_check() has set it. */
void newcomer_tell(struct epoch *epoch, const struct belay_error *err);

#endif
