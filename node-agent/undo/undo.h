/*
 * undo.h - the files of a job as they were at its lines (common/wire/undo.h): put back at a restart,
 * forgotten when a newer line has committed.
 *
 * The ranks write the logs; only the agent reads and removes them. A folder is known by its identity (device
 * and inode): another folder at its path is not used. A folder whose path is "" does not exist; all functions
 * do nothing for it.
 */
#ifndef BELAY_NODE_AGENT_UNDO_UNDO_H
#define BELAY_NODE_AGENT_UNDO_UNDO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"
#include "common/wire/fence.h"
#include "common/wire/undo_replaced.h"
#include "node-agent/undo/undo_folder.h"

/* Name the folder of a job: in `base`, "" for the run directory. Returns 0, or -1 with err. */
int undo_folder_of(const char *rundir, const char *base, const char *job, struct undo_folder *folder,
                   struct belay_error *err);

/*
 * Make it. What an earlier job left in the run directory is removed, unless files are owed from it. Returns
 * 0, or -1 with err: EEXIST, EPERM (others could put another one in its place), EBUSY (files are owed).
 */
int undo_create(struct undo_folder *folder, struct belay_error *err);

/*
 * Use a folder that another node's agent has made, at folder->path and with folder->id: the ranks of all
 * nodes of a machine write to it, and whichever agent comes first puts all files back. Returns 0, or -1 with
 * err: it is not there, or not ours.
 */
int undo_share(const struct undo_folder *folder, struct belay_error *err);

/*
 * Does this host have the folder that another one has made, on a file system that both have in common: the
 * same mount of one kernel, or one of the network? Returns 0, or -1 with err.
 */
struct undo_common {
    uint64_t kernel;    /* of the other host (common/util/mounts.h); 0: not known */
    bool is_on_network; /* the folder, as the other host sees it */
};
int undo_sees_common(const char *path, const struct file_id *id, const struct undo_common *common,
                     struct belay_error *err);

struct undo_request {
    uint64_t keeps_from; /* what belongs to this line and later ones before `line` stays; 0: nothing does */
    uint64_t line;       /* put files back to what they were at this line; 0: at the start */
    bool leaves_failed;  /* go on where a file cannot be put back; the user wants it so */
    void (*say)(void *context, const char *text); /* of a file that is left as it is */
    void *context;
    /* For other threads while it runs, atomic: steps done and in all; an order to end soon, with ECANCELED.
     */
    uint64_t done, steps;
    bool is_cancelled;
    /*
     * Ranks whose host is lost (by rank; NULL: none), and the file systems that all hosts had, ascending:
     * what these ranks have changed elsewhere was lost with their host.
     */
    const bool *is_lost;
    uint32_t rank_count;
    const uint64_t *common_devices;
    size_t common_count;
    const struct fence *fence; /* no file is changed after its time: ETIME. NULL: at any time */
};

/*
 * Put files back, and forget everything. No rank may be running. Only what is still the file that was noted
 * is touched: one that others have replaced or removed is left as it is, named and counted in *left. Returns
 * 0, or -1 with err, which names the first file that could not be put back: nothing is forgotten then, and
 * the next call goes on from there, as it does after a kill. Blocks for as long as copying takes, also that
 * of another agent with the same folder, after which nothing is left to be done.
 */
int undo_apply(const struct undo_folder *folder, struct undo_request *request, uint64_t *left,
               struct belay_error *err);

/* The files that putting back to a line has made anew. Returns 0 (release the list), or -1 with err. */
int undo_list_replaced(const struct undo_folder *folder, uint64_t line, struct undo_replaced_list *list,
                       struct belay_error *err);

/* Is there anything to put back? Has that begun, and not ended? */
bool undo_is_owing(const struct undo_folder *folder);
bool undo_has_begun(const struct undo_folder *folder);

/* A line has committed: no restart will go back further. */
void undo_forget_before(const struct undo_folder *folder, uint64_t line);

/* Has an arbiter on another host claimed the job (common/wire/claim.h)? */
bool undo_is_claimed_elsewhere(const struct undo_folder *folder);

/* Remove the folder with everything in it. */
void undo_remove(const struct undo_folder *folder);

/* Remove what a job that is not known any more has left in the run directory. Returns whether it had. */
bool undo_clean(const char *rundir, const char *job);

/* The same for all jobs that the caller does not know. Returns how many there were. */
uint32_t undo_clean_others(const char *rundir, bool (*is_known)(void *context, const char *job),
                           void *context);

/* Remove the run directory's part if no job is left in it. */
void undo_remove_base(const char *rundir);

#endif
