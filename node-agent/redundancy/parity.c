#include "node-agent/redundancy/parity.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t need(const struct redundancy *redundancy, uint64_t own_bytes);
static void protect(struct redundancy *redundancy, uint64_t line, uint32_t rank, bool is_whole);
static uint32_t holders(const struct redundancy *redundancy, uint32_t rank, uint32_t *members);
static bool can_restore(const struct redundancy *redundancy, uint32_t rank, const bool *is_lost);
static int rebuild(struct redundancy *redundancy, uint32_t rank, struct belay_error *err);

struct parity_scheme {
    struct redundancy redundancy;
    struct parity_code code;
};

static const struct redundancy_class parity_class = {
    .need = need, .protect = protect, .holders = holders, .can_restore = can_restore, .rebuild = rebuild};

struct redundancy *parity_create(const struct redundancy_epoch *epoch, struct parity_code code,
                                 const struct redundancy_ops *ops, void *context)
{
    struct parity_scheme *parity = calloc(1, sizeof *parity);
    if (parity && redundancy_init(&parity->redundancy, &parity_class, epoch, ops, context) == 0) {
        parity->code = code;
        return &parity->redundancy;
    }
    free(parity);
    errno = ENOMEM;
    return NULL;
}

static struct parity_set set_of(const struct redundancy *redundancy, uint32_t member)
{
    struct parity_set set = {.size = 1, .count = 1, .code = {.data = 1}};
    parity_set_of(((const struct parity_scheme *)redundancy)->code, redundancy->member_count, member, &set);
    return set;
}

/* m/k of images like this member's own. */
static uint64_t need(const struct redundancy *redundancy, uint64_t own_bytes)
{
    const struct parity_set set = set_of(redundancy, 0);
    return own_bytes / set.code.data * set.code.parity;
}

static void protect(struct redundancy *redundancy, uint64_t line, uint32_t rank, bool is_whole)
{
    (void)is_whole; /* what holders lack, they ask for themselves */
    redundancy->ops->encode(redundancy->context, line, rank);
}

static uint32_t holders(const struct redundancy *redundancy, uint32_t rank, uint32_t *members)
{
    members[0] = redundancy->placement[rank];
    return 1;
}

static bool can_restore(const struct redundancy *redundancy, uint32_t rank, const bool *is_lost)
{
    const struct parity_set set = set_of(redundancy, redundancy->placement[rank]);
    uint32_t lost = 0;
    for (uint32_t i = 0; i < set.size; i++)
        lost += is_lost[parity_set_member(&set, i)];
    return !is_lost[redundancy->placement[rank]] || lost <= set.code.parity;
}

/* Before the ranks are launched, an image is made again by member/rebuild.h. */
static int rebuild(struct redundancy *redundancy, uint32_t rank, struct belay_error *err)
{
    return belay_error_set(err, ENODATA, "member %u alone has the image of rank %u",
                           redundancy->placement[rank], rank);
}
