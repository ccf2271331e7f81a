/* info.h - the contents of info objects, which only the library knows until they are noted. */
#ifndef BELAY_MPI_LAYER_UPPER_INFO_H
#define BELAY_MPI_LAYER_UPPER_INFO_H

struct info; /* keys and values; arena_free() it */

/*
 * The present contents of a real info object; `old` (may be NULL) is freed. NULL: out of memory, and `old`
 * stays.
 */
struct info *info_note(void *real, struct info *old);

/* A new real info object with these contents. */
void *info_make(const struct info *info);

#endif
