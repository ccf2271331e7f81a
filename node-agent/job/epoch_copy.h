/*
 * epoch_copy.h - this node's copy of the arbiter's record of a job (common/wire/epoch_record.h): the keeper
 * holds it under JOB/arbiter, so that it outlives the agent. Each record takes the place of the former one as
 * a whole.
 */
#ifndef BELAY_NODE_AGENT_JOB_EPOCH_COPY_H
#define BELAY_NODE_AGENT_JOB_EPOCH_COPY_H

#include "common/util/error.h"
#include "common/wire/job_name.h"
#include "coord/epoch.h"
#include "node-agent/store/keeper.h"

struct epoch_copy {
    struct keeper *keeper;
    char job[JOB_NAME_BYTES];
    int fd;                    /* of the record, -1: none */
    struct epoch_start *start; /* the record's content; NULL: none */
};

void epoch_copy_init(struct epoch_copy *copy, struct keeper *keeper, const char *job);
/* Take over the copy that a former agent left; fd -1: none. A damaged copy is logged and ignored. */
void epoch_copy_adopt(struct epoch_copy *copy, int fd);
/* Have the keeper hold this one, which is copied. Returns 0 or -1 with err; then the former one stays. */
int epoch_copy_keep(struct epoch_copy *copy, const struct epoch_start *start, struct belay_error *err);
/* The keeper does not hold it any more. */
void epoch_copy_drop(struct epoch_copy *copy);

#endif
