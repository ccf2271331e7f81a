#include "node-agent/redundancy/partner.h"

#include <errno.h>
#include <stdlib.h>

#include "coord/epoch.h"

static uint64_t need(const struct redundancy *redundancy, uint64_t own_bytes);
static void protect(struct redundancy *redundancy, uint64_t line, uint32_t rank, bool is_whole);
static uint32_t holders(const struct redundancy *redundancy, uint32_t rank, uint32_t *members);
static bool can_restore(const struct redundancy *redundancy, uint32_t rank, const bool *is_lost);
static int rebuild(struct redundancy *redundancy, uint32_t rank, struct belay_error *err);

static const struct redundancy_class partner_class = {
    .need = need, .protect = protect, .holders = holders, .can_restore = can_restore, .rebuild = rebuild};

struct redundancy *partner_create(const struct redundancy_epoch *epoch, const struct redundancy_ops *ops,
                                  void *context)
{
    struct redundancy *partner = calloc(1, sizeof *partner);
    if (partner && redundancy_init(partner, &partner_class, epoch, ops, context) == 0)
        return partner;
    free(partner);
    errno = ENOMEM;
    return NULL;
}

static uint32_t partner_of(const struct redundancy *redundancy, uint32_t rank)
{
    return scheme_partner(SCHEME_PARTNER, redundancy->placement[rank], redundancy->member_count);
}

/* As much as the member before has, whose images are not known here. */
static uint64_t need(const struct redundancy *redundancy, uint64_t own_bytes)
{
    (void)redundancy;
    return own_bytes;
}

static void protect(struct redundancy *redundancy, uint64_t line, uint32_t rank, bool is_whole)
{
    redundancy->ops->send(redundancy->context, line, rank, partner_of(redundancy, rank), is_whole);
}

static uint32_t holders(const struct redundancy *redundancy, uint32_t rank, uint32_t *members)
{
    members[0] = redundancy->placement[rank];
    members[1] = partner_of(redundancy, rank);
    return 2;
}

static bool can_restore(const struct redundancy *redundancy, uint32_t rank, const bool *is_lost)
{
    return !is_lost[redundancy->placement[rank]] || !is_lost[partner_of(redundancy, rank)];
}

/* Where the copy is, its rank is restarted: nothing has to be brought back. */
static int rebuild(struct redundancy *redundancy, uint32_t rank, struct belay_error *err)
{
    return belay_error_set(err, ENODATA, "members %u and %u have the image of rank %u",
                           redundancy->placement[rank], partner_of(redundancy, rank), rank);
}
