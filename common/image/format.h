/*
 * format.h - the format of the memory of one rank at one line, version 9: whole images and deltas.
 *
 * Both are one memfd (or file): a header, page data, and one block of tables. All integers are little
 * endian and natively aligned; file offsets are bytes from the start, offsets of tables from the start of
 * the block. Page data lie at multiples of IMAGE_PAGE_BYTES, so that they can be mapped.
 *
 *   whole image:  header | tables | ... | page data, each page at image_offset() of its address (sparse)
 *                 | the sum of each page, see sums.h (sparse)
 *   delta:        header | page data, packed | tables
 *
 * A delta may be encoded: of a page only the lines of 64 bytes are here that changed (lines.h), packed, and
 * its data lie at multiples of LINE_BYTES. Deltas are encoded on their way to another node, and as that node
 * holds them (node-agent/delta).
 *
 * A delta (base_line > 0) holds what changed since the committed line base_line. Applied to the image of that
 * line, it gives the image of its own line: the runs are written, the drops are removed, and present becomes
 * the runs of the image.
 *
 * regions: the address space of the upper half, ascending by start, not overlapping.
 * runs:    the pages with content here, ascending by address, each inside one region. In a whole image a
 *          page in no run reads as zeros (anonymous), or is the file's page (IMAGE_REGION_FILE).
 * drops:   in a delta: pages that the base may have and the new image does not have.
 * present: in a delta: the runs of the image that results, data_offset included.
 * sums:    in a delta: the sum of each page of the runs, one after the other (sums.h). They stand for the
 * page that results, also where it is encoded. encodings: in an encoded delta: how each run lies here, an
 * enum image_encoding; else there are none. masks:   in an encoded delta: of each page of the runs that are
 * LINES or FRESH, one after the other, the lines that are here. strings: NUL-terminated paths; offset 0 is
 * the empty string.
 */
#ifndef BELAY_COMMON_IMAGE_FORMAT_H
#define BELAY_COMMON_IMAGE_FORMAT_H

#include <stdint.h>

#include "common/image/runs.h"

#define IMAGE_MAGIC 0x0131474d4959414cull /* "LAYIMG1\1" */
#define IMAGE_VERSION 9u
#define IMAGE_PAGE_BYTES 4096ull
#define IMAGE_MEMFD_NAME "belay-image"
#define IMAGE_OF_SHARED UINT32_MAX /* group: it is of what the ranks of a group share (shared.h) */
/* group: it is parity of images (docs/parity.md). rank: 2 N + the slot, ranks: 3 N, of N ranks of the job */
#define IMAGE_OF_PARITY (UINT32_MAX - 1)
#define IMAGE_DATA_BASE (4ull << 30) /* offset of the page data in a whole image; the tables end before */
#define IMAGE_TABLES_MAX (IMAGE_DATA_BASE - IMAGE_PAGE_BYTES)

enum image_region_kind {
    IMAGE_REGION_NONE = 0,
    IMAGE_REGION_ANON = 1,        /* private anonymous */
    IMAGE_REGION_FILE = 2,        /* private mapping of the file at `path`: clean pages come from it */
    IMAGE_REGION_SHARED = 3,      /* shared, an object without a name; see shared.h for the content */
    IMAGE_REGION_SHARED_FILE = 4, /* shared mapping of the file at `path`: no content in the image */
    IMAGE_REGION_SEGMENT = 5,     /* shared, an attached segment of System V; as SHARED */
    IMAGE_REGION_BEHIND = 6,      /* private, behind the end of a file without a name: cannot be read */
};

/* The packed data of a run begin at its data_offset. */
enum image_encoding {
    IMAGE_ENCODING_NONE = 0,
    IMAGE_PAGES = 1, /* whole pages */
    IMAGE_LINES = 2, /* lines that overwrite those of the base's page; all others are the base's */
    IMAGE_FRESH = 3, /* lines of a page whose others are zeros, whatever the base has there */
};

struct image_region {
    uint64_t start, end;    /* addresses, multiples of the page size */
    uint32_t kind;          /* enum image_region_kind */
    uint32_t prot;          /* PROT_* */
    uint32_t map_flags;     /* extra MAP_* (GROWSDOWN, NORESERVE, STACK), 0 if none */
    uint32_t path;          /* offset into strings */
    uint64_t file_offset;   /* bytes */
    uint64_t file_bytes;    /* size of the file when captured */
    int64_t file_mtime_ns;  /* its modification time, compared at restart if there is no token */
    uint64_t file_token;    /* file_token.h, compared at restart; 0: not known */
    uint64_t device, inode; /* of a shared mapping, as in /proc/PID/maps; else 0 */
};

struct image_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes; /* sizeof(struct image_header) */
    uint64_t total_bytes;  /* memory that header, tables and page data take */
    uint64_t line;
    uint64_t base_line; /* of a delta; 0: a whole image */
    uint32_t rank, ranks;
    uint64_t resume_context; /* address of the context to resume (mpi-layer's business) */
    uint64_t tables_offset, tables_bytes;
    uint64_t region_count, region_offset;
    uint64_t run_count, run_offset;
    uint64_t drop_count, drop_offset;
    uint64_t present_count, present_offset;
    uint64_t sum_count, sum_offset;
    uint64_t encoding_count, encoding_offset; /* 0, or run_count */
    uint64_t mask_count, mask_offset;
    uint64_t strings_bytes, strings_offset;
    uint64_t data_bytes;     /* of all runs, as they lie here */
    uint32_t program;        /* offset into strings: path of the executable */
    uint32_t group;          /* the lowest rank of those that ran on the node of the rank; IMAGE_OF_SHARED */
    uint8_t identity[32];    /* of program and libc, given by the rank at its Hello; compared at restart */
    uint64_t layout_version; /* of the mpi-layer's own state inside the image; compared at restart */
    uint64_t sum;            /* over the header and the tables (sums.h) */
};

/* A checked copy of header and tables. */
struct image_view {
    struct image_header *header;
    const struct image_region *regions;
    const struct image_run *runs, *drops, *present;
    const uint64_t *sums, *encodings, *masks;
    const char *strings;
    char *tables; /* the block */
};

/* The file offset, in a whole image, of the page at an address of the upper half. */
static inline uint64_t image_offset(uint64_t address)
{
    return IMAGE_DATA_BASE + address;
}

#endif
