#include "node-agent/capture/policy.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define DEFAULT POLICY_PRECOPY

static const char *const names[] = {[POLICY_SEQUENTIAL] = "sequential",
                                    [POLICY_MAIN_MEMORY] = "main_memory",
                                    [POLICY_COW] = "cow",
                                    [POLICY_CLL] = "cll",
                                    [POLICY_PRECOPY] = "precopy",
                                    [POLICY_AUTO] = "auto"};

enum policy policy_choose(const char *name, struct belay_error *err)
{
    if (!name || !*name)
        return DEFAULT;
    for (size_t i = POLICY_NONE + 1; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(name, names[i]))
            return (enum policy)i;
    belay_error_set(err, EINVAL,
                    "there is no policy '%.40s': sequential, main_memory, cow, cll, precopy or auto", name);
    return POLICY_NONE;
}

bool policy_is_held(enum policy policy)
{
    return policy == POLICY_SEQUENTIAL;
}

/* Protecting everything costs more faults than it saves: a first line is copied ahead by these, too. */
bool policy_copies_ahead(enum policy policy, bool is_whole)
{
    return policy == POLICY_PRECOPY || policy == POLICY_AUTO || (policy_protects(policy) && is_whole);
}

bool policy_protects(enum policy policy)
{
    return policy == POLICY_COW || policy == POLICY_CLL || policy == POLICY_AUTO;
}

bool policy_is_pooled(enum policy policy)
{
    return policy == POLICY_CLL;
}

bool policy_chooses(enum policy policy)
{
    return policy == POLICY_AUTO;
}
