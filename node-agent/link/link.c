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

void link_say(struct link *link, const struct peer_message *message)
{
    size_t count = 0;
    uint8_t *bytes = peer_message_pack(message, &count);
    link_send(link, bytes, count);
}

void link_destroy(struct link *link)
{
    if (link)
        link->class->destroy(link);
}
