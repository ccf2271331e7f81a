#include "node-agent/link/link.h"

void link_open(struct link *link, const struct link_ops *ops, void *context)
{
    link->ops = ops;
    link->context = context;
    link->class->open(link);
}

void link_send(struct link *link, uint8_t *bytes, size_t count)
{
    link->class->send(link, bytes, count);
}

void link_destroy(struct link *link)
{
    if (link)
        link->class->destroy(link);
}
