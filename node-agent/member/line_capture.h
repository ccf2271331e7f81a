/*
 * line_capture.h - the capture step of a line: all ranks of this node at once, in the thread pool. Each rank
 * is told to run as soon as its memory is copied. Those whose delta needs no new memory are copied at once,
 * the others when all needs are known and there is room.
 *
 * If a rank may share something with others, all ranks stand still until what they share has been copied,
 * too: any of them could change it.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_LINE_CAPTURE_H
#define BELAY_NODE_AGENT_MEMBER_LINE_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/util/error.h"
#include "node-agent/capture/memory.h"
#include "node-agent/rank/rank.h"
#include "node-agent/shared/shared.h"
#include "node-agent/store/store.h"

struct line_capture;

struct line_capture_request {
    uv_loop_t *loop;
    struct store *store;
    uint64_t line;
    struct rank *const *ranks;
    struct memory *const *memories; /* of the ranks */
    struct shared *shared;
    bool wants_lost;             /* see line_capture_lost() */
    uint32_t count;              /* of ranks here, at least 1: all whose parts the line has here */
    uint32_t world;              /* ranks of the job, here and elsewhere */
    uint64_t memory_limit_bytes; /* 0: none */
};

struct line_capture_ops {
    /* All are staged (reason NULL; captured_bytes were copied in the pause), or it failed. Called once. */
    void (*done)(uint64_t captured_bytes, const char *reason, void *context);
};

/* Begin; ops are called from the loop, later. NULL with err. */
struct line_capture *line_capture_start(const struct line_capture_request *request,
                                        const struct line_capture_ops *ops, void *context,
                                        struct belay_error *err);

/*
 * What a restart will find as it is then, or what keeps lines from being taken, a line for a person; "":
 * nothing. Of a capture that is done.
 */
const char *line_capture_complaint(const struct line_capture *capture);

/* What a restart will not bring back, the same, known from the beginning. */
const char *line_capture_lost(const struct line_capture *capture);

/* Page data that were staged; of a capture that is done. */
uint64_t line_capture_dirty_bytes(const struct line_capture *capture);

/* The line that was captured has committed: the next captures are measured against it. Frees. */
void line_capture_commit(struct line_capture *capture);

/* No ops any more; what is in progress is thrown away. Accepts NULL. Frees, now or later. */
void line_capture_cancel(struct line_capture *capture);

#endif
