/*
 * verify.h - `belay verify`: all that this node holds of the committed line is compared with its sums, and
 * its parity with the sum of the blocks of data, which the other members of the set send for it
 * (docs/parity.md, "Verification").
 *
 * All functions are called from the agent's loop.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_VERIFY_H
#define BELAY_NODE_AGENT_MEMBER_VERIFY_H

#include <stdint.h>

#include "common/util/digest.h"
#include "common/util/error.h"
#include "node-agent/member/gather.h"
#include "node-agent/member/mirror.h"
#include "node-agent/member/scrub.h"

struct verifier;

enum verify_kind { VERIFY_NONE = 0, VERIFY_IMAGE, VERIFY_SHARED, VERIFY_PARITY, VERIFY_TABLES };
enum verify_result {
    VERIFY_UNKNOWN = 0, /* it could not be compared now */
    VERIFY_AGREES,
    VERIFY_DIFFERS,
};

/* What was found of one part that is held here. */
struct verified {
    enum verify_kind kind;
    uint32_t rank; /* of parity: the slot */
    uint64_t line;
    uint64_t bytes; /* that were compared */
    struct digest root;
    enum verify_result result;
    struct belay_error err; /* why it differs, or is not known */
};

/* The list is valid during the call. err NULL: all have been looked at. */
typedef void verify_done_f(void *context, const struct verified *list, uint32_t count,
                           const struct belay_error *err);

/*
 * For an epoch, with what parity is compared with (borrowed; NULL: there is no parity). damaged(): a part of
 * the committed line differs, as a scrubber tells it. NULL with ENOMEM.
 */
struct verifier *verifier_create(const struct mirror_epoch *epoch, struct gatherer *gatherer,
                                 scrub_damaged_f *damaged, void *context);
/* A check that is in progress ends with an error. Accepts NULL. */
void verifier_destroy(struct verifier *verifier);

/* Begin. Returns 0, and done() follows, or -1 with err (EBUSY: another check is in progress). */
int verifier_begin(struct verifier *verifier, verify_done_f *done, void *context, struct belay_error *err);

#endif
