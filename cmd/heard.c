#include "cmd/heard.h"

/* The first request counts as one that was answered: from then on the node may have a lease. */
static void note(uint64_t *newest_ns, uint64_t told_ns, uint64_t now_ns)
{
    if (*newest_ns == 0)
        *newest_ns = now_ns;
    else if (told_ns > *newest_ns && told_ns <= now_ns)
        *newest_ns = told_ns;
}

bool heard_take(struct heard *heard, uint32_t node, uint64_t told_ns, uint64_t now_ns, uint64_t lease_ns)
{
    if (node >= PLACEMENT_NODES_MAX)
        return false;
    note(&heard->given_ns[node], told_ns, now_ns);
    for (uint32_t i = 0; i < PLACEMENT_NODES_MAX; i++)
        if (heard->given_ns[i] && now_ns > heard->given_ns[i] + lease_ns)
            return false;
    return true;
}
