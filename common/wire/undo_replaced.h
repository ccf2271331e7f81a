/*
 * undo_replaced.h - files that putting back has made anew: who they were, and who they are now.
 *
 * The agent writes the list beside a line's logs (common/wire/undo.h) before a file gets its name, and reads
 * it when it has to begin again; ranks that are restored from the line read it to know their files.
 */
#ifndef BELAY_COMMON_WIRE_UNDO_REPLACED_H
#define BELAY_COMMON_WIRE_UNDO_REPLACED_H

#include <stdbool.h>
#include <stddef.h>

#include "common/wire/undo.h"

struct undo_replaced_list {
    struct undo_replaced *items;
    size_t count;
};

/* The list in a line's folder (a descriptor; -1: none); none is an empty one. Returns 0 or -1 with errno. */
int undo_replaced_read(int folder, struct undo_replaced_list *list);
void undo_replaced_release(struct undo_replaced_list *list);

/* Does a descriptor stand for the file that this is the identity of, or for what took its place? */
bool undo_replaced_is(const struct undo_replaced_list *list, const struct file_id *id, int fd);

#endif
