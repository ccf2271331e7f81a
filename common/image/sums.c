#include "common/image/sums.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/image/layout.h"

#define BLOCK_PAGES 512u /* whose sums are written or read at once */
#define BLOCK_BYTES (BLOCK_PAGES * IMAGE_PAGE_BYTES)

static uint64_t sum_page(const char *page, uint64_t address);
static int check_run(int fd, const struct image_run *run, const bool *is_stopped, struct belay_error *err);
static int check_block(int fd, uint64_t address, uint64_t bytes, struct belay_error *err);

uint64_t sums_offset(uint64_t address)
{
    return image_offset(LAYOUT_END) + SUMS_OF_BYTES(address);
}

/* The same content at another place is another page. */
static uint64_t sum_page(const char *page, uint64_t address)
{
    return XXH3_64bits(page, IMAGE_PAGE_BYTES) ^ address;
}

void sums_make(uint64_t *sums, uint64_t address, const void *pages, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes; done += IMAGE_PAGE_BYTES)
        *sums++ = sum_page((const char *)pages + done, address + done);
}

int sums_write(int fd, uint64_t address, const void *pages, uint64_t bytes, struct belay_error *err)
{
    uint64_t sums[BLOCK_PAGES];
    for (uint64_t done = 0, part; done < bytes; done += part) {
        part = bytes - done < BLOCK_BYTES ? bytes - done : BLOCK_BYTES;
        sums_make(sums, address + done, (const char *)pages + done, part);
        ssize_t wrote = pwrite(fd, sums, SUMS_OF_BYTES(part), (off_t)sums_offset(address + done));
        if (wrote != (ssize_t)SUMS_OF_BYTES(part))
            return belay_error_set(err, wrote < 0 ? errno : ENOSPC, "no memory for the sums of an image");
    }
    return 0;
}

uint64_t sums_of_tables(const struct image_header *header, const char *tables)
{
    struct image_header own = *header;
    own.sum = 0;
    uint64_t seed = XXH3_64bits(&own, sizeof own);
    return XXH3_64bits_withSeed(tables, header->tables_bytes, seed);
}

int sums_check_tables(const struct image_view *view, struct belay_error *err)
{
    if (view->header->sum == sums_of_tables(view->header, view->tables))
        return 0;
    return belay_error_set(err, EBADMSG, "damaged image: its tables are not what was written");
}

int sums_check(int fd, const struct image_view *view, const bool *is_stopped, struct belay_error *err)
{
    if (sums_check_tables(view, err) < 0)
        return -1;
    for (uint64_t i = 0; i < view->header->run_count; i++)
        if (check_run(fd, &view->runs[i], is_stopped, err) < 0)
            return -1;
    return 0;
}

static int check_run(int fd, const struct image_run *run, const bool *is_stopped, struct belay_error *err)
{
    for (uint64_t done = 0, bytes; done < run->bytes; done += bytes) {
        if (is_stopped && __atomic_load_n(is_stopped, __ATOMIC_SEQ_CST))
            return belay_error_set(err, ECANCELED, "not all of an image was compared with its sums");
        bytes = run->bytes - done < BLOCK_BYTES ? run->bytes - done : BLOCK_BYTES;
        if (check_block(fd, run->address + done, bytes, err) < 0)
            return -1;
    }
    return 0;
}

static int check_block(int fd, uint64_t address, uint64_t bytes, struct belay_error *err)
{
    uint64_t sums[BLOCK_PAGES];
    int rc = 0;
    if (pread(fd, sums, SUMS_OF_BYTES(bytes), (off_t)sums_offset(address)) != (ssize_t)SUMS_OF_BYTES(bytes))
        return belay_error_set(err, EIO, "the sums of an image cannot be read");
    /* The faults bring 16 pages each, which takes less time than MAP_POPULATE does for one after the other.
     */
    char *data = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, (off_t)image_offset(address));
    if (data == MAP_FAILED)
        return belay_error_errno(err, "cannot map an image");
    for (uint64_t i = 0; rc == 0 && i < bytes / IMAGE_PAGE_BYTES; i++) {
        uint64_t at = i * IMAGE_PAGE_BYTES;
        if (sum_page(data + at, address + at) != sums[i])
            rc = belay_error_set(err, EBADMSG, "damaged image: the page at 0x%llx is not what was captured",
                                 (unsigned long long)(address + at));
    }
    munmap(data, bytes);
    return rc;
}
