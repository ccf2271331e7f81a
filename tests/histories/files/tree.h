/*
 * tree.h - a folder and all below it, as it can be seen by names.
 */
#ifndef BELAY_TESTS_HISTORIES_FILES_TREE_H
#define BELAY_TESTS_HISTORIES_FILES_TREE_H

#include <sys/stat.h>

/* Type and permissions, as far as a restart brings them back: a regular file loses its set-id bits. */
mode_t mode_told(const struct stat *stat);

/* note() each name, in their order: type, permissions, links, size and contents. */
void tree_observe(const char *folder);

/* note() where below the rank's folder the working directory is. */
void tree_observe_cwd(void);

void tree_remove(const char *folder);

#endif
