/*
 * compare.h - which pages of shared things differ from those of an image.
 */
#ifndef BELAY_NODE_AGENT_SHARED_COMPARE_H
#define BELAY_NODE_AGENT_SHARED_COMPARE_H

#include "common/image/runs.h"
#include "common/util/error.h"
#include "node-agent/shared/object.h"

/*
 * Compare all objects with the pages `base` of an image (-1: with none), with several threads if that is
 * faster. present: the pages that have contents; dirty: those of them that the image lacks or has otherwise.
 * Objects are in the order of their addresses. Returns 0 or -1 with err.
 */
int compare_objects(const struct objects *objects, int image, const struct run_set *base,
                    struct run_set *present, struct run_set *dirty, struct belay_error *err);

#endif
