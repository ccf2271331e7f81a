/*
 * root.h - the root of an image: one hash that stands for the memory of a rank at a line.
 *
 * It is BLAKE2b with 256 bits (RFC 7693) over rank, world size, line, all that a restart reads of the header,
 * the tables, and the sum of each page with content (sums.h). Two images have the same root only if all of
 * this is the same. The pages themselves are bound by their sums, which are no cryptographic hash:
 * docs/security.md says what follows from that.
 *
 * A whole image and the delta that leads to it have the same root: it does not matter how an image was made,
 * or on which node. Nothing but tables and sums is read, which are 1/500 of the pages.
 */
#ifndef BELAY_COMMON_IMAGE_ROOT_H
#define BELAY_COMMON_IMAGE_ROOT_H

#include "common/image/format.h"
#include "common/util/digest.h"
#include "common/util/error.h"

/*
 * The root of the whole image in `part`, or of the image that the delta in `part` makes of the one in `base`
 * (not used for a whole image). Neither may change meanwhile. The pages are not compared with their sums. May
 * be called in any thread; blocks. Returns 0, or -1 with err (EINVAL: not an image, a damaged one, or a delta
 * to another one than base).
 */
int root_of_image(int part, int base, struct digest *root, struct belay_error *err);

/* The same of a part without its pages: header, tables and sums alone. */
int root_of_tables(int part, int base, struct digest *root, struct belay_error *err);

/* The sums (sums.h) of so many pages with content, from this address on. */
typedef void root_sums_f(void *context, uint64_t address, const uint64_t *sums, uint64_t count);
/*
 * All sums of which root_of_image() makes the root, by ascending addresses. The same arguments, and returns;
 * an image of somebody else's may name pages that are nowhere.
 */
int root_read_sums(int part, int base, root_sums_f *each, void *context, struct belay_error *err);

#endif
