/*
 * lend_touched.h - tells the member that loads an image (load.h) which parts of it the rank has written
 * lately.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_LEND_TOUCHED_H
#define BELAY_NODE_AGENT_MEMBER_LEND_TOUCHED_H

#include "common/image/runs.h"
#include "node-agent/job/job.h"
#include "node-agent/link/remote.h"
#include "node-agent/member/fetch_note.h"

/* The longest window that counts, as the job's settings have it; 0: nothing is told. */
uint64_t touched_window_ms(const struct job *job);

/* Which parts of the image of a rank, whose pages take so many bytes, its rank has written lately, as far as
 * it is known here. Returns 0 or -1 with ENOMEM. */
int touched_choose(const struct job *job, uint32_t rank, uint64_t image_bytes, struct run_set *set);

/*
 * Send what is known of the image tag->part, whose pages take so many bytes, with this tag. The window is
 * that of FREM (window.h), for the rate at which this node has sent its lines. That a set cannot be sent is
 * logged: the image comes without it.
 */
void lend_touched(struct job *job, struct remotes *remotes, uint32_t node, const struct fetch_note *tag,
                  uint64_t image_bytes);

#endif
