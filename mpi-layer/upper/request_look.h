/* request_look.h - whether requests are done: the library is asked, and whoever else completes them. */
#ifndef BELAY_MPI_LAYER_UPPER_REQUEST_LOOK_H
#define BELAY_MPI_LAYER_UPPER_REQUEST_LOOK_H

#include <mpi.h>
#include <stdbool.h>

#include "mpi-layer/upper/drained.h"
#include "mpi-layer/upper/request.h"

/* One look at the library, or at whoever else completes it. True if it is done now. */
bool request_look(struct request *request);

/*
 * A receive for which there is a drained message: done without the library. False: the library would not
 * begin to receive it; the message stays, and *code tells.
 */
bool request_complete_drained(struct request *request, struct message *message, int *code);

/*
 * End abandoned ones that are done. The first looks at a few only, so that a thousand in a row are not looked
 * at a thousand times each.
 */
void request_reap_some(void);
void request_reap_all(void);

#endif
