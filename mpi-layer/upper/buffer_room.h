/* buffer_room.h - the buffer that the application attaches for buffered sends, and what messages take of it.
 */
#ifndef BELAY_MPI_LAYER_UPPER_BUFFER_ROOM_H
#define BELAY_MPI_LAYER_UPPER_BUFFER_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/* The application's buffer, NULL: none. Its size, if `size` is not NULL. */
void *buffer_room_attached(int *size);
void buffer_room_attach(void *buffer, int size);

/* Is there room for so many bytes more? */
bool buffer_room_has(uint64_t bytes);
/* A message takes so many / has left, what it took is free again. */
void buffer_room_take(uint64_t bytes);
void buffer_room_release(uint64_t bytes);
/* Is any taken by messages that have not left? */
bool buffer_room_is_used(void);

#endif
