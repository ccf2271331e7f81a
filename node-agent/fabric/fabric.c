#include "node-agent/fabric/fabric.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/util/log.h"
#include "node-agent/fabric/dispatch.h"
#include "node-agent/fabric/ending.h"
#include "node-agent/fabric/events.h"
#include "node-agent/fabric/gate.h"
#include "node-agent/fabric/greet.h"
#include "node-agent/fabric/peer.h"
#include "node-agent/fabric/progress.h"
#include "node-agent/fabric/pull.h"
#include "node-agent/fabric/push.h"

#define STALL_MS 5000u
#define BEATS_A_STALL 5u
#define PEERS 256u
#define SLABS 32u
#define SLAB_BYTES (256u << 10)
#define PAGE_BYTES 4096u

static int check_config(const struct fabric_config *config, struct belay_error *err);
static void set_epoch(struct fabric *fabric, const struct fabric_epoch *epoch);
static void set_defaults(struct fabric_config *config);
static int make_slabs(struct fabric *fabric, struct slabs *slabs, bool is_target, struct belay_error *err);
static int start_async(struct fabric *fabric, uv_loop_t *loop, struct belay_error *err);
static int start_threads(struct fabric *fabric, struct belay_error *err);
static void end_threads(struct fabric *fabric);
static void destroy_slabs(struct slabs *slabs);
static void destroy_orphans(struct fabric *fabric);
static void on_async_closed(uv_handle_t *handle);

struct fabric *fabric_create(uv_loop_t *loop, const struct fabric_config *config,
                             const struct fabric_ops *ops, void *context, struct belay_error *err)
{
    if (seal_prepare(err) < 0 || check_config(config, err) < 0)
        return NULL;
    struct fabric *fabric = calloc(1, sizeof *fabric);
    if (!fabric) {
        belay_error_errno(err, "cannot open a fabric");
        return NULL;
    }
    fabric->config = *config;
    sodium_memzero(fabric->config.key, sizeof fabric->config.key);
    sodium_memzero(&fabric->config.epoch, sizeof fabric->config.epoch);
    set_defaults(&fabric->config);
    fabric->ops = ops;
    fabric->context = context;
    fabric->beat_every_ms = fabric->config.stall_ms / BEATS_A_STALL;
    pthread_mutex_init(&fabric->lock, NULL);
    pthread_cond_init(&fabric->has_fill, NULL);
    pthread_cond_init(&fabric->has_take, NULL);
    pthread_cond_init(&fabric->is_out, NULL);
    fabric->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    fabric->terms = (struct hello_terms){.mode = config->mode, .self = config->self};
    memcpy(fabric->terms.job, config->job, FABRIC_JOB_BYTES);
    memcpy(fabric->job_key, config->key, FABRIC_KEY_BYTES);
    set_epoch(fabric, &config->epoch);
    if (fabric->wake_fd < 0) {
        belay_error_errno(err, "cannot open a fabric");
        goto fail;
    }
    fabric->endpoint = endpoint_open(fabric->config.provider, config->interface, err);
    if (!fabric->endpoint)
        goto fail;
    endpoint_address(fabric->endpoint, &fabric->terms.address);
    if (make_slabs(fabric, &fabric->sources, false, err) < 0 ||
        make_slabs(fabric, &fabric->targets, true, err) < 0 || start_async(fabric, loop, err) < 0 ||
        start_threads(fabric, err) < 0)
        goto fail;
    return fabric;
fail:;
    int code = errno;
    fabric_destroy(fabric);
    errno = code;
    return NULL;
}

void fabric_destroy(struct fabric *fabric)
{
    if (!fabric)
        return;
    assert(!fabric->is_speaking);
    end_threads(fabric);
    events_forget(fabric, NULL);
    while (fabric->peers)
        peer_destroy(fabric->peers);
    destroy_slabs(&fabric->sources);
    destroy_slabs(&fabric->targets);
    destroy_orphans(fabric);
    endpoint_close(fabric->endpoint);
    if (fabric->async)
        uv_close((uv_handle_t *)fabric->async, on_async_closed);
    if (fabric->wake_fd >= 0)
        close(fabric->wake_fd);
    pthread_mutex_destroy(&fabric->lock);
    pthread_cond_destroy(&fabric->has_fill);
    pthread_cond_destroy(&fabric->has_take);
    pthread_cond_destroy(&fabric->is_out);
    sodium_memzero(&fabric->terms, sizeof fabric->terms);
    sodium_memzero(fabric->job_key, sizeof fabric->job_key);
    free(fabric);
}

void fabric_address(const struct fabric *fabric, struct fabric_address *address)
{
    *address = fabric->terms.address;
}

static void set_epoch(struct fabric *fabric, const struct fabric_epoch *epoch)
{
    fabric->terms.epoch = epoch->number;
    hello_derive_epoch_key(fabric->job_key, epoch, fabric->terms.key);
}

void fabric_enter_epoch(struct fabric *fabric, const struct fabric_epoch *epoch)
{
    pthread_mutex_lock(&fabric->lock);
    set_epoch(fabric, epoch);
    for (struct fabric_peer *peer = fabric->peers; peer; peer = peer->next)
        peer_lose(peer, "another epoch has begun");
    for (uint32_t i = 0; i < fabric->targets.count; i++)
        fabric->targets.slabs[i].must_renew = true;
    pthread_mutex_unlock(&fabric->lock);
    fabric_wake(fabric);
}

void fabric_admit_hosts(struct fabric *fabric, const struct fabric_address *hosts, size_t count)
{
    struct belay_error err;
    if (gate_set(&fabric->terms.address, hosts, count, &err) < 0)
        log_warning("fabric: %s", err.text);
}

struct fabric_peer *fabric_connect(struct fabric *fabric, const struct fabric_identity *identity,
                                   const struct fabric_address *address, void *peer_context)
{
    struct fabric_peer *peer = NULL;
    if (address->count == 0 || address->count > sizeof address->bytes) {
        errno = EINVAL;
        return NULL;
    }
    pthread_mutex_lock(&fabric->lock);
    struct fabric_peer *other = peer_find(fabric, identity, PEER_GREETING, PEER_JOINED);
    struct fabric_peer *answering = peer_find(fabric, identity, PEER_ANSWERING, PEER_ANSWERING);
    if (other || (answering && answering->is_owned)) {
        errno = EEXIST;
    } else if (answering && answering->identity.incarnation == identity->incarnation) {
        peer = answering; /* it was faster */
    } else {
        if (answering)
            peer_lose(answering, "another incarnation is expected");
        peer = peer_create(fabric, identity, address);
        if (peer)
            greet_begin(peer);
    }
    if (peer) {
        peer->is_owned = true;
        peer->context = peer_context;
    }
    pthread_mutex_unlock(&fabric->lock);
    fabric_wake(fabric);
    return peer;
}

/* The threads leave the caller's functions first: what those use is the caller's. */
void fabric_forget(struct fabric_peer *peer)
{
    struct fabric *fabric = peer->fabric;
    pthread_mutex_lock(&fabric->lock);
    peer_lose(peer, "it is forgotten");
    for (struct fabric_push *push = peer->pushes; push; push = push->next)
        while (push->is_filling)
            pthread_cond_wait(&fabric->is_out, &fabric->lock);
    for (struct fabric_pull *pull = peer->pulls; pull; pull = pull->next)
        while (pull->is_taking)
            pthread_cond_wait(&fabric->is_out, &fabric->lock);
    peer->state = PEER_GONE;
    peer->has_lost_word = false;
    events_forget(fabric, peer);
    while (peer->pushes)
        push_destroy(peer->pushes);
    while (peer->pulls)
        pull_destroy(peer->pulls);
    if (fabric->speaking == peer)
        fabric->speaking = NULL;
    pthread_mutex_unlock(&fabric->lock);
    fabric_wake(fabric);
}

void fabric_peer_identity(const struct fabric_peer *peer, struct fabric_identity *identity)
{
    *identity = peer->identity;
}

void *fabric_peer_context(const struct fabric_peer *peer)
{
    return peer->context;
}

void fabric_peer_set_context(struct fabric_peer *peer, void *peer_context)
{
    peer->context = peer_context;
}

int fabric_send(struct fabric_peer *peer, const void *bytes, size_t count)
{
    struct fabric *fabric = peer->fabric;
    int rc = -1;
    pthread_mutex_lock(&fabric->lock);
    if (count > FABRIC_MESSAGE_BYTES) {
        errno = EMSGSIZE;
    } else if (peer->state != PEER_JOINED) {
        errno = ENOTCONN;
    } else {
        rc = channel_put(peer->channel, FRAME_MESSAGE, bytes, count);
        peer->wants_writable = rc < 0 && errno == EAGAIN;
    }
    int code = errno;
    pthread_mutex_unlock(&fabric->lock);
    fabric_wake(fabric);
    errno = code;
    return rc;
}

struct fabric_push *fabric_push(struct fabric_peer *peer, const void *tag, size_t tag_bytes, uint64_t bytes,
                                fabric_fill_f *fill, void *context)
{
    return push_begin(peer, tag, tag_bytes, bytes, fill, context);
}

void *fabric_push_context(const struct fabric_push *push)
{
    return push->context;
}

void fabric_admit(struct fabric_pull *pull, fabric_take_f *take, void *context)
{
    pull_admit(pull, take, context);
}

void fabric_refuse(struct fabric_pull *pull, int error)
{
    pull_refuse(pull, error);
}

void *fabric_pull_context(const struct fabric_pull *pull)
{
    return pull->context;
}

void fabric_read_counts(struct fabric *fabric, struct fabric_counts *counts)
{
    pthread_mutex_lock(&fabric->lock);
    *counts = fabric->counts;
    pthread_mutex_unlock(&fabric->lock);
}

static int check_config(const struct fabric_config *config, struct belay_error *err)
{
    bool has_mode = config->mode == FABRIC_MODE_AUTHENTICATE || config->mode == FABRIC_MODE_ENCRYPT;
    bool has_role = config->self.role == FABRIC_ROLE_MEMBER || config->self.role == FABRIC_ROLE_ARBITER;
    bool has_slabs =
        config->slab_bytes == 0 || (config->slab_bytes >= PAGE_BYTES && config->slab_bytes % PAGE_BYTES == 0);
    if (has_mode && has_role && has_slabs && !sodium_is_zero(config->key, sizeof config->key))
        return 0;
    return belay_error_set(err, EINVAL, "a fabric needs a key, a mode, a role, and slabs of whole pages");
}

static void set_defaults(struct fabric_config *config)
{
    config->provider = config->provider ? config->provider : "tcp";
    config->stall_ms = config->stall_ms ? config->stall_ms : STALL_MS;
    config->peers = config->peers ? config->peers : PEERS;
    config->slabs = config->slabs ? config->slabs : SLABS;
    config->slab_bytes = config->slab_bytes ? config->slab_bytes : SLAB_BYTES;
}

/* Sources are registered too where the provider wants it; where it does not, that costs nothing. */
static int make_slabs(struct fabric *fabric, struct slabs *slabs, bool is_target, struct belay_error *err)
{
    size_t each = fabric->config.slab_bytes;
    slabs->slabs = calloc(fabric->config.slabs, sizeof *slabs->slabs);
    while (slabs->slabs && slabs->count < fabric->config.slabs) {
        struct slab *slab = &slabs->slabs[slabs->count];
        slab->bytes = aligned_alloc(PAGE_BYTES, each);
        if (!slab->bytes)
            break;
        slabs->count++;
        memset(slab->bytes, 0, each);
        slab->memory = endpoint_register(fabric->endpoint, slab->bytes, each, is_target, err);
        if (!slab->memory)
            return -1;
    }
    return slabs->count == fabric->config.slabs ? 0
                                                : belay_error_errno(err, "cannot have memory for a fabric");
}

static int start_async(struct fabric *fabric, uv_loop_t *loop, struct belay_error *err)
{
    uv_async_t *async = calloc(1, sizeof *async);
    int rc = async ? uv_async_init(loop, async, dispatch_events) : UV_ENOMEM;
    if (rc != 0) {
        free(async);
        return belay_error_set(err, -rc, "cannot have a fabric in the event loop: %s", uv_strerror(rc));
    }
    async->data = fabric;
    fabric->async = async;
    return 0;
}

/* Signals are the loop's. */
static int start_threads(struct fabric *fabric, struct belay_error *err)
{
    static void *(*const runs[])(void *) = {progress_run, push_run, pull_run};
    pthread_t *const threads[] = {&fabric->progress, &fabric->filler, &fabric->taker};
    sigset_t all, former;
    int code = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    while (fabric->threads < 3 && code == 0) {
        code = pthread_create(threads[fabric->threads], NULL, runs[fabric->threads], fabric);
        fabric->threads += code == 0;
    }
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    return code == 0 ? 0
                     : belay_error_set(err, code, "cannot start a thread of a fabric: %s", strerror(code));
}

static void end_threads(struct fabric *fabric)
{
    const pthread_t threads[] = {fabric->progress, fabric->filler, fabric->taker};
    pthread_mutex_lock(&fabric->lock);
    fabric->is_ending = true;
    pthread_cond_broadcast(&fabric->has_fill);
    pthread_cond_broadcast(&fabric->has_take);
    pthread_mutex_unlock(&fabric->lock);
    if (fabric->wake_fd >= 0)
        fabric_wake(fabric);
    for (unsigned i = 0; i < fabric->threads; i++)
        pthread_join(threads[i], NULL);
    fabric->threads = 0;
}

/* The endpoint reads and writes no more of it: its thread has ended. */
static void destroy_slabs(struct slabs *slabs)
{
    for (uint32_t i = 0; i < slabs->count; i++) {
        endpoint_unregister(slabs->slabs[i].memory);
        free(slabs->slabs[i].bytes);
    }
    free(slabs->slabs);
}

static void destroy_orphans(struct fabric *fabric)
{
    for (struct orphan *orphan = fabric->orphans, *next; orphan; orphan = next) {
        next = orphan->next;
        endpoint_unregister(orphan->memory);
        free(orphan->bytes);
        free(orphan);
    }
}

static void on_async_closed(uv_handle_t *handle)
{
    free(handle);
}
