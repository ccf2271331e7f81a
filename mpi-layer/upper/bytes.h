/*
 * bytes.h - messages as bytes, whatever their length: the library counts in int, and programs send more.
 */
#ifndef BELAY_MPI_LAYER_UPPER_BYTES_H
#define BELAY_MPI_LAYER_UPPER_BYTES_H

#include <mpi.h>
#include <stdint.h>

/* `count` elements of a real type that are so many bytes. */
struct bytes {
    int count;
    void *real; /* datatype */
    void *made; /* to be freed; NULL: predefined */
};

/* Returns the MPI code; the caller gives it to bytes_end() in any case. */
int bytes_begin(struct bytes *bytes, uint64_t length);
void bytes_end(struct bytes *bytes);

/* Real calls for so many bytes. The communicator returns errors. */
int bytes_receive(void *buffer, uint64_t length, int source, int tag, void *real_comm);
int bytes_receive_matched(void *buffer, uint64_t length, void **real_message);

/* In MPI_Init. */
void bytes_bind(void);

#endif
