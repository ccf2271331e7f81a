/*
 * memory.h - what the agent knows of a rank's memory from line to line: its tracker, the pages of the newest
 * committed image, the pages of aborted lines that the next one has to save, and what is staged.
 *
 * One per rank and epoch. Captures work with it in pool threads, one at a time (lock); references are
 * counted, since a capture that was cancelled may outlive the rank.
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_MEMORY_H
#define BELAY_NODE_AGENT_CAPTURE_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "node-agent/capture/buffer.h"
#include "node-agent/capture/faults.h"
#include "node-agent/capture/tracker.h"

/* How far what the tracker tells can be relied on: others may write to the memory unseen. */
enum memory_trust {
    MEMORY_TRUST_ALL = 0,
    MEMORY_TRUST_PAUSES,  /* no such write is under way while the process stands still at a line */
    MEMORY_TRUST_NOTHING, /* everything has to be copied at each line */
};

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
    uint32_t moves_seen;     /* of the process's, when it was captured last */
    struct buffer buffer;    /* of the delta in progress */
    int image;               /* or the whole image in progress; -1: none */
    struct run_set staged;   /* pages that have a place in it (data_offset: in a delta) */
    struct run_set current;  /* of these, pages copied while the process ran and not written since */
    uint64_t staged_line;    /* the line that they are of */
    uint64_t staged_bytes;   /* places taken, the header's page included */
    struct run_set told;     /* pages told by the tracker at staged_line */
    struct run_set again;    /* of these, pages told at least twice: they were written while it was taken */
    struct run_set hot;      /* the same of lines before: copying them ahead would be in vain */
    struct run_set left;     /* of hot ones, those that the tracker was last told to leave alone */
    struct run_set checked;  /* hot ones that are tracked since the pause of staged_line ... */
    struct run_set suspects; /* ... or since the one before: if they are not told, they have cooled */
    bool is_told_whole;      /* `told` is all of staged_line: it has come to its pause */
    unsigned hot_lines;      /* that `hot` has gathered since some of it was tried again */
    uint64_t hot_tried;      /* up to here, an address */
    struct faults faults;    /* of the process, when it was captured last */
    int trust;               /* enum memory_trust; atomic, it only falls */
    bool is_lost;            /* the tracker has failed: what it told is not all */
    uint64_t last_bytes;     /* that the last delta took of it */
    pthread_mutex_t lock;
    unsigned references;
};

/*
 * For a process that begins anew (image -1) or was restored from this image (borrowed) of base_line. uffd is
 * the process's userfaultfd, taken over; -1: it has none. layout: where its lower half is, which is left out.
 * NULL with err.
 */
struct memory *memory_create(pid_t pid, const struct layout *layout, const struct tracker_ops *ops, int uffd,
                             int image, uint64_t base_line, struct belay_error *err);
/*
 * The same rank had `former` in an epoch that is over, and no delta of it is in use any more: take over its
 * staging area, since new memory is dear, and which of its pages are hot. From the loop.
 */
void memory_inherit(struct memory *memory, struct memory *former);
struct memory *memory_ref(struct memory *memory);
/* Accepts NULL. */
void memory_unref(struct memory *memory);

/* The line was committed; `present` are its image's pages, taken over. From the loop. */
void memory_commit(struct memory *memory, uint64_t line, struct run_set *present);

/* From now on it is trusted no more than this. Returns true if that is news. From the loop. */
bool memory_distrust(struct memory *memory, enum memory_trust trust);

/* Before a capture: if tracking was lost, everything counts as changed from now on. Locked. */
int memory_find_again(struct memory *memory, struct belay_error *err);

/*
 * Before the tracker is asked: large runs of hot pages are left alone by it, but for an eighth at each line,
 * which tells whether they have cooled. Locked.
 */
void memory_leave_hot(struct memory *memory, bool is_running);

/* A capture for this line begins. What was copied ahead of another one is not used. Locked. */
void memory_begin_line(struct memory *memory, uint64_t line);

/*
 * Whether a pause at this line will find little to copy besides hot pages: no more than little_bytes were
 * written since the last line, and there is memory for all of it. Then copying ahead gains nothing. A guess:
 * from the process's page faults, of which a tracked page takes one when it is written first.
 */
bool memory_is_little_written(struct memory *memory, uint64_t line, uint64_t little_bytes);

/* After a line, while the process runs: put right what tracking did to its memory. From a pool thread. */
void memory_settle(struct memory *memory);

/* Forget what was copied ahead. Locked. */
void memory_forget_staged(struct memory *memory);

/* Whether pages can be copied ahead, while the process runs: later writes to them will be told. */
bool memory_is_tracked(const struct memory *memory);

/* Whether the next capture may save changes only. */
bool memory_has_base(const struct memory *memory);

#endif
