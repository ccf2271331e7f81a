/*
 * content.h - reads the content of a shared object: from a descriptor, from the agent's own memory, or from
 * the mappings that ranks have of it.
 *
 * Offsets and lengths are those of the object, in bytes. Several threads may read at once.
 */
#ifndef BELAY_NODE_AGENT_SHARED_CONTENT_H
#define BELAY_NODE_AGENT_SHARED_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/image/runs.h"
#include "common/util/error.h"

/* A rank has [offset, offset + bytes) of the thing mapped at `start`. */
struct content_piece {
    pid_t pid;
    uint64_t start, offset, bytes;
};

struct content {
    int fd;                       /* -1: none */
    const char *memory;           /* NULL: none */
    bool is_attached;             /* memory is an attached segment; else it is malloc'ed */
    struct content_piece *pieces; /* ascending by offset once content_settle() was called */
    size_t piece_count, piece_room;
    uint64_t bytes; /* of the whole thing */
    bool is_blank;  /* what ranks have mapped is the kernel's own, as of performance counters: zeros */
};

void content_init(struct content *content);
void content_release(struct content *content);

/* Returns 0 or -1 with ENOMEM. */
int content_add_piece(struct content *content, const struct content_piece *piece);
/* All pieces are there. Where the thing is read through them, `bytes` becomes the end of the last. */
void content_settle(struct content *content);

/* The pages that may have content; all others read as zeros. Returns 0 or -1 with ENOMEM. */
int content_extents(const struct content *content, struct run_set *to);

/*
 * [offset, offset + bytes), in `buffer` or elsewhere; what lies behind the end, in its last page, is zeros.
 * NULL with err.
 */
const char *content_read(const struct content *content, uint64_t offset, size_t bytes, char *buffer,
                         struct belay_error *err);

#endif
