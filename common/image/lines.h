/*
 * lines.h - what changed inside a page: a mask of its 64 lines of 64 bytes, and the changed lines, packed.
 *
 * Bit i of a mask stands for the bytes [64 i, 64 i + 64) of the page. Packed lines lie one behind the other,
 * in ascending order, without what did not change. They hold either the new contents, which overwrite a page
 * (applying them twice is harmless), or old xor new, which is folded into a page (twice: it is undone).
 *
 * A page of zeros may be given as NULL where it is only read. No pointer has to be aligned. All functions are
 * pure and keep no state; they may be called in any thread and in a signal handler.
 *
 * The idea is AG-ckpt's: written pages are found by the hardware, coarsely, and what is saved of them by
 * comparing, finely ("AG-ckpt", IEICE Trans. Inf. & Syst., 2013).
 */
#ifndef BELAY_COMMON_IMAGE_LINES_H
#define BELAY_COMMON_IMAGE_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "common/image/format.h"

#define LINE_BYTES 64u
#define LINES_ALL UINT64_MAX /* the mask of a page that changed as a whole */

/* The lines in which two pages differ; either may be NULL. */
uint64_t lines_compare(const void *old_page, const void *new_page);

/* What the lines of a mask take when they are packed: 0 to IMAGE_PAGE_BYTES. */
static inline size_t lines_bytes(uint64_t mask)
{
    return (size_t)__builtin_popcountll(mask) * LINE_BYTES;
}

/* Put the lines of a page (or NULL) behind one another. `to` has lines_bytes(mask), which is returned, and
 * does not overlap the page. */
size_t lines_pack(uint64_t mask, const void *page, void *to);

/* The same with old xor new; either may be NULL. */
size_t lines_pack_xor(uint64_t mask, const void *old_page, const void *new_page, void *to);

/*
 * Overwrite the lines of a mask in a page with packed ones, of which `bytes` are there; what follows them is
 * not looked at. Returns the bytes used, lines_bytes(mask), or -1 with EINVAL: there are fewer. The page is
 * as it was then.
 */
ptrdiff_t lines_unpack(uint64_t mask, const void *packed, size_t bytes, void *page);

/* The same, but the packed lines are folded (xor) into the page's. */
ptrdiff_t lines_fold(uint64_t mask, const void *packed, size_t bytes, void *page);

#endif
