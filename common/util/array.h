/*
 * array.h - arrays that grow.
 */
#ifndef BELAY_COMMON_UTIL_ARRAY_H
#define BELAY_COMMON_UTIL_ARRAY_H

#include <stddef.h>

/*
 * Room for `needed` elements in an array from malloc(3) that *items points to (NULL and *room 0: none yet).
 * *room is what it has, in elements; it is doubled at least, so that n elements that are added one by one are
 * copied O(n) times. The new ones have no value. 0, or -1 with ENOMEM: nothing has changed.
 */
#define array_reserve(items, needed, room) array_reserve_sized((items), sizeof **(items), (needed), (room))

/* The same; `items` is the address of a pointer to elements of so many bytes. */
int array_reserve_sized(void *items, size_t element_bytes, size_t needed, size_t *room);

#endif
