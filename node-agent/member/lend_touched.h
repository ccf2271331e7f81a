/*
 * lend_touched.h - tells the member that loads an image (load.h) which parts of it the rank has written
 * lately.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_LEND_TOUCHED_H
#define BELAY_NODE_AGENT_MEMBER_LEND_TOUCHED_H

#include "node-agent/job/job.h"
#include "node-agent/link/remote.h"
#include "node-agent/member/fetch_note.h"

/* The longest window that counts, as the job's settings have it; 0: nothing is told. */
uint64_t touched_window_ms(const struct job *job);

/*
 * Send what is known of the image tag->part, whose pages take so many bytes, with this tag. The window is
 * that of FREM (window.h), for the rate at which this node has sent its lines. That a set cannot be sent is
 * logged: the image comes without it.
 */
void lend_touched(struct job *job, struct remotes *remotes, uint32_t node, const struct fetch_note *tag,
                  uint64_t image_bytes);

#endif
