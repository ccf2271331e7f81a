#include "node-agent/fabric/pull.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/log.h"
#include "node-agent/fabric/ending.h"
#include "node-agent/fabric/events.h"
#include "node-agent/fabric/peer.h"

static struct fabric_pull *find(struct fabric_peer *peer, uint64_t transfer);
static int take_offer(struct fabric_peer *peer, const struct notice *notice);
static int take_written(struct fabric_pull *pull, const struct notice *notice);
static int take_finished(struct fabric_pull *pull, const struct notice *notice);
static void end_if_complete(struct fabric_pull *pull);
static void renew(struct fabric *fabric, struct slab *slab);
static uint32_t share_of(const struct fabric *fabric);
static struct fabric_pull *least(struct fabric *fabric, uint32_t share);
static struct fabric_pull *pick(struct fabric *fabric);
static void take(struct fabric *fabric, struct fabric_pull *pull, uint8_t *copy);
static int take_unlocked(struct fabric_pull *pull, const struct slab *slab, uint8_t *copy);

void pull_admit(struct fabric_pull *pull, fabric_take_f *take_it, void *context)
{
    struct fabric *fabric = pull->peer->fabric;
    pthread_mutex_lock(&fabric->lock);
    pull->take = take_it;
    pull->context = context;
    pull->is_admitted = true;
    end_if_complete(pull);
    pthread_mutex_unlock(&fabric->lock);
    fabric_wake(fabric);
}

void pull_refuse(struct fabric_pull *pull, int error)
{
    struct fabric *fabric = pull->peer->fabric;
    pthread_mutex_lock(&fabric->lock);
    pull_end(pull, error);
    pthread_mutex_unlock(&fabric->lock);
    fabric_wake(fabric);
}

int pull_take_notice(struct fabric_peer *peer, enum frame_kind kind, const struct notice *notice)
{
    struct fabric_pull *pull = find(peer, notice->transfer);
    if (kind == FRAME_OFFER)
        return pull ? -1 : take_offer(peer, notice);
    if (!pull || pull->has_ended) /* the sender did not know yet */
        return 0;
    return kind == FRAME_WRITTEN ? take_written(pull, notice) : take_finished(pull, notice);
}

void pull_grant(struct fabric *fabric)
{
    uint32_t share = share_of(fabric);
    for (uint32_t i = 0; i < fabric->targets.count; i++) {
        struct slab *slab = &fabric->targets.slabs[i];
        if (slab->state == SLAB_FREE && slab->must_renew)
            renew(fabric, slab);
        struct fabric_pull *pull = slab->state == SLAB_FREE && slab->memory ? least(fabric, share) : NULL;
        if (!pull)
            continue;
        struct notice grant = {.transfer = pull->transfer, .slab = i, .count = fabric->config.slab_bytes};
        endpoint_memory_name(slab->memory, &grant.address, &grant.key);
        slab->state = SLAB_GRANTED;
        slab->pull = pull;
        pull->held++;
        if (peer_tell(pull->peer, FRAME_GRANT, &grant) < 0)
            peer_lose(pull->peer, "there is no memory for what is to be sent");
    }
}

/* A chunk is copied first: who has the slab's key can still write to the slab while its MAC is checked. */
void *pull_run(void *context)
{
    struct fabric *fabric = context;
    uint8_t *copy = malloc(fabric->config.slab_bytes);
    pthread_mutex_lock(&fabric->lock);
    while (!fabric->is_ending) {
        struct fabric_pull *pull = pick(fabric);
        if (!pull)
            pthread_cond_wait(&fabric->has_take, &fabric->lock);
        else if (!copy)
            pull_end(pull, ENOMEM);
        else
            take(fabric, pull, copy);
    }
    pthread_mutex_unlock(&fabric->lock);
    free(copy);
    return NULL;
}

static struct fabric_pull *find(struct fabric_peer *peer, uint64_t transfer)
{
    struct fabric_pull *pull = peer->pulls;
    while (pull && pull->transfer != transfer)
        pull = pull->next;
    return pull;
}

static int take_offer(struct fabric_peer *peer, const struct notice *notice)
{
    unsigned others = 0;
    for (struct fabric_pull *pull = peer->pulls; pull; pull = pull->next)
        others++;
    struct fabric_pull *pull = others < PULLS_MAX ? calloc(1, sizeof *pull) : NULL;
    if (!pull) {
        struct notice done = {.transfer = notice->transfer, .error = ENOBUFS};
        return peer_tell(peer, FRAME_DONE, &done);
    }
    pull->peer = peer;
    pull->transfer = notice->transfer;
    pull->bytes = notice->bytes;
    pull->tag_bytes = notice->tag_bytes;
    memcpy(pull->tag, notice->tag, notice->tag_bytes);
    chunk_sum_tag(pull->tag, pull->tag_bytes, pull->tag_sum);
    pull->offered = (struct event){.kind = EVENT_OFFERED, .peer = peer, .pull = pull};
    pull->pulled = (struct event){.kind = EVENT_PULLED, .peer = peer, .pull = pull};
    pull->next = peer->pulls;
    peer->pulls = pull;
    events_put(peer->fabric, &pull->offered);
    return 0;
}

/* A slab is written once, chunks follow one another, and there are no more bytes than were admitted. */
static int take_written(struct fabric_pull *pull, const struct notice *notice)
{
    struct slabs *targets = &pull->peer->fabric->targets;
    struct slab *slab = notice->slab < targets->count ? &targets->slabs[notice->slab] : NULL;
    uint32_t room = pull->peer->fabric->config.slab_bytes - CHUNK_HEADER_BYTES;
    if (!slab || slab->state != SLAB_GRANTED || slab->pull != pull || notice->count == 0 ||
        notice->count > room || notice->offset != pull->announced ||
        notice->count > pull->bytes - pull->announced)
        return -1;
    pull->announced += notice->count;
    slab->state = SLAB_WRITTEN;
    slab->chunk = notice->chunk;
    slab->offset = notice->offset;
    slab->count = notice->count;
    memcpy(slab->mac, notice->mac, sizeof slab->mac);
    slab->next = NULL;
    if (pull->first)
        pull->last->next = slab;
    else
        pull->first = slab;
    pull->last = slab;
    pthread_cond_signal(&pull->peer->fabric->has_take);
    return 0;
}

static int take_finished(struct fabric_pull *pull, const struct notice *notice)
{
    if (notice->error) {
        pull_end(pull, (int)notice->error);
        return 0;
    }
    if (notice->bytes != pull->announced || pull->has_finished)
        return -1;
    pull->has_finished = true;
    pull_release_granted(pull, false); /* the sender has nothing under way */
    end_if_complete(pull);
    return 0;
}

static void end_if_complete(struct fabric_pull *pull)
{
    if (pull->is_admitted && pull->has_finished && pull->taken == pull->announced)
        pull_end(pull, 0);
}

/* A slab whose memory cannot be registered is out of service until it can. */
static void renew(struct fabric *fabric, struct slab *slab)
{
    struct belay_error err;
    endpoint_unregister(slab->memory);
    slab->memory = endpoint_register(fabric->endpoint, slab->bytes, fabric->config.slab_bytes, true, &err);
    slab->must_renew = !slab->memory;
    if (!slab->memory)
        log_error("fabric: %s", err.text);
}

/* Slabs that a transfer may hold, so that each of those under way gets some. */
static uint32_t share_of(const struct fabric *fabric)
{
    uint32_t transfers = 0, share;
    for (const struct fabric_peer *peer = fabric->peers; peer; peer = peer->next)
        for (const struct fabric_pull *pull = peer->pulls; pull; pull = pull->next)
            transfers += pull->is_admitted && !pull->has_ended && !pull->has_finished;
    share = fabric->targets.count / (transfers ? transfers : 1);
    share = share < GRANTS_MAX ? share : GRANTS_MAX;
    return share ? share : 1;
}

/* Who holds least of those that can use one more. */
static struct fabric_pull *least(struct fabric *fabric, uint32_t share)
{
    struct fabric_pull *best = NULL;
    uint64_t room = fabric->config.slab_bytes - CHUNK_HEADER_BYTES;
    for (struct fabric_peer *peer = fabric->peers; peer; peer = peer->next)
        for (struct fabric_pull *pull = peer->pulls; pull; pull = pull->next) {
            uint64_t missing = (pull->bytes - pull->taken + room - 1) / room;
            if (pull->is_admitted && !pull->has_ended && !pull->has_finished && pull->held < share &&
                pull->held < missing && (!best || pull->held < best->held))
                best = pull;
        }
    return best;
}

static struct fabric_pull *pick(struct fabric *fabric)
{
    struct fabric_pull *best = NULL;
    for (struct fabric_peer *peer = fabric->peers; peer; peer = peer->next)
        for (struct fabric_pull *pull = peer->pulls; pull; pull = pull->next)
            if (pull->first && !pull->has_ended && (!best || pull->turn < best->turn))
                best = pull;
    return best;
}

/* Gives the lock away meanwhile. */
static void take(struct fabric *fabric, struct fabric_pull *pull, uint8_t *copy)
{
    struct slab *slab = pull->first;
    pull->first = slab->next;
    slab->state = SLAB_TAKING;
    pull->turn = ++fabric->last_take;
    pull->is_taking = true;
    pthread_mutex_unlock(&fabric->lock);
    int error = take_unlocked(pull, slab, copy);
    pthread_mutex_lock(&fabric->lock);
    pull->is_taking = false;
    fabric->counts.chunks_refused += error == EBADMSG;
    target_release(pull, slab);
    if (pull->has_ended) {
        events_put(fabric, &pull->pulled);
    } else if (error) {
        pull_end(pull, error);
    } else {
        pull->taken += slab->count;
        fabric->counts.bytes_pulled += slab->count;
        end_if_complete(pull);
    }
    pthread_cond_broadcast(&fabric->is_out);
    fabric_wake(fabric);
}

/* Returns 0 or an errno value. EBADMSG: it is not what the peer sealed, or not of this place. */
static int take_unlocked(struct fabric_pull *pull, const struct slab *slab, uint8_t *copy)
{
    struct fabric_peer *peer = pull->peer;
    uint8_t header[CHUNK_HEADER_BYTES];
    struct chunk chunk = {.session = peer->session.id,
                          .transfer = pull->transfer,
                          .chunk = slab->chunk,
                          .offset = slab->offset,
                          .count = slab->count};
    memcpy(chunk.tag_sum, pull->tag_sum, sizeof chunk.tag_sum);
    chunk_encode(&chunk, header);
    memcpy(copy, slab->bytes, CHUNK_HEADER_BYTES + slab->count);
    if (memcmp(copy, header, sizeof header) != 0 ||
        seal_open(channel_seal_in(peer->channel), SEAL_SPACE_CHUNK, slab->chunk, copy, CHUNK_HEADER_BYTES,
                  CHUNK_HEADER_BYTES + slab->count, slab->mac) < 0) {
        log_error("fabric: a chunk from node %u has been damaged", peer->identity.node);
        return EBADMSG;
    }
    if (pull->take(pull->context, slab->offset, copy + CHUNK_HEADER_BYTES, slab->count) == 0)
        return 0;
    return errno ? errno : EIO;
}
