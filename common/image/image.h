/*
 * image.h - the checkpoint image of one rank at one line, version 1.
 *
 * An image is one memfd (or file): a header, three tables, and page data. All integers are little
 * endian and natively aligned; offsets are bytes from the start of the image. `data_offset` and each
 * run's `data_offset` are multiples of IMAGE_PAGE_BYTES, so that page data can be mapped.
 *
 *   header | regions[region_count] | runs[run_count] | strings | padding | page data
 *
 * regions: the address space of the upper half, ascending by start, not overlapping.
 * runs:    pages whose content is in the image, ascending by address, each inside one region. What is
 *          in no run reads as zeros (anonymous) or as the file has it (IMAGE_REGION_FILE).
 * strings: NUL-terminated paths; offset 0 is the empty string.
 *
 * A reader checks everything with image_open() before it uses a byte of it; writers go through
 * struct image_writer. Neither keeps state outside its own struct.
 */
#ifndef BELAY_COMMON_IMAGE_IMAGE_H
#define BELAY_COMMON_IMAGE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"

#define IMAGE_MAGIC 0x0131474d4959414cull /* "LAYIMG1\1" */
#define IMAGE_VERSION 1u
#define IMAGE_PAGE_BYTES 4096ull

enum image_region_kind {
    IMAGE_REGION_NONE = 0,
    IMAGE_REGION_ANON = 1,        /* private anonymous */
    IMAGE_REGION_FILE = 2,        /* private mapping of the file at `path`: clean pages come from it */
    IMAGE_REGION_SHARED_ANON = 3, /* shared anonymous (content in runs; one per process after restart) */
    IMAGE_REGION_SHARED_FILE = 4, /* shared mapping of a file: no content in the image */
};

struct image_region {
    uint64_t start, end;   /* addresses, multiples of the page size */
    uint32_t kind;         /* enum image_region_kind */
    uint32_t prot;         /* PROT_* */
    uint32_t map_flags;    /* extra MAP_* (GROWSDOWN, NORESERVE, STACK), 0 if none */
    uint32_t path;         /* offset into strings */
    uint64_t file_offset;  /* bytes */
    uint64_t file_bytes;   /* size of the file when captured */
    int64_t file_mtime_ns; /* its modification time; both are compared at restart */
};

struct image_run {
    uint64_t address; /* of the first page */
    uint64_t bytes;   /* a multiple of the page size */
    uint64_t data_offset;
};

struct image_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes; /* sizeof(struct image_header) */
    uint64_t total_bytes;  /* of the image */
    uint64_t line;
    uint32_t rank, ranks;
    uint64_t resume_context; /* address of the context to resume (mpi-layer's business) */
    uint64_t region_count, region_offset;
    uint64_t run_count, run_offset;
    uint64_t strings_bytes, strings_offset;
    uint64_t data_bytes, data_offset;
    uint32_t program;      /* offset into strings: path of the executable */
    uint32_t reserved;     /* 0 */
    uint8_t identity[32];  /* of program and libc, given by the rank at its Hello; compared at restart */
    uint64_t layout_version; /* of the mpi-layer's own state inside the image; compared at restart */
};

/* A checked view of an image that somebody else maps. Pointers are into the mapping. */
struct image_view {
    const struct image_header *header;
    const struct image_region *regions;
    const struct image_run *runs;
    const char *strings;
};

/*
 * Check the image in memory [base, base + bytes): magic, version, every offset and count in bounds,
 * tables ascending, runs inside regions, strings terminated. bytes may be only the part up to
 * data_offset. Returns 0 and fills *view, or -1 (EINVAL) and fills err.
 */
int image_open(const void *base, size_t bytes, struct image_view *view, struct belay_error *err);

/* The string at an offset of an open view; "" if out of range. */
const char *image_string(const struct image_view *view, uint32_t offset);

/* Collects regions and runs, then writes header and tables. The page data are the caller's to place. */
struct image_writer;

/* A writer for an image; page data will start at the returned plan's data_offset. NULL with ENOMEM. */
struct image_writer *image_writer_create(void);
/* Accepts NULL, keeps errno. */
void image_writer_destroy(struct image_writer *writer);

/* Add a region (path may be NULL); addresses must ascend. Returns 0 or -1 (EINVAL, ENOMEM). */
int image_writer_add_region(struct image_writer *writer, const struct image_region *region,
                            const char *path);
/* Add a run of `bytes` at `address`; its data follow the previous run's. Returns 0 or -1. */
int image_writer_add_run(struct image_writer *writer, uint64_t address, uint64_t bytes);

/* Set the executable's path. Returns 0 or -1 (ENOMEM). */
int image_writer_set_program(struct image_writer *writer, const char *path);

/* Total bytes that the image will have, known once all regions and runs are there. */
uint64_t image_writer_total_bytes(const struct image_writer *writer);

/* Final runs with their data_offset filled in (valid until destroy). */
const struct image_run *image_writer_runs(struct image_writer *writer, size_t *count);

/*
 * Write header and tables to fd at offset 0. `header` gives line, rank, ranks, resume_context,
 * identity and layout_version; the rest is filled in here. Returns 0 or -1 with err.
 */
int image_writer_finish(struct image_writer *writer, const struct image_header *header, int fd,
                        struct belay_error *err);

#endif
