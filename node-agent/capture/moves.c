#include "node-agent/capture/moves.h"

static int add(const struct run_set *pages, struct run_set *to);

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
        struct run_set moved = {0};
        rc = runs_slice(present, moves->ranges[slot].start, moves->ranges[slot].end, &moved);
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
