#include "node-agent/redundancy/single.h"

#include <errno.h>
#include <stdlib.h>

static uint64_t need(const struct redundancy *redundancy, uint64_t own_bytes);
static void protect(struct redundancy *redundancy, uint64_t line, uint32_t rank, bool is_whole);
static uint32_t holders(const struct redundancy *redundancy, uint32_t rank, uint32_t *members);
static bool can_restore(const struct redundancy *redundancy, uint32_t rank, const bool *is_lost);
static int rebuild(struct redundancy *redundancy, uint32_t rank, struct belay_error *err);

static const struct redundancy_class single_class = {
    .need = need, .protect = protect, .holders = holders, .can_restore = can_restore, .rebuild = rebuild};

struct redundancy *single_create(const struct redundancy_epoch *epoch, const struct redundancy_ops *ops,
                                 void *context)
{
    struct redundancy *single = calloc(1, sizeof *single);
    if (single && redundancy_init(single, &single_class, epoch, ops, context) == 0)
        return single;
    free(single);
    errno = ENOMEM;
    return NULL;
}

/* Nobody else's images are held. */
static uint64_t need(const struct redundancy *redundancy, uint64_t own_bytes)
{
    (void)redundancy;
    (void)own_bytes;
    return 0;
}

/* It is where it has to be. */
static void protect(struct redundancy *redundancy, uint64_t line, uint32_t rank, bool is_whole)
{
    (void)is_whole;
    redundancy->ops->held(redundancy->context, line, rank);
}

static uint32_t holders(const struct redundancy *redundancy, uint32_t rank, uint32_t *members)
{
    members[0] = redundancy->placement[rank];
    return 1;
}

static bool can_restore(const struct redundancy *redundancy, uint32_t rank, const bool *is_lost)
{
    return !is_lost[redundancy->placement[rank]];
}

static int rebuild(struct redundancy *redundancy, uint32_t rank, struct belay_error *err)
{
    return belay_error_set(err, ENODATA, "member %u alone has the image of rank %u",
                           redundancy->placement[rank], rank);
}
