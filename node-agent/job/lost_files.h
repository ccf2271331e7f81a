/*
 * lost_files.h - whose changes to which files cannot be put back, since the files were lost with their host:
 * those of ranks of lost nodes on file systems that not all nodes had in common.
 */
#ifndef BELAY_NODE_AGENT_JOB_LOST_FILES_H
#define BELAY_NODE_AGENT_JOB_LOST_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coord/epoch.h"

/* All zero: none. */
struct lost_files {
    bool *is_lost; /* by rank: its node is; NULL: no node is */
    uint32_t rank_count;
    uint64_t *devices; /* that all nodes had before the first loss, as in struct file_id */
    size_t device_count;
};

/*
 * An epoch follows the last one (NULL: there was none), in which all nodes had these devices. What was noted
 * before stays. Without memory nothing is noted: such files hold the job then.
 */
void lost_files_note(struct lost_files *lost, const struct epoch_start *last, const struct epoch_start *start,
                     const uint64_t *devices, size_t device_count);
/* A copy, to be released; none if memory lacks. */
struct lost_files lost_files_copy(const struct lost_files *lost);
/* Files are put back. */
void lost_files_release(struct lost_files *lost);

#endif
