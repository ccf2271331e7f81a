/*
 * sums.h - checksums of an image, against memory that changes by itself: bits that flip, not attackers.
 *
 * Each page of a whole image has a sum at a place of its own behind the page data, which follows from its
 * address. Sums are written with the pages (image_write_pages()), so that they stand for what was captured,
 * and are copied with an image, never made anew for it. Those of a delta lie in its tables, and go with the
 * pages into the image that it is applied to. The header has a sum over itself and the tables.
 *
 * The checksum is XXH3 with 64 bits (Collet, xxHash, "XXH3"), for a page together with its address.
 */
#ifndef BELAY_COMMON_IMAGE_SUMS_H
#define BELAY_COMMON_IMAGE_SUMS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/image/format.h"
#include "common/util/error.h"

/* What the sums of that many bytes of pages take. */
#define SUMS_OF_BYTES(bytes) ((bytes) / IMAGE_PAGE_BYTES * sizeof(uint64_t))

/* The file offset, in a whole image, of the sum of the page at an address; those of the following pages
 * follow. */
uint64_t sums_offset(uint64_t address);

/* The sum of each page: `bytes` from this address on, a multiple of the page size. */
void sums_make(uint64_t *sums, uint64_t address, const void *pages, uint64_t bytes);

/* Write the sums of pages of a whole image: `bytes` from this address on, a multiple of the page size.
 * Returns 0 or -1 with err. */
int sums_write(int fd, uint64_t address, const void *pages, uint64_t bytes, struct belay_error *err);

/* The sum over a header, whose own field `sum` does not count, and its tables. */
uint64_t sums_of_tables(const struct image_header *header, const char *tables);

/* Compare header and tables with their sum. Returns 0, or -1 with err (EBADMSG). */
int sums_check_tables(const struct image_view *view, struct belay_error *err);

/*
 * The same, and all pages of a whole image. Reads all of it, but for what is left once *is_stopped (atomic;
 * may be NULL) is true. Returns 0, or -1 with err (EBADMSG: it names the first page that differs; ECANCELED).
 */
int sums_check(int fd, const struct image_view *view, const bool *is_stopped, struct belay_error *err);

#endif
