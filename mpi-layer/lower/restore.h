/* restore.h - put a saved image back at its addresses. */
#ifndef BELAY_MPI_LAYER_LOWER_RESTORE_H
#define BELAY_MPI_LAYER_LOWER_RESTORE_H

#include "common/image/image.h"
#include "common/util/error.h"

struct restore {
    int fd; /* of the image, borrowed */
    struct image_view view;
    uint64_t map_bytes; /* runs of at least this size are mapped */
    uint64_t stack;     /* the lowest address of the main thread's stack, which may be several regions */
};

/* Read and check the tables of the image in fd. Returns 0, or -1 with err. restore_close() it. */
int restore_open(struct restore *restore, int fd, struct belay_error *err);
void restore_close(struct restore *restore);

/*
 * Make the regions that lie in [from, to) again, with their contents. Anonymous memory is mapped privately
 * from the image where it comes in runs long enough: it is read when it is touched, and the image must not
 * change from now on. Nothing else may be mapped there. Returns 0, or -1 with err (a mapped file is gone
 * or has changed, addresses taken, out of memory); the process is then of no further use.
 */
int restore_regions(struct restore *restore, uint64_t from, uint64_t to, struct belay_error *err);

#endif
