/*
 * inlet.h - belay's standard input on its way to the launcher, kept so that a restart gets it again
 * (common/wire/streams.h).
 *
 * A thread reads it, a little ahead of what has been handed on, and stores it in the streams' memory; the
 * launcher gets it through a pipe, from the beginning, or, after a restart, from where rank 0 goes on. So
 * there is one inlet for each launch.
 */
#ifndef BELAY_CMD_INLET_H
#define BELAY_CMD_INLET_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/outlet.h"
#include "common/util/error.h"

struct inlet;

/*
 * Is standard input something to be kept: a pipe, a socket or a file? A terminal, which is to be read only in
 * the foreground, and /dev/null are the launcher's own.
 */
bool inlet_is_wanted(void);

/* *launcher_fd is for the launcher's standard input; the caller closes it. NULL with err. */
struct inlet *inlet_create(int *launcher_fd, struct belay_error *err);

/*
 * Start to hand on what the streams in the memfd streams_fd hold and STDIN_FILENO still brings, which is
 * added to `input` (both are borrowed). With is_restored from where rank 0 goes on in this epoch, as soon as
 * it says so. Once; 0 or -1 with err.
 */
int inlet_start(struct inlet *inlet, int streams_fd, struct outlet_input *input, uint32_t epoch,
                bool is_restored, struct belay_error *err);

/* The launcher has ended, or never began. Accepts NULL. */
void inlet_destroy(struct inlet *inlet);

#endif
