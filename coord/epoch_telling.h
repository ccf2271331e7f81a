/*
 * epoch_telling.h - what each member of an epoch of several is told of the arbiter's decision.
 *
 * All of them hear who the members are, where the ranks run and who has their images: in runs, which are few
 * as long as ranks are in blocks. A member hears the incarnations (and finds the addresses) of those with
 * which it has a link, and the roots of the images that it has, fetches or lends. So what one member is told
 * does not grow with the number of nodes. Together the members know all that counts: each one its own
 * incarnation, and the roots of its ranks and of its guests (epoch_start_join()).
 */
#ifndef BELAY_COORD_EPOCH_TELLING_H
#define BELAY_COORD_EPOCH_TELLING_H

#include "common/wire/belay.pb-c.h"
#include "coord/epoch.h"
#include "coord/tree.h"

struct epoch_telling;

/* start and job are borrowed. NULL with ENOMEM. */
struct epoch_telling *epoch_telling_create(const struct epoch_start *start, enum scheme scheme,
                                           struct parity_code code, uint32_t arity, const char *job);
/* Accepts NULL. */
void epoch_telling_destroy(struct epoch_telling *telling);

/*
 * For the member of this index. The message borrows from the telling, until the next call. An epoch with one
 * member is told as a whole. NULL with ENOMEM.
 */
Belay__Wire__EpochRecord *epoch_telling_to(struct epoch_telling *telling, uint32_t index);

#endif
