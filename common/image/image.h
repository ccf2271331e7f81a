/*
 * image.h - reads and writes images and deltas (format.h).
 *
 * A reader checks everything with image_load() before it uses any of it; a writer uses struct image_writer.
 * Neither keeps state outside its own struct.
 */
#ifndef BELAY_COMMON_IMAGE_IMAGE_H
#define BELAY_COMMON_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/image/format.h"
#include "common/image/runs.h"
#include "common/util/error.h"

/* The size of the file of a whole image. */
uint64_t image_end(void);

/* An empty memfd of sealed size that can take a whole image, or -1 with err. The caller owns it. */
int image_make_memfd(struct belay_error *err);

/*
 * A block of memory for pages on their way from a file or a mapping, to be freed by free(); NULL: ENOMEM. It
 * begins with a page. What malloc() gives of this size begins 16 bytes behind the beginning of one, and
 * copying to there takes some processors (AMD Zen 3) three times as long.
 */
void *image_block(uint64_t bytes);

/*
 * Check that fd may be an image's memfd: its size is sealed, since processes map images. The content is not
 * checked. Returns 0, or -1 with err.
 */
int image_check_memfd(int fd, struct belay_error *err);

/* Put pages into a whole image, and their sums. Returns 0 or -1 with err. */
int image_write_pages(int fd, uint64_t address, const void *from, uint64_t bytes, struct belay_error *err);
/* The same with the sums that a delta brings, one for each page. */
int image_move_pages(int fd, uint64_t address, const void *from, const uint64_t *sums, uint64_t bytes,
                     struct belay_error *err);

/* Pages of a whole image; those that are not in it are zeros. Returns 0 or -1 with err. */
int image_read_pages(int fd, uint64_t address, void *to, uint64_t bytes, struct belay_error *err);

/*
 * Read and check header and tables: magic, version, every offset and count in bounds, tables ascending,
 * runs inside regions and the file, strings terminated. Returns 0 and fills *view (image_unload() it), or -1
 * with err (EINVAL: not an image, or a damaged one).
 */
int image_load(int fd, struct image_view *view, struct belay_error *err);
/* Accepts a zeroed view. */
void image_unload(struct image_view *view);

/* One run of an image or a delta, as it lies in the file. */
struct image_piece {
    uint64_t index; /* of the run, plus 1 */
    const struct image_run *run;
    enum image_encoding encoding;
    const uint64_t *masks; /* of its pages; NULL: whole pages are here */
    const uint64_t *sums;  /* of its pages, if it is a delta's */
    uint64_t data_bytes;   /* here, from its data_offset on */
    uint64_t next_mask;
};

/* The next run; a zeroed piece stands before the first one. False: there is none. */
bool image_next_piece(const struct image_view *view, struct image_piece *piece);
/* Whether the pages of a run have masks. */
bool image_has_masks(const struct image_view *view, uint64_t run);

/* What the image that this is, or makes, takes without its pages: header, tables, sums. */
uint64_t image_tables_bytes(const struct image_view *view);
/* Where the first page of an image or a delta is in its file; 0 if it has none. For faults. */
uint64_t image_first_data(const struct image_view *view);
/* The string at an offset of a view; "" if out of range. */
const char *image_string(const struct image_view *view, uint32_t offset);

/* Collects regions and strings, then writes header and tables. The caller writes the page data. */
struct image_writer;

/* The pages of an image. Runs have their data_offset; drops and present are of a delta, else NULL (a delta
 * has present). */
struct image_pages {
    const struct run_set *runs, *drops, *present;
};

/* NULL with ENOMEM. */
struct image_writer *image_writer_create(void);
/* Accepts NULL, keeps errno. */
void image_writer_destroy(struct image_writer *writer);

/* Add a region (path may be NULL); addresses must ascend. Returns 0 or -1 (EINVAL, ENOMEM). */
int image_writer_add_region(struct image_writer *writer, const struct image_region *region, const char *path);

/* Set the executable's path. Returns 0 or -1 (ENOMEM). */
int image_writer_set_program(struct image_writer *writer, const char *path);

/*
 * The file of the delta is mapped at `data`, from its beginning to the end of its pages: they are read there.
 * NULL, as without this call: image_writer_finish() maps them, which takes nearly as long as the sums.
 */
void image_writer_set_data(struct image_writer *writer, const char *data);

/* The size of the tables in bytes, once all regions have been added. */
uint64_t image_writer_tables_bytes(const struct image_writer *writer, const struct image_pages *pages);

/*
 * Write tables at tables_offset of fd, then the header. The page data of a delta are there: they are read for
 * their sums. `header` gives line, base_line, rank, ranks,
 * resume_context, identity and layout_version; the rest is filled in here. Returns 0 or -1 with err.
 */
int image_writer_finish(struct image_writer *writer, const struct image_pages *pages,
                        const struct image_header *header, int fd, uint64_t tables_offset,
                        struct belay_error *err);

/*
 * The last step of applying a delta: give the whole image in fd, whose page data are there already, the
 * tables and header that the delta brings. Returns its total_bytes, or 0 with err.
 */
uint64_t image_adopt_tables(const struct image_view *delta, int fd, struct belay_error *err);

#endif
