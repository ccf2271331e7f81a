/* undo_folder.h - which folder is the undo folder of a job. */
#ifndef BELAY_NODE_AGENT_UNDO_UNDO_FOLDER_H
#define BELAY_NODE_AGENT_UNDO_UNDO_FOLDER_H

#include <stdbool.h>

#include "common/util/file_id.h"

#define UNDO_FOLDER_BYTES 1024

struct undo_folder {
    char path[UNDO_FOLDER_BYTES];
    bool is_in_rundir;
    struct file_id id; /* inode 0: not made yet */
};

#endif
