/*
 * tree.h - removes a folder with everything in it.
 */
#ifndef BELAY_COMMON_UTIL_TREE_H
#define BELAY_COMMON_UTIL_TREE_H

/* Remove the folder, as far as possible; symbolic links are not followed, other file systems not entered. */
void tree_remove(const char *path);

#endif
