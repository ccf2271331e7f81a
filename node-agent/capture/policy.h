/*
 * policy.h - when the pages of a line are copied: the policies of docs/capture.md ("Policies").
 */
#ifndef BELAY_NODE_AGENT_CAPTURE_POLICY_H
#define BELAY_NODE_AGENT_CAPTURE_POLICY_H

#include <stdbool.h>

#include "common/util/error.h"

enum policy {
    POLICY_NONE = 0,
    POLICY_SEQUENTIAL,  /* in the pause, which ends when the line has committed */
    POLICY_MAIN_MEMORY, /* in the pause */
    POLICY_COW,         /* while the ranks run on, from protected memory */
    POLICY_CLL,         /* as COW, by way of a pool of pages of a fixed size */
    POLICY_PRECOPY,     /* before the pause; in the pause what was written again */
    POLICY_AUTO,        /* before the pause what is cold; what was written again as with cow */
};

/* The policy of this name; NULL or "": the default. NONE with err (EINVAL) if there is no such policy. */
enum policy policy_choose(const char *name, struct belay_error *err);

/* Do the ranks stand still until the line has committed? */
bool policy_is_held(enum policy policy);
/* Are pages copied ahead of the pause? is_whole: of a line that copies everything. */
bool policy_copies_ahead(enum policy policy, bool is_whole);
/* Is memory protected in the pause, and copied after it? */
bool policy_protects(enum policy policy);
/* ... where that has cost less, and is anything copied ahead only while that has paid (cost.h)? */
bool policy_chooses(enum policy policy);
/* ... by way of a pool? */
bool policy_is_pooled(enum policy policy);

#endif
