/*
 * part.h - a part of an archived line as a file: a head, then the ranges of the image's memfd that count,
 * each behind its place and length. The image brings its own sums (common/image/sums.h).
 */
#ifndef BELAY_COMMON_ARCHIVE_PART_H
#define BELAY_COMMON_ARCHIVE_PART_H

#include <stdbool.h>
#include <stdint.h>

#include "common/archive/folder.h"
#include "common/util/error.h"

#define ARCHIVE_PART_MAGIC 0x3174726150796c42ull /* "BlyPart1" */
#define ARCHIVE_PART_VERSION 1u

struct archive_part_head {
    uint64_t magic;
    uint32_t version;
    uint32_t image_version; /* of the image's format */
    uint64_t line;
    uint32_t part, ranks; /* as of the store; ranks of the world */
    uint64_t range_count;
};

struct archive_range {
    uint64_t offset, bytes; /* in the image's file */
};

/* Its name: rank-R, or shared-G of what a group shares. */
void archive_part_name(uint32_t part, uint32_t ranks, char name[ARCHIVE_NAME_BYTES]);

/*
 * Write the whole image in fd, which does not change meanwhile, as a file of the folder; *bytes: its size. It
 * is durable when 0 is returned. Ends with ECANCELED once *is_stopped (atomic) is true. Blocks. -1 with err.
 */
int archive_part_write(int folder, const struct archive_part_head *head, int fd, const bool *is_stopped,
                       uint64_t *bytes, struct belay_error *err);

/*
 * Bring the image back into an empty memfd of image_make_memfd(). expected: line, part, ranks; bytes: that
 * the file has. The image is not checked here. Blocks. Returns 0, or -1 with err.
 */
int archive_part_read(int folder, const struct archive_part_head *expected, uint64_t bytes, int memfd,
                      struct belay_error *err);

#endif
