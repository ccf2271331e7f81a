#include "node-agent/redundancy/redundancy.h"

#include <stdlib.h>
#include <string.h>

int redundancy_init(struct redundancy *redundancy, const struct redundancy_class *class,
                    const struct redundancy_epoch *epoch, const struct redundancy_ops *ops, void *context)
{
    *redundancy = (struct redundancy){.class = class,
                                      .ops = ops,
                                      .context = context,
                                      .member_count = epoch->member_count,
                                      .ranks = epoch->ranks,
                                      .placement = calloc(epoch->ranks + 1, sizeof(uint32_t))};
    if (!redundancy->placement)
        return -1;
    memcpy(redundancy->placement, epoch->placement, epoch->ranks * sizeof(uint32_t));
    return 0;
}

void redundancy_destroy(struct redundancy *redundancy)
{
    if (redundancy)
        free(redundancy->placement);
    free(redundancy);
}

uint64_t redundancy_need(const struct redundancy *redundancy, uint64_t own_bytes)
{
    return redundancy->class->need(redundancy, own_bytes);
}

void redundancy_protect(struct redundancy *redundancy, uint64_t line, uint32_t rank, bool is_whole)
{
    redundancy->class->protect(redundancy, line, rank, is_whole);
}

uint32_t redundancy_holders(const struct redundancy *redundancy, uint32_t rank, uint32_t *members)
{
    return redundancy->class->holders(redundancy, rank, members);
}

bool redundancy_can_restore(const struct redundancy *redundancy, uint32_t rank, const bool *is_lost)
{
    return redundancy->class->can_restore(redundancy, rank, is_lost);
}

int redundancy_rebuild(struct redundancy *redundancy, uint32_t rank, struct belay_error *err)
{
    return redundancy->class->rebuild(redundancy, rank, err);
}
