/*
 * channel.h - pipes and eventfds that several ranks have: noted at a line, made again.
 */
#ifndef BELAY_NODE_AGENT_SHARED_CHANNEL_H
#define BELAY_NODE_AGENT_SHARED_CHANNEL_H

#include <stdbool.h>

#include "common/util/error.h"
#include "node-agent/shared/object.h"

/* Fill in record and contents; what is in a pipe stays there. False: it cannot be read. */
bool channel_note(struct object *object);

/*
 * Make it again with these contents. Returns a descriptor from which any end can be opened by way of /proc (a
 * pipe), or which every rank gets (an eventfd); *other is one more that has to stay open as long, or -1. -1
 * with err.
 */
int channel_renew(const struct shared_record *record, const char *path, const char *contents, int *other,
                  struct belay_error *err);

#endif
