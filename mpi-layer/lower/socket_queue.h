/*
 * socket_queue.h - what waits in one end of a pair of sockets: noted while it stays there, and put into the
 * end that is made in its place.
 *
 * In a note each message, or part of a stream, follows a uint32_t with its length.
 */
#ifndef BELAY_MPI_LAYER_LOWER_SOCKET_QUEUE_H
#define BELAY_MPI_LAYER_LOWER_SOCKET_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mpi-layer/lower/gate.h"

struct socket_queue {
    const struct fd_record *record; /* of the end in which it waits */
    int type;
    int writer; /* a descriptor of the other end, if that can be written to; -1: there is none */
    char *(*reserve)(size_t bytes); /* room for the note, which may move with the next call; NULL: none */
};

/*
 * Note what waits, behind `used` bytes of the note. Returns the new number of bytes; 0: impossible, since
 * descriptors come with it, there is no room for it, or there are empty messages and no end to write them by.
 */
size_t socket_queue_note(const struct socket_queue *queue, size_t used);

/* Nothing waits there. */
void socket_queue_is_empty(const struct fd_record *record);

/* Send what was noted by the other end of a pair. False: it does not take all. */
bool socket_queue_fill(int writer, const char *from, uint64_t bytes);

#endif
