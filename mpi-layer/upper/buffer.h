/*
 * buffer.h - buffered sends and the buffer that the application attaches for them.
 *
 * Messages are held in the arena, which a line saves. Only the size of the attached buffer is used, as a
 * limit on their total size.
 */
#ifndef BELAY_MPI_LAYER_UPPER_BUFFER_H
#define BELAY_MPI_LAYER_UPPER_BUFFER_H

#include <mpi.h>

/* Send a copy; the buffer of the caller is free on return. Inside a wrapper. Returns the MPI code, raised. */
int buffer_send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm);

/* Wait until every buffered message has left. Inside a wrapper. */
void buffer_flush(void);

#endif
