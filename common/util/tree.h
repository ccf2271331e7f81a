/*
 * tree.h - a folder with everything in it.
 */
#ifndef BELAY_COMMON_UTIL_TREE_H
#define BELAY_COMMON_UTIL_TREE_H

/* Remove it, as far as that is possible; symbolic links are not followed, other file systems not entered. */
void tree_remove(const char *path);

#endif
