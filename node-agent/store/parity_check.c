#include "node-agent/store/parity_check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/image/runs.h"

#define CHUNK_BYTES (UINT64_C(1) << 18) /* read at once */

static int find_pages(int sum, const struct image_view *view, struct run_set *runs, struct run_set *all);
static int compare(int parity, int sum, const struct run_set *runs, const struct run_set *all,
                   const bool *is_stopped, struct belay_error *err);
static int compare_chunk(const uint8_t *parity, const uint8_t *sum, uint64_t address, uint64_t bytes,
                         const struct run_set *runs, struct belay_error *err);

int parity_check(int parity, int sum, const bool *is_stopped, uint64_t *bytes, struct belay_error *err)
{
    struct run_set runs = {0}, all = {0};
    struct image_view view;
    if (image_load(parity, &view, err) < 0)
        return -1;
    int rc = find_pages(sum, &view, &runs, &all);
    rc = rc < 0 ? belay_error_errno(err, "parity cannot be compared")
                : compare(parity, sum, &runs, &all, is_stopped, err);
    image_unload(&view);
    if (rc == 0)
        *bytes = runs_bytes(&all);
    runs_release(&runs);
    runs_release(&all);
    return rc;
}

/* runs: pages of the parity; all: these, and whatever the sum has touched. */
static int find_pages(int sum, const struct image_view *view, struct run_set *runs, struct run_set *all)
{
    struct run_set touched = {0};
    off_t start = (off_t)IMAGE_DATA_BASE, limit = (off_t)image_offset(LAYOUT_END);
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < view->header->run_count; i++)
        rc = runs_append(runs, view->runs[i].address, view->runs[i].bytes);
    while (rc == 0 && (start = lseek(sum, start, SEEK_DATA)) >= 0 && start < limit) {
        off_t end = lseek(sum, start, SEEK_HOLE);
        end = end < limit ? end : limit;
        rc = end < 0 ? -1 : runs_append(&touched, (uint64_t)start - IMAGE_DATA_BASE, (uint64_t)(end - start));
        start = end;
    }
    if (rc == 0 && start < 0 && errno != ENXIO)
        rc = -1;
    if (rc == 0)
        rc = runs_union(runs, &touched, all);
    runs_release(&touched);
    return rc;
}

static int read_all(int fd, uint8_t *to, uint64_t bytes, uint64_t address)
{
    for (uint64_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, to + done, bytes - done, (off_t)(image_offset(address) + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0) { /* behind the end of the file */
            memset(to + done, 0, bytes - done);
            return 0;
        }
        done += (uint64_t)got;
    }
    return 0;
}

static int compare(int parity, int sum, const struct run_set *runs, const struct run_set *all,
                   const bool *is_stopped, struct belay_error *err)
{
    uint8_t *chunk = malloc(2 * CHUNK_BYTES);
    int rc = chunk ? 0 : belay_error_errno(err, "no memory to compare parity");
    for (size_t i = 0; rc == 0 && i < all->count; i++)
        for (uint64_t at = 0; rc == 0 && at < all->runs[i].bytes; at += CHUNK_BYTES) {
            uint64_t address = all->runs[i].address + at, left = all->runs[i].bytes - at;
            uint64_t bytes = left < CHUNK_BYTES ? left : CHUNK_BYTES;
            if (is_stopped && __atomic_load_n(is_stopped, __ATOMIC_SEQ_CST))
                rc = belay_error_set(err, ECANCELED, "it is not wanted any more");
            else if (read_all(parity, chunk, bytes, address) < 0 ||
                     read_all(sum, chunk + CHUNK_BYTES, bytes, address) < 0)
                rc = belay_error_errno(err, "parity cannot be read");
            else
                rc = compare_chunk(chunk, chunk + CHUNK_BYTES, address, bytes, runs, err);
        }
    free(chunk);
    return rc;
}

/* What the file of the parity has outside of its runs is not parity: zeros are in its place. */
static int compare_chunk(const uint8_t *parity, const uint8_t *sum, uint64_t address, uint64_t bytes,
                         const struct run_set *runs, struct belay_error *err)
{
    static const uint8_t zeros[IMAGE_PAGE_BYTES];
    for (uint64_t at = 0; at < bytes; at += IMAGE_PAGE_BYTES) {
        size_t run = runs_find(runs, address + at);
        bool has_page = run < runs->count && runs->runs[run].address <= address + at;
        if (memcmp(has_page ? parity + at : zeros, sum + at, IMAGE_PAGE_BYTES) != 0)
            return belay_error_set(err, EBADMSG, "page 0x%" PRIx64 " is not the sum of its blocks of data",
                                   address + at);
    }
    return 0;
}
