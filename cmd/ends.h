/*
 * ends.h - how a launch has ended, judged (coord/verdict.h) from what the agents of all nodes say of their
 * ranks.
 */
#ifndef BELAY_CMD_ENDS_H
#define BELAY_CMD_ENDS_H

#include <stdint.h>

#include "common/util/error.h"
#include "common/wire/belay.pb-c.h"
#include "coord/verdict.h"

struct ends_case {
    Belay__Wire__Reply *const *facts; /* LaunchFacts, by node; NULL: the node is gone */
    uint32_t node_count;
    int wait_status; /* of the launcher */
    struct verdict_loss before;
};

/* *newest_line: that the nodes hold. Returns 0, or -1 with err (ENOMEM, EPROTO). */
int ends_judge(const struct ends_case *of, struct verdict *verdict, uint64_t *newest_line,
               struct belay_error *err);

#endif
