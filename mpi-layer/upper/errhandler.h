/*
 * errhandler.h - error handlers of the application.
 *
 * The library calls the handler in the middle of its own work, where no line may be taken and no other call
 * of MPI be made. So the real handler only notes the error, and the application's function is called, in the
 * upper half, when the outermost wrapper of the call ends.
 */
#ifndef BELAY_MPI_LAYER_UPPER_ERRHANDLER_H
#define BELAY_MPI_LAYER_UPPER_ERRHANDLER_H

#include <mpi.h>

#include "mpi-layer/upper/handle.h"

/* Call the application's handler for the error that was noted. Outside any wrapper; may not return. */
void errhandler_deliver(void);

/* Call the application's handler, if it is one for files, with an error on this file. Outside any wrapper. */
void errhandler_call_file(const struct handle *errhandler, MPI_File file, int code);

/* Before parking: forget those that the application has freed and no communicator has any more. */
void errhandler_sweep(void);

/* The application gets one that an object has, and will free it once more. */
void errhandler_hold(struct handle *errhandler);

/* Its last user is gone: free the real handler. */
void errhandler_forget(struct handle *errhandler);

/* After a restart: make the real handler again. */
void errhandler_restore(struct handle *errhandler);

#endif
