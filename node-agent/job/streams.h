/*
 * streams.h - the memory of a job's standard streams (common/wire/streams.h): made here, held by the keeper
 * as JOB/streams, used by the ranks and the arbiter.
 */
#ifndef BELAY_NODE_AGENT_JOB_STREAMS_H
#define BELAY_NODE_AGENT_JOB_STREAMS_H

#include <stdint.h>

#include "common/util/error.h"
#include "common/wire/streams.h"
#include "node-agent/store/keeper.h"

struct streams_holder {
    int fd;      /* memfd, -1: none */
    int wake_fd; /* eventfd */
};

#define STREAMS_NONE ((struct streams_holder){-1, -1})

/* Those of a new job. Returns 0 or -1 with err. */
int streams_create(struct streams_holder *streams, struct keeper *keeper, const char *job,
                   struct belay_error *err);

/* Take up those that a former agent left; fd becomes ours, -1: they are gone. Returns 0 or -1 with err. */
int streams_adopt(struct streams_holder *streams, int fd, struct belay_error *err);

/* The number of ranks, and so of slots, is known. Returns 0 or -1 with err. */
int streams_set_ranks(struct streams_holder *streams, uint32_t ranks, struct belay_error *err);

/* What the rank has written by now; -1 with errno. */
int streams_ends(const struct streams_holder *streams, uint32_t rank,
                 struct stream_end ends[STREAMS_PER_RANK]);
/* All that the rank had written by then is out. -1 with errno. */
int streams_set_ends(const struct streams_holder *streams, uint32_t rank,
                     const struct stream_end ends[STREAMS_PER_RANK]);

/* Give them up in the keeper as well. */
void streams_release(struct streams_holder *streams, struct keeper *keeper, const char *job);

#endif
