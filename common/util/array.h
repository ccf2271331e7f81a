/*
 * array.h - arrays that grow.
 */
#ifndef BELAY_COMMON_UTIL_ARRAY_H
#define BELAY_COMMON_UTIL_ARRAY_H

#include <stddef.h>

/*
 * Make room for `needed` elements in the malloc(3) array *items (NULL and *room 0: none yet). *room is the
 * capacity in elements; it is at least doubled, so that adding n elements one by one copies O(n) elements.
 * New elements have no value. Returns 0, or -1 with ENOMEM: nothing has changed.
 */
#define array_reserve(items, needed, room) array_reserve_sized((items), sizeof **(items), (needed), (room))

/* The same; `items` is the address of a pointer to elements of element_bytes bytes each. */
int array_reserve_sized(void *items, size_t element_bytes, size_t needed, size_t *room);

#endif
