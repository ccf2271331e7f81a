/*
 * share.h - pages on their way from one member to another, to be added up there: as a member's part in parity
 * (parity.h), or in an image that is made again (rebuild.h).
 *
 * What goes is a sequence of records: a struct share_record, and those of the page's lines of 64 bytes that
 * the mask names (common/image/lines.h). Pages and lines that are zero do not go. What comes is added to a
 * memfd of an image's size, page by page, in any order: several shares may come at the same time.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_SHARE_H
#define BELAY_NODE_AGENT_MEMBER_SHARE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/image/format.h"
#include "common/util/error.h"
#include "node-agent/redundancy/code.h"

struct share_record {
    uint64_t address; /* where the page belongs at the receiver */
    uint64_t lines;   /* mask; not 0 */
};

#define SHARE_RECORD_BYTES (sizeof(struct share_record) + IMAGE_PAGE_BYTES) /* at most */

/* ---- what a share is made of ---- */

/* Pages of an image: their new content xor the old one. */
struct share_piece {
    uint64_t address, bytes;
    uint64_t fresh,
        old; /* file offsets in the files `fresh` and `old` of the pages; SHARE_ZERO: they are zeros */
    bool is_of_delta; /* fresh is in the delta, else in the image */
};
#define SHARE_ZERO UINT64_MAX

/* Counted references: several shares are made of the same pages. */
struct share_pages;

/*
 * What the staged part makes of the committed image of a rank, `image` (-1: there is none, all old content is
 * zero). is_whole: all of the new image, to old content of zeros. Copies of the descriptors are kept. NULL
 * with err.
 */
struct share_pages *share_pages_staged(int staged, int image, bool is_whole, struct belay_error *err);
/* All pages of an image. */
struct share_pages *share_pages_of_image(int image, struct belay_error *err);
/* None of the pages of an image yet, whose files are shared with `of`: share_pages_add() adds those of a
 * range. NULL with ENOMEM. */
struct share_pages *share_pages_part(struct share_pages *of);
/* Returns 0 or -1 with ENOMEM. */
int share_pages_add(struct share_pages *part, uint64_t start, uint64_t end);
struct share_pages *share_pages_ref(struct share_pages *pages);
void share_pages_unref(struct share_pages *pages);

/*
 * Where a block of data goes at this receiver: its place there, and the coefficient that it is multiplied by
 * (1: it is not multiplied). False: it does not go there. block: address / PARITY_BLOCK_BYTES.
 */
typedef bool share_map_f(const void *context, uint64_t block, uint64_t *to_block, uint8_t *coefficient);

/* A share that is being read. */
struct share;

/* map's context is copied, so many bytes. pages: a reference is taken. NULL with ENOMEM. */
struct share *share_create(struct share_pages *pages, share_map_f *map, const void *context,
                           size_t context_bytes);
/* Accepts NULL. */
void share_destroy(struct share *share);
/* As many bytes as it can have at most. */
uint64_t share_bound(const struct share *share);
/* The next bytes, as fabric_fill_f: share is the context. */
ssize_t share_fill(void *share, uint8_t *to, size_t room);
/* From now on share_fill() fails with ECANCELED; from any thread. */
void share_cancel(struct share *share);
/* Whatever it belongs to. */
void share_set_owner(struct share *share, void *owner);
void *share_owner(const struct share *share);
/* How much it has given. */
uint64_t share_given(const struct share *share);
/* How much that would have been in whole pages. */
uint64_t share_page_bytes(const struct share *share);

/* ---- where shares are added up ---- */

/* Where a page of a sum is in memory, of zeros at first; NULL: it does not belong there. In any thread. */
typedef uint8_t *share_page_f(const void *context, uint64_t address);

/* The sum: pages at image_offset() of a memfd, or in memory. */
struct share_sum {
    int fd;             /* borrowed; -1: it is in memory */
    share_page_f *page; /* of one in memory */
    const void *context;
    pthread_mutex_t lock;
    uint64_t pages_max; /* more than that are refused with ENOMEM ... */
    uint64_t pages;     /* ... of all shares */
};

void share_sum_init(struct share_sum *sum, int fd, uint64_t bytes_max);
/* The same in memory. */
void share_sum_init_memory(struct share_sum *sum, share_page_f *page, const void *context,
                           uint64_t bytes_max);
void share_sum_release(struct share_sum *sum);

/* The coefficient that what comes for a page is multiplied by; 0: it does not belong there. */
typedef uint8_t share_weigh_f(const void *context, uint64_t address);

/* A share that comes. */
struct share_intake {
    struct share_sum *sum;
    share_weigh_f *weigh; /* NULL: 1 */
    const void *context;
    struct code_factor factor;
    uint8_t record[SHARE_RECORD_BYTES]; /* that has not come as a whole yet */
    size_t got;
    uint8_t *window; /* mapped part of the sum */
    uint64_t window_start;
};

void share_intake_begin(struct share_intake *intake, struct share_sum *sum, share_weigh_f *weigh,
                        const void *context);
/* The next bytes; in any thread, one at a time. Returns 0, or -1 with errno (EBADMSG). */
int share_intake_take(struct share_intake *intake, const uint8_t *bytes, size_t count);
/* Whether it ends where a record does. Gives the window back. */
bool share_intake_end(struct share_intake *intake);

/* Add a share that is here to a sum. Blocks. Returns 0 or -1 with errno. */
int share_add(struct share *share, struct share_sum *sum);

#endif
