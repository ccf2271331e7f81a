/*
 * parity_check.h - whether parity that is held is what it has to be: the sum of all contributions, computed
 * anew from the images of the set (`belay verify`, and tests).
 */
#ifndef BELAY_NODE_AGENT_STORE_PARITY_CHECK_H
#define BELAY_NODE_AGENT_STORE_PARITY_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"

/*
 * Compare parity, a whole image, with a memfd of an image's size that has the sum, page by page; pages that
 * either of them lacks are zeros. Returns 0 and how many bytes were compared, or -1 with err (EBADMSG: it
 * names the first page that differs; ECANCELED: *is_stopped, which is atomic and may be NULL, has become
 * true). Blocks; may run in any thread. Neither may change meanwhile.
 */
int parity_check(int parity, int sum, const bool *is_stopped, uint64_t *bytes, struct belay_error *err);

#endif
