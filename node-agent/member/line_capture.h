/*
 * line_capture.h - the capture step of a line: all ranks of this node at once, in the thread pool. Each rank
 * is told to run as soon as its memory is copied, or protected; not if the policy has the ranks stand still
 * until the line has committed. A rank whose delta needs no new memory is copied at once,
 * the others when the need of all is known and there is room.
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
#include "common/wire/peer_message.h"
#include "node-agent/capture/memory.h"
#include "node-agent/capture/policy.h"
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
    enum policy policy;
    bool is_loading;             /* images of ranks here still come: no memory is protected (load.h) */
    bool wants_lost;             /* see line_capture_lost() */
    bool keeps_to_children;      /* fails with ECHILD while a rank has one that it cannot do without */
    uint32_t count;              /* of ranks here, at least 1: all whose parts the line has here */
    uint32_t world;              /* ranks of the job, here and elsewhere */
    uint64_t memory_limit_bytes; /* 0: none */
};

struct line_capture_ops {
    /* All ranks are staged (reason NULL; captured_bytes: copied in the pause), or it failed. Called once. */
    void (*done)(uint64_t captured_bytes, const char *reason, void *context);
};

/* Begin; ops are called from the loop, later. NULL with err. */
struct line_capture *line_capture_start(const struct line_capture_request *request,
                                        const struct line_capture_ops *ops, void *context,
                                        struct belay_error *err);

/*
 * A message for the user: shared objects that lines do not save, or a reason why no line can be taken; "":
 * none. For a capture that is done.
 */
const char *line_capture_complaint(const struct line_capture *capture);

/* A message for the user: descriptors that a restart will not restore; known from the beginning. */
const char *line_capture_lost(const struct line_capture *capture);

/* The bytes of page data that were staged; for a capture that is done. */
uint64_t line_capture_dirty_bytes(const struct line_capture *capture);

/* What was protected, and copied while the ranks ran; for a capture that is done. */
struct peer_guarded line_capture_guarded(const struct line_capture *capture);

/* What was copied when, and what the model said; for a capture that is done. */
struct peer_copied line_capture_copied(const struct line_capture *capture);

/* The line that was captured has committed: the next captures are measured against it. Frees. */
void line_capture_commit(struct line_capture *capture);

/* No ops are called any more; work in progress is dropped. Accepts NULL. Frees, now or later. */
void line_capture_cancel(struct line_capture *capture);

#endif
