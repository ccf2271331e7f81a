/*
 * match.h - may a rank continue from the committed image that is held for it?
 */
#ifndef BELAY_NODE_AGENT_LAUNCH_MATCH_H
#define BELAY_NODE_AGENT_LAUNCH_MATCH_H

#include <stdint.h>

#include "common/util/error.h"
#include "common/wire/belay.pb-c.h"
#include "node-agent/job/job.h"

/*
 * Compare a Hello with the committed images of the job: number of ranks, program and libc, layout. line 0:
 * nothing is restored or compared. Returns 0, or -1 with an err for the user: EPERM (the program does not
 * fit the image), EIO (an image is damaged).
 */
int match_check(const struct job *job, uint64_t line, const Belay__Wire__RankHello *hello,
                struct belay_error *err);

#endif
