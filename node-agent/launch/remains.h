/*
 * remains.h - files of Open MPI that the processes of a launch leave behind if its launcher cannot clean up.
 *
 * Known are files that a rank maps shared outside the upper half: those under /dev/shm (segments for messages
 * between ranks), and those in the launcher's session directory (TMPDIR/ompi.NODE.UID/pid.LAUNCHER), which
 * stands for the whole directory. What an application maps lies in the upper half and is left alone.
 */
#ifndef BELAY_NODE_AGENT_LAUNCH_REMAINS_H
#define BELAY_NODE_AGENT_LAUNCH_REMAINS_H

#include <stddef.h>
#include <sys/types.h>

#include "common/image/layout.h"

struct remain {
    char *path;
    dev_t device;
    ino_t inode; /* so that a file made anew under the same name is left alone */
};

/* A zeroed struct is empty. */
struct remains {
    struct remain *files;
    size_t count, room;
    struct remain session; /* the launcher's session directory; path NULL: not seen */
};

/*
 * Note what the lower half of a rank maps now; launcher 0: not known, so no session directory is looked for.
 * What cannot be noted, since the rank is gone or memory lacks, is not removed later.
 */
void remains_note(struct remains *remains, pid_t rank, const struct layout *layout, pid_t launcher);

/* Remove the files that are still there and belong to our user. For when the ranks are gone. */
void remains_remove_files(const struct remains *remains);
/* The same for the session directory, for when the launcher is gone too. */
void remains_remove_session(const struct remains *remains);

void remains_release(struct remains *remains);

#endif
