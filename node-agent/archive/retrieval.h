/*
 * retrieval.h - images of an archived line are read from their files and checked, in a thread.
 *
 * What is in the folder is believed nothing: it has to be this user's alone, and each image has to have the
 * place, the sums and the root that the arbiter has told.
 */
#ifndef BELAY_NODE_AGENT_ARCHIVE_RETRIEVAL_H
#define BELAY_NODE_AGENT_ARCHIVE_RETRIEVAL_H

#include "common/wire/belay.pb-c.h"
#include "node-agent/job/job.h"

struct retrieval;

/* Either images, whose descriptors are taken over, or err. In the loop; the job is there. */
typedef void retrieval_done_f(struct job *job, const struct store_fetched *images, uint32_t count,
                              const struct belay_error *err);

/* Read the parts of the order, which is kept, and freed in the end. Returns 0, or -1 with err; the order is
 * the caller's then. */
int retrieval_start(struct job *job, Belay__Wire__ArchiveTake *order, retrieval_done_f *done,
                    struct belay_error *err);
/* The job is given up: done() is not called. Accepts NULL. */
void retrieval_leave(struct retrieval *retrieval);

#endif
