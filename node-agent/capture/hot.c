#include "node-agent/capture/hot.h"

#include <stdlib.h>

#include "common/image/image.h"

#define HOT_LINES 8u
#define HOT_PARTS 4u                   /* so many times HOT_LINES, and all hot pages were tried again */
#define HOT_LITTLE_BYTES (32ull << 20) /* of these, all are tried at once */
#define LEFT_LEAST_BYTES (1ull << 20)  /* of a run: for less, a question of its own is not worth while */
#define CHECKED_BYTES (4ull << 20)     /* are checked together ... */
#define CHECKED_PARTS 8u               /* ... at one of so many lines */

struct hot {
    struct run_set told;     /* pages told by the tracker in the line that is being taken */
    struct run_set again;    /* of these, pages told at least twice: they were written while it was taken */
    struct run_set pages;    /* the same of lines before: copying them ahead would be in vain */
    struct run_set left;     /* of the hot ones, those that the tracker was last told to leave alone */
    struct run_set checked;  /* hot ones that are tracked since the newest pause of a line ... */
    struct run_set suspects; /* ... or since the one before: if they are not told, they have cooled */
    bool is_told_whole;      /* `told` is all of the line: it has come to its pause */
    unsigned lines;          /* that `pages` has gathered since some of it was tried again */
    uint64_t tried;          /* up to here, an address */
};

static int add_left(const struct image_run *run, uint64_t line, struct run_set *left,
                    struct run_set *checked);
static void forget_cooled(struct hot *hot);
static void learn(struct hot *hot);
static void try_again(struct hot *hot);

struct hot *hot_create(void)
{
    return calloc(1, sizeof(struct hot));
}

void hot_destroy(struct hot *hot)
{
    if (!hot)
        return;
    runs_release(&hot->told);
    runs_release(&hot->again);
    runs_release(&hot->pages);
    runs_release(&hot->left);
    runs_release(&hot->checked);
    runs_release(&hot->suspects);
    free(hot);
}

void hot_begin_line(struct hot *hot)
{
    forget_cooled(hot);
    runs_release(&hot->told);
    hot->is_told_whole = false;
    learn(hot);
}

int hot_note_written(struct hot *hot, const struct run_set *written)
{
    struct run_set twice = {0}, again = {0}, told = {0};
    int rc = -1;
    if (runs_intersect(&hot->told, written, &twice) == 0 && runs_union(&hot->again, &twice, &again) == 0 &&
        runs_union(&hot->told, written, &told) == 0) {
        runs_move(&again, &hot->again);
        runs_move(&told, &hot->told);
        rc = 0;
    }
    runs_release(&twice);
    runs_release(&again);
    runs_release(&told);
    return rc;
}

const struct run_set *hot_leave(struct hot *hot, uint64_t line, bool is_running)
{
    struct run_set left = {0}, checked = {0};
    for (size_t i = 0; i < hot->pages.count; i++) {
        const struct image_run *run = &hot->pages.runs[i];
        int rc = 0;
        if (run->bytes >= LEFT_LEAST_BYTES)
            rc = is_running ? runs_append(&left, run->address, run->bytes)
                            : add_left(run, line, &left, &checked);
        if (rc < 0)
            break; /* the others are tracked */
    }
    if (!is_running)
        runs_move(&checked, &hot->checked);
    hot->is_told_whole |= !is_running;
    runs_move(&left, &hot->left);
    return &hot->left;
}

const struct run_set *hot_pages(const struct hot *hot)
{
    return &hot->pages;
}

uint64_t hot_left_bytes(const struct hot *hot)
{
    return runs_bytes(&hot->left);
}

void hot_inherit(struct hot *hot, struct hot *former)
{
    runs_move(&former->pages, &hot->pages);
}

/* Of a run of hot pages, what is left alone after this line, and what is not. */
static int add_left(const struct image_run *run, uint64_t line, struct run_set *left, struct run_set *checked)
{
    const uint64_t end = run->address + run->bytes;
    for (uint64_t at = run->address, next; at < end; at = next) {
        uint64_t part = at / CHECKED_BYTES;
        bool is_checked = (part + line) % CHECKED_PARTS == 0;
        next = (part + 1) * CHECKED_BYTES < end ? (part + 1) * CHECKED_BYTES : end;
        if (runs_append(is_checked ? checked : left, at, next - at) < 0)
            return -1;
    }
    return 0;
}

/* Hot pages that were tracked since the pause of the line before the last, and were not written. */
static void forget_cooled(struct hot *hot)
{
    struct run_set cooled = {0}, hotter = {0};
    if (hot->is_told_whole && runs_subtract(&hot->suspects, &hot->told, &cooled) == 0 &&
        runs_subtract(&hot->pages, &cooled, &hotter) == 0)
        runs_move(&hotter, &hot->pages);
    runs_release(&cooled);
    runs_move(&hot->checked, &hot->suspects);
}

/*
 * A hot page is not copied ahead, so nothing shows that it has cooled: from time to time some are tried
 * again. Without memory all are.
 */
static void learn(struct hot *hot)
{
    struct run_set larger = {0};
    if (runs_union(&hot->pages, &hot->again, &larger) < 0)
        runs_release(&larger);
    runs_release(&hot->again);
    runs_move(&larger, &hot->pages);
    if (hot->lines++ == HOT_LINES) {
        try_again(hot);
        hot->lines = 1;
    }
}

/* A part of the hot pages counts as cool: all at once would be copied twice, by a line that takes as much
 * longer. */
static void try_again(struct hot *hot)
{
    struct run_set past = {0}, tried = {0}, rest = {0};
    uint64_t all_bytes = runs_bytes(&hot->pages), pages = all_bytes / HOT_PARTS / IMAGE_PAGE_BYTES,
             bytes = pages * IMAGE_PAGE_BYTES;
    bytes = bytes > HOT_LITTLE_BYTES ? bytes : HOT_LITTLE_BYTES;
    int rc = runs_slice(&hot->pages, 0, hot->tried, &past);
    uint64_t past_bytes = runs_bytes(&past) < all_bytes ? runs_bytes(&past) : 0;
    uint64_t start = runs_address(&hot->pages, past_bytes);
    hot->tried = runs_address(&hot->pages, past_bytes + bytes);
    if (rc < 0 || runs_slice(&hot->pages, start, hot->tried, &tried) < 0 ||
        runs_subtract(&hot->pages, &tried, &rest) < 0)
        runs_release(&rest);
    runs_move(&rest, &hot->pages);
    runs_release(&past);
    runs_release(&tried);
}
