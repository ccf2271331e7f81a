/* half.h - a process of a test that stands for a rank: only what it maps from UPPER_BASE on is the
 * application's. */
#ifndef BELAY_NODE_AGENT_TEST_HALF_H
#define BELAY_NODE_AGENT_TEST_HALF_H

#include "common/image/layout.h"

static const struct layout upper_only = {{{0, UPPER_BASE}, {UPPER_END, LAYOUT_END}}};

#endif
