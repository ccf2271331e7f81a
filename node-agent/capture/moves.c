#include "node-agent/capture/moves.h"

#include <stdbool.h>

#include "common/image/image.h"

static int add(const struct run_set *pages, struct run_set *to);

/* What the rank says is no range of pages tells nothing: every page may have moved. */
int moves_add(const struct control_moves *moves, uint32_t *seen, const struct run_set *present,
              struct run_set *dirty)
{
    int rc = 0;
    if (moves->count - *seen > CONTROL_MAX_MOVES) {
        rc = add(present, dirty);
        *seen = moves->count;
    }
    for (; rc == 0 && *seen != moves->count; ++*seen) {
        uint32_t slot = *seen % CONTROL_MAX_MOVES;
        uint64_t start = moves->ranges[slot].start, end = moves->ranges[slot].end;
        struct run_set moved = {0};
        bool is_range = start < end && (start | end) % IMAGE_PAGE_BYTES == 0;
        rc = is_range ? runs_slice(present, start, end, &moved) : runs_copy(present, &moved);
        if (rc == 0)
            rc = add(&moved, dirty);
        runs_release(&moved);
    }
    return rc;
}

static int add(const struct run_set *pages, struct run_set *to)
{
    struct run_set all = {0};
    if (runs_union(pages, to, &all) < 0)
        return -1;
    runs_release(to);
    *to = all;
    return 0;
}
