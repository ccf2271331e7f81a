/* folder.h - the undo folder of a job by descriptors: its lines, and what is in them. */
#ifndef BELAY_NODE_AGENT_UNDO_FOLDER_H
#define BELAY_NODE_AGENT_UNDO_FOLDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/util/error.h"
#include "node-agent/undo/undo_folder.h"

/* The folder, if it is the one that was made; -1 with err. */
int folder_open(const struct undo_folder *folder, struct belay_error *err);

/* Call visit() with each line that has a folder, ascending, and the descriptor of that. Stops at -1. */
typedef int folder_line_f(void *context, uint64_t line, int fd);
int folder_each_line(int folder, folder_line_f *visit, void *context);

/* The folder of a line, -1 with errno. */
int folder_open_line(int folder, uint64_t line);

/* Remove the files in the folder of a line, all but the one named (NULL: all), and then the folder. */
void folder_empty_line(int folder, uint64_t line, const char *but);
/* Names of open files that had none (UNDO_HELD). */
void folder_remove_held(int folder);

/* Whether it is a file or folder that only the agent's user can have written. */
bool folder_is_own(int fd, mode_t type);

#endif
