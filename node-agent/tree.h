/*
 * tree.h - a folder with everything in it.
 */
#ifndef BELAY_NODE_AGENT_TREE_H
#define BELAY_NODE_AGENT_TREE_H

/* Remove it, as far as that is possible; symbolic links are not followed, other file systems not entered. */
void tree_remove(const char *path);

#endif
