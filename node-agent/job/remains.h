/*
 * remains.h - files of Open MPI that the processes of a launch leave behind if its launcher cannot clean up.
 *
 * Known are files under /dev/shm that a rank maps shared outside the upper half (segments for messages
 * between ranks), and the launcher's session directory (TMPDIR/ompi.NODE.UID/pid.MPIRUN), which a rank has in
 * its environment. If the environment does not tell of it, a shared mapping of a file in it does. What an
 * application maps lies in the upper half and is left alone. They are recorded with the job: if its agent is
 * killed, the next one removes them.
 */
#ifndef BELAY_NODE_AGENT_JOB_REMAINS_H
#define BELAY_NODE_AGENT_JOB_REMAINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/image/layout.h"

struct remain {
    char *path;
    dev_t device;
    ino_t inode; /* so that a file made anew under the same name is left alone */
};

struct remain_process {
    pid_t pid;      /* 0: not known */
    uint64_t start; /* in ticks, so that another process of this number is left alone */
};

/* A zeroed struct is empty. */
struct remains {
    struct remain_process *ranks;
    size_t rank_count, rank_room;
    struct remain_process launcher; /* or the mpirun that the session is of */
    struct remain *files;
    size_t count, room;
    struct remain session; /* the launcher's session directory; path NULL: not seen */
};

/*
 * Note the rank, and what its lower half maps now; launcher 0: not known, so no session directory is looked
 * for. What cannot be noted, since the rank is gone or memory lacks, is not removed later.
 */
void remains_note(struct remains *remains, pid_t rank, const struct layout *layout, pid_t launcher);

/* Only what can be noted as soon as there is a rank, which may have mapped nothing yet. */
void remains_note_session(struct remains *remains, pid_t rank, pid_t launcher);

/* Remove the files that are still there and belong to our user. For when the ranks are gone. */
void remains_remove_files(const struct remains *remains);
/* The same for the session directory, unless the mpirun that it is of still runs. */
void remains_remove_session(const struct remains *remains);

/* For those of a record. Paths are copied. */
void remains_add_rank(struct remains *remains, const struct remain_process *rank);
void remains_add_file(struct remains *remains, const struct remain *file);

/* Kill the ranks that run, and wait for their end, two seconds at most. */
void remains_end_ranks(const struct remains *remains);

/* Remove what no process of the launch needs any more. */
void remains_remove_unused(const struct remains *remains);

void remains_release(struct remains *remains);

#endif
