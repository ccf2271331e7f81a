/*
 * loads.h - the images of an epoch that come while their ranks run (load.h): what is said to the members that
 * have them, and what becomes of an image that is whole.
 *
 * Until all of it is here, an image is not in the store: so no other member and no next epoch takes it for
 * one, and a line that is captured meanwhile is not protected before. All functions are called from the
 * agent's loop.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_LOADS_H
#define BELAY_NODE_AGENT_MEMBER_LOADS_H

#include "common/util/digest.h"
#include "coord/epoch.h"
#include "node-agent/job/job.h"
#include "node-agent/link/remote.h"
#include "node-agent/member/fetch_note.h"
#include "node-agent/member/load.h"
#include "node-agent/member/rebuild.h"

struct loads;

/* The image of this rank is whole, and in the store; the rank may have it mapped. Called from the loop. */
typedef void loads_whole_f(struct job *job, uint32_t rank);

/* Whether images of this job's ranks are to come while the ranks run, which this machine can. */
bool loads_are_wanted(struct job *job);

/* remotes, start: borrowed. NULL with ENOMEM. */
struct loads *loads_create(struct job *job, struct remotes *remotes, const struct epoch_start *start);
/* Accepts NULL. */
void loads_destroy(struct loads *loads);
/* All end; whole() is not called any more. */
void loads_stop(struct loads *loads);
void loads_tell(struct loads *loads, loads_whole_f *whole);

/*
 * Load the image of a rank; fd is the image without its pages. The node sends them; or it has had the tables,
 * and the pages are made from parity by `source` (NULL: it sends them). fd and source are taken over if 0 is
 * returned; else -1 with err.
 */
int loads_add(struct loads *loads, uint32_t rank, uint32_t node, struct rebuild_source *source, int fd,
              const struct digest *root, struct belay_error *err);
/* NULL: the image of this rank is not being loaded. */
struct load *loads_find(const struct loads *loads, uint32_t rank);
/* The line whose images they are. */
uint64_t loads_line(const struct loads *loads);
/* How many are not whole; one that cannot be had counts. */
uint32_t loads_count(const struct loads *loads);

/* What the members say: FETCH_NOTE_PAGES and TOUCHED (0, or an errno), FETCH_NOTE_REFUSED, a lost link. */
int loads_offered(const struct loads *loads, uint32_t node, const struct fetch_note *note, uint64_t bytes,
                  struct transfer_intake *intake);
void loads_refused(const struct loads *loads, uint32_t node, const struct fetch_note *note);
void loads_lost(const struct loads *loads, uint32_t node);

#endif
