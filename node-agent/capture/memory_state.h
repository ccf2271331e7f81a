/*
 * memory_state.h - the parts of a struct memory, for the files of this folder.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_MEMORY_STATE_H
#define BELAY_NODE_AGENT_CAPTURE_MEMORY_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/image/layout.h"
#include "common/image/runs.h"
#include "common/util/error.h"
#include "node-agent/capture/cost.h"
#include "node-agent/capture/cow.h"
#include "node-agent/capture/faults.h"
#include "node-agent/capture/hot.h"
#include "node-agent/capture/page_pool.h"
#include "node-agent/capture/stage.h"
#include "node-agent/capture/tracker.h"

struct memory {
    pid_t pid;
    struct layout layout;
    uint64_t image_inode;   /* of the image that the process was restored from; 0: none */
    uint64_t base_line;     /* the committed line whose image has `base`; 0: none */
    struct run_set base;    /* its pages */
    struct run_set known;   /* pages that had content when the tracker was asked last */
    struct run_set pending; /* pages told by the tracker since base_line */
    const struct tracker_ops *ops;
    struct tracker *tracker;
    uint32_t moves_seen; /* mremap() calls of the process, when it was captured last */
    uint64_t line;       /* the line that is being taken or staged; 0: none */
    struct stage *stage; /* its copies */
    struct hot *hot;
    struct cow *cow;        /* NULL: nothing can be guarded */
    struct page_pool *pool; /* NULL: protected pages are copied to their places at once */
    struct cost cost;       /* of its last lines */
    uint64_t ahead_bytes;   /* copied ahead of `line` */
    struct file_tokens *tokens;
    struct faults faults; /* of the process, when it was captured last */
    int trust;            /* enum memory_trust; atomic, it only falls */
    bool is_lost;         /* the tracker has failed: it has not told all written pages */
    pthread_mutex_t lock;
    unsigned references;
};

/*
 * Before a capture: if tracking was lost, all pages count as written from now on. The caller holds the lock.
 */
int memory_find_again(struct memory *memory, struct belay_error *err);

/*
 * Before the tracker is asked: tell it which large runs of hot pages to leave alone (hot_leave()). The caller
 * holds the lock.
 */
void memory_leave_hot(struct memory *memory, bool is_running);

/*
 * A capture for this line begins; copies made ahead of another line are not used. The caller holds the lock.
 */
void memory_begin_line(struct memory *memory, uint64_t line);

/* Whether the next capture may save changes only. */
bool memory_has_base(const struct memory *memory);

#endif
