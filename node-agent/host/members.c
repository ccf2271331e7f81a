#include "node-agent/host/members.h"

#include <errno.h>
#include <stdlib.h>

int members_create(struct host_members *members, struct line_host *host, const struct line_host_epoch *epoch)
{
    struct host_members made = {.count = epoch->peer_count, .ranks = epoch->ranks};
    made.of = calloc(epoch->peer_count, sizeof *made.of);
    made.owners = malloc(epoch->ranks * sizeof *made.owners);
    if (!made.of || !made.owners) {
        free(made.of);
        free(made.owners);
        errno = ENOMEM;
        return -1;
    }
    for (uint32_t rank = 0; rank < epoch->ranks; rank++)
        made.owners[rank] = UINT32_MAX;
    for (uint32_t i = 0; i < epoch->peer_count; i++)
        made.of[i] = (struct host_member){
            .host = host, .index = i, .node = epoch->peers[i].node, .link = epoch->peers[i].link};
    *members = made;
    return 0;
}

void members_release(struct host_members *members)
{
    for (uint32_t i = 0; i < members->count; i++)
        link_destroy(members->of[i].link);
    free(members->of);
    free(members->owners);
    *members = (struct host_members){0};
}

void members_send(const struct host_members *members, const struct peer_message *message)
{
    for (uint32_t i = 0; i < members->count; i++)
        link_say(members->of[i].link, message);
}

int members_take_ranks(struct host_members *members, struct host_member *member, const uint32_t *ranks,
                       uint32_t count)
{
    if (member->is_ready)
        return -1;
    for (uint32_t i = 0; i < count; i++)
        if (members->owners[ranks[i]] != UINT32_MAX)
            return -1;
    for (uint32_t i = 0; i < count; i++)
        members->owners[ranks[i]] = member->index;
    member->is_ready = true;
    members->ready++;
    return 0;
}

bool members_have_all(const struct host_members *members)
{
    for (uint32_t rank = 0; rank < members->ranks; rank++)
        if (members->owners[rank] == UINT32_MAX)
            return false;
    return true;
}
