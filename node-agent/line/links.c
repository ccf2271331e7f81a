#include "node-agent/line/links.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/log.h"
#include "coord/epoch_links.h"

#define LOCAL_INTERFACE "127.0.0.1" /* of local nodes */

struct links {
    struct remotes *remotes;
    links_news_f *news;
    void *context;
    uint32_t node;
    struct link **of; /* by index of the member; NULL: none, or taken */
    uint32_t count;
};

static void on_came(void *context, const struct fabric_identity *identity, struct link *link);
static int connect_one(struct links *links, const struct epoch_start *start, uint32_t index,
                       const struct fabric_address *address, struct belay_error *err);
static int admit_known(struct links *links, const struct fabric_address *addresses, size_t count);
static void drop(struct links *links);

static void on_news(void *context, const struct fabric_identity *identity, enum remote_news news)
{
    const struct links *links = context;
    links->news(links->context, identity->node, news);
}

struct links *links_create(uv_loop_t *loop, const struct links_config *config, links_news_f *news,
                           void *context, struct belay_error *err)
{
    struct fabric_config fabric = {.provider = config->provider[0] ? config->provider : NULL,
                                   .interface = config->interface[0] ? config->interface : LOCAL_INTERFACE,
                                   .mode =
                                       config->is_encrypted ? FABRIC_MODE_ENCRYPT : FABRIC_MODE_AUTHENTICATE,
                                   .is_patient = true,
                                   .self = {FABRIC_ROLE_MEMBER, config->node, config->incarnation}};
    struct links *links = calloc(1, sizeof *links);
    if (!links) {
        belay_error_set(err, ENOMEM, "no memory for links to other nodes");
        return NULL;
    }
    links->node = config->node;
    links->news = news;
    links->context = context;
    memcpy(fabric.key, config->key->key, sizeof fabric.key);
    memcpy(fabric.job, config->key->job, sizeof fabric.job);
    links->remotes = remotes_create(loop, &fabric, on_came, links, err);
    explicit_bzero(fabric.key, sizeof fabric.key);
    if (links->remotes) {
        remotes_hear_news(links->remotes, on_news);
        return links;
    }
    free(links);
    return NULL;
}

void links_destroy(struct links *links)
{
    if (!links)
        return;
    drop(links);
    remotes_destroy(links->remotes);
    free(links);
}

void links_address(const struct links *links, struct fabric_address *address)
{
    remotes_address(links->remotes, address);
}

void links_expect(struct links *links)
{
    remotes_admit_hosts(links->remotes, NULL, 0);
}

int links_connect(struct links *links, enum scheme scheme, struct parity_code code, const struct tree *tree,
                  const struct epoch_start *start, const struct fabric_epoch *epoch,
                  const struct fabric_address *addresses, struct belay_error *err)
{
    uint32_t own = epoch_start_index(start, links->node);
    drop(links);
    remotes_enter_epoch(links->remotes, epoch);
    if (admit_known(links, addresses, start->member_count) < 0)
        return belay_error_set(err, ENOMEM, "no memory for links to other nodes");
    links->of = calloc(start->member_count, sizeof(struct link *));
    if (!links->of)
        return belay_error_set(err, ENOMEM, "no memory for links to other nodes");
    links->count = start->member_count;
    for (uint32_t i = 0; i < start->member_count; i++) {
        if (!epoch_links_has(start, scheme, code, tree, own, i))
            continue;
        if (addresses[i].count == 0)
            return belay_error_set(err, EINVAL, "node %u has a link with this one, and no address is told",
                                   start->members[i]);
        if (connect_one(links, start, i, &addresses[i], err) < 0)
            return -1;
    }
    return 0;
}

/* Nobody else has a reason to connect. */
static int admit_known(struct links *links, const struct fabric_address *addresses, size_t count)
{
    struct fabric_address *known = calloc(count, sizeof *known);
    size_t found = 0;
    if (!known)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (addresses[i].count > 0)
            known[found++] = addresses[i];
    remotes_admit_hosts(links->remotes, known, found);
    free(known);
    return 0;
}

struct link *links_take(struct links *links, uint32_t index)
{
    struct link *link = links && index < links->count ? links->of[index] : NULL;
    if (link)
        links->of[index] = NULL;
    return link;
}

struct remotes *links_remotes(const struct links *links)
{
    return links->remotes;
}

static int connect_one(struct links *links, const struct epoch_start *start, uint32_t index,
                       const struct fabric_address *address, struct belay_error *err)
{
    const struct fabric_identity identity = {
        .role = FABRIC_ROLE_MEMBER, .node = start->members[index], .incarnation = start->incarnations[index]};
    links->of[index] = remotes_connect(links->remotes, &identity, address);
    return links->of[index]
               ? 0
               : belay_error_errno(err, "the agent of node %u cannot be connected to", identity.node);
}

/* Of an epoch there is one link between two nodes: a second one is of an agent that has lost the first. */
static void on_came(void *context, const struct fabric_identity *identity, struct link *link)
{
    (void)context;
    log_info("the agent of node %u has made another link: it is refused", identity->node);
    link_destroy(link);
}

static void drop(struct links *links)
{
    for (uint32_t i = 0; i < links->count; i++)
        link_destroy(links->of[i]);
    free(links->of);
    links->of = NULL;
    links->count = 0;
}
