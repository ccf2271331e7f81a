#include "node-agent/fabric/push.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/fault/fault.h"
#include "node-agent/fabric/disturb.h"
#include "node-agent/fabric/ending.h"
#include "node-agent/fabric/events.h"
#include "node-agent/fabric/peer.h"

static struct fabric_push *find(struct fabric_peer *peer, uint64_t transfer);
static bool write_slabs(struct fabric_push *push, uint64_t now_ms);
static void announce(struct fabric_push *push);
static void finish(struct fabric_push *push);
static struct fabric_push *pick(struct fabric *fabric, struct slab **source);
static void fill(struct fabric *fabric, struct fabric_push *push, struct slab *slab);
static ssize_t fill_unlocked(struct fabric_push *push, struct slab *slab, size_t room);
static void take_filled(struct fabric_push *push, struct slab *slab, ssize_t count, int code);
static struct slab *find_writing(struct fabric *fabric, uint64_t chunk);
static int replace(struct fabric *fabric, struct slab *slab);
static void free_orphan(struct fabric *fabric, uint64_t chunk);

struct fabric_push *push_begin(struct fabric_peer *peer, const void *tag, size_t tag_bytes, uint64_t bytes,
                               fabric_fill_f *fill_it, void *context)
{
    struct fabric *fabric = peer->fabric;
    struct notice offer = {.bytes = bytes, .tag_bytes = (uint32_t)tag_bytes};
    if (tag_bytes > FABRIC_TAG_BYTES) {
        errno = EINVAL;
        return NULL;
    }
    struct fabric_push *push = calloc(1, sizeof *push);
    if (!push)
        return NULL;
    memcpy(offer.tag, tag, tag_bytes);
    chunk_sum_tag(tag, tag_bytes, push->tag_sum);
    pthread_mutex_lock(&fabric->lock);
    offer.transfer = ++fabric->last_transfer;
    if (peer_tell(peer, FRAME_OFFER, &offer) < 0) {
        pthread_mutex_unlock(&fabric->lock);
        free(push);
        return NULL;
    }
    push->peer = peer;
    push->transfer = offer.transfer;
    push->bytes = bytes;
    push->fill = fill_it;
    push->context = context;
    push->is_at_end = bytes == 0;
    push->pushed = (struct event){.kind = EVENT_PUSHED, .peer = peer, .push = push};
    push->next = peer->pushes;
    peer->pushes = push;
    pthread_mutex_unlock(&fabric->lock);
    fabric_wake(fabric);
    return push;
}

int push_take_notice(struct fabric_peer *peer, enum frame_kind kind, const struct notice *notice)
{
    struct fabric_push *push = find(peer, notice->transfer);
    if (!push || push->has_ended) /* the receiver did not know yet */
        return 0;
    if (kind == FRAME_DONE) {
        push_end(push, (int)notice->error);
        return 0;
    }
    if (push->grant_count == GRANTS_MAX || notice->count <= CHUNK_HEADER_BYTES)
        return -1;
    push->grants[push->grant_count++] =
        (struct grant){notice->slab, notice->count, notice->address, notice->key};
    pthread_cond_signal(&peer->fabric->has_fill);
    return 0;
}

bool push_turn(struct fabric_push *push, uint64_t now_ms)
{
    if (push->has_ended)
        return false;
    bool is_pending = write_slabs(push, now_ms);
    announce(push);
    if (push->is_at_end && !push->is_filling && !push->first && !push->has_finished)
        finish(push);
    return is_pending;
}

void push_written(struct fabric *fabric, uint64_t chunk, int error, uint64_t now_ms)
{
    struct slab *slab = find_writing(fabric, chunk);
    if (!slab) {
        free_orphan(fabric, chunk);
        return;
    }
    if (!slab->push) { /* it has ended meanwhile */
        source_release(fabric, slab);
        return;
    }
    slab->push->peer->writing--;
    slab->state = error ? SLAB_READY : SLAB_WRITTEN;
    if (error)
        peer_trouble(slab->push->peer, now_ms);
}

/* No more orphans than there are slabs; then slabs have to wait for the endpoint. */
void push_replace_slabs(struct fabric *fabric)
{
    for (uint32_t i = 0; i < fabric->sources.count && fabric->orphan_count < fabric->sources.count; i++) {
        struct slab *slab = &fabric->sources.slabs[i];
        if (slab->state == SLAB_WRITING && !slab->push && replace(fabric, slab) < 0)
            return;
    }
}

void *push_run(void *context)
{
    struct fabric *fabric = context;
    pthread_mutex_lock(&fabric->lock);
    while (!fabric->is_ending) {
        struct slab *slab = NULL;
        struct fabric_push *push = pick(fabric, &slab);
        if (push)
            fill(fabric, push, slab);
        else
            pthread_cond_wait(&fabric->has_fill, &fabric->lock);
    }
    pthread_mutex_unlock(&fabric->lock);
    return NULL;
}

static struct fabric_push *find(struct fabric_peer *peer, uint64_t transfer)
{
    struct fabric_push *push = peer->pushes;
    while (push && push->transfer != transfer)
        push = push->next;
    return push;
}

/* True: the endpoint takes no more at present. */
static bool write_slabs(struct fabric_push *push, uint64_t now_ms)
{
    struct fabric *fabric = push->peer->fabric;
    if (push->first && now_ms < push->peer->retry_ms)
        return true;
    for (struct slab *slab = push->first; slab; slab = slab->next) {
        if (slab->state != SLAB_READY)
            continue;
        if (push->peer->writing == FABRIC_WRITING_MAX)
            return false;
        if (disturb_loses_chunk(push->peer, slab->chunk)) {
            slab->state = SLAB_WRITTEN;
            continue;
        }
        if (endpoint_write(fabric->endpoint, push->peer->endpoint_peer, slab->memory, slab->bytes,
                           CHUNK_HEADER_BYTES + slab->count, slab->grant.address, slab->grant.key,
                           slab->chunk) < 0) {
            if (errno != EAGAIN)
                peer_trouble(push->peer, now_ms);
            return true;
        }
        slab->state = SLAB_WRITING;
        push->peer->writing++;
    }
    return false;
}

/* In order, whatever the order in which the provider says that they are written. */
static void announce(struct fabric_push *push)
{
    struct fabric *fabric = push->peer->fabric;
    for (struct slab *slab; (slab = push->first) && slab->state == SLAB_WRITTEN;) {
        struct notice notice = {.transfer = push->transfer,
                                .slab = slab->grant.slab,
                                .chunk = slab->chunk,
                                .offset = slab->offset,
                                .count = slab->count};
        memcpy(notice.mac, slab->mac, sizeof notice.mac);
        push->first = slab->next;
        if (!push->first)
            push->last = NULL;
        fabric->counts.bytes_pushed += slab->count;
        source_release(fabric, slab);
        if (peer_tell(push->peer, FRAME_WRITTEN, &notice) < 0)
            peer_lose(push->peer, "there is no memory for what is to be sent");
    }
}

static void finish(struct fabric_push *push)
{
    struct notice notice = {.transfer = push->transfer, .bytes = push->filled};
    push->has_finished = true;
    if (peer_tell(push->peer, FRAME_FINISHED, &notice) < 0)
        peer_lose(push->peer, "there is no memory for what is to be sent");
}

/* The one that has waited longest of those that can go on, and a slab for it. */
static struct fabric_push *pick(struct fabric *fabric, struct slab **source)
{
    struct fabric_push *best = NULL;
    uint32_t i = 0;
    while (i < fabric->sources.count && fabric->sources.slabs[i].state != SLAB_FREE)
        i++;
    if (i == fabric->sources.count)
        return NULL;
    *source = &fabric->sources.slabs[i];
    for (struct fabric_peer *peer = fabric->peers; peer; peer = peer->next)
        for (struct fabric_push *push = peer->pushes; push; push = push->next)
            if (!push->has_ended && !push->is_at_end && push->grant_count > 0 &&
                (!best || push->turn < best->turn))
                best = push;
    return best;
}

/* Gives the lock away meanwhile. */
static void fill(struct fabric *fabric, struct fabric_push *push, struct slab *slab)
{
    uint64_t left = push->bytes - push->filled;
    slab->grant = push->grants[--push->grant_count];
    uint32_t room =
        slab->grant.count < fabric->config.slab_bytes ? slab->grant.count : fabric->config.slab_bytes;
    room -= CHUNK_HEADER_BYTES;
    slab->state = SLAB_FILLING;
    slab->chunk = ++fabric->last_chunk;
    slab->offset = push->filled;
    push->turn = ++fabric->last_fill;
    push->is_filling = true;
    pthread_mutex_unlock(&fabric->lock);
    ssize_t count = fill_unlocked(push, slab, left < room ? left : room);
    int code = errno;
    pthread_mutex_lock(&fabric->lock);
    push->is_filling = false;
    take_filled(push, slab, count, code);
    pthread_cond_broadcast(&fabric->is_out);
    fabric_wake(fabric);
}

static ssize_t fill_unlocked(struct fabric_push *push, struct slab *slab, size_t room)
{
    struct fabric_peer *peer = push->peer;
    ssize_t count = push->fill(push->context, slab->bytes + CHUNK_HEADER_BYTES, room);
    if (count <= 0)
        return count;
    if ((size_t)count > room) {
        errno = EOVERFLOW;
        return -1;
    }
    slab->count = (uint32_t)count;
    struct chunk chunk = {.session = peer->session.id,
                          .transfer = push->transfer,
                          .chunk = slab->chunk,
                          .offset = slab->offset,
                          .count = slab->count};
    memcpy(chunk.tag_sum, push->tag_sum, sizeof chunk.tag_sum);
    chunk_encode(&chunk, slab->bytes);
    seal_close(channel_seal_out(peer->channel), SEAL_SPACE_CHUNK, slab->chunk, slab->bytes,
               CHUNK_HEADER_BYTES, CHUNK_HEADER_BYTES + slab->count, slab->mac);
    disturb_pace(peer, slab->count);
    if (fault_hit("fabric.chunk", -1, slab->chunk))
        slab->bytes[CHUNK_HEADER_BYTES + slab->count / 2] ^= 1;
    return count;
}

static void take_filled(struct fabric_push *push, struct slab *slab, ssize_t count, int code)
{
    struct fabric *fabric = push->peer->fabric;
    if (push->has_ended || count <= 0)
        source_release(fabric, slab);
    if (push->has_ended) {
        events_put(fabric, &push->pushed);
        return;
    }
    if (count < 0) {
        struct notice notice = {.transfer = push->transfer, .error = (uint32_t)(code ? code : EIO)};
        peer_tell(push->peer, FRAME_FINISHED, &notice);
        push_end(push, code ? code : EIO);
        return;
    }
    push->filled += (uint64_t)count;
    push->is_at_end = count == 0 || push->filled == push->bytes;
    if (count == 0)
        return;
    slab->state = SLAB_READY;
    slab->push = push;
    slab->next = NULL;
    if (push->last)
        push->last->next = slab;
    else
        push->first = slab;
    push->last = slab;
}

static struct slab *find_writing(struct fabric *fabric, uint64_t chunk)
{
    for (uint32_t i = 0; i < fabric->sources.count; i++)
        if (fabric->sources.slabs[i].state == SLAB_WRITING && fabric->sources.slabs[i].chunk == chunk)
            return &fabric->sources.slabs[i];
    return NULL;
}

static int replace(struct fabric *fabric, struct slab *slab)
{
    struct belay_error err;
    struct orphan *orphan = calloc(1, sizeof *orphan);
    uint8_t *bytes = aligned_alloc(4096, fabric->config.slab_bytes);
    struct endpoint_memory *memory =
        orphan && bytes ? endpoint_register(fabric->endpoint, bytes, fabric->config.slab_bytes, false, &err)
                        : NULL;
    if (!memory) {
        free(orphan);
        free(bytes);
        return -1;
    }
    *orphan = (struct orphan){fabric->orphans, slab->bytes, slab->memory, slab->chunk};
    fabric->orphans = orphan;
    fabric->orphan_count++;
    slab->bytes = bytes;
    slab->memory = memory;
    source_release(fabric, slab);
    return 0;
}

static void free_orphan(struct fabric *fabric, uint64_t chunk)
{
    for (struct orphan **link = &fabric->orphans; *link; link = &(*link)->next) {
        struct orphan *orphan = *link;
        if (orphan->chunk != chunk)
            continue;
        *link = orphan->next;
        fabric->orphan_count--;
        endpoint_unregister(orphan->memory);
        free(orphan->bytes);
        free(orphan);
        return;
    }
}
