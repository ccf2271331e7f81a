#include "cmd/leases.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/wire/client.h"
#include "common/wire/fence.h"
#include "common/wire/message.h"
#include "common/wire/placement.h"

/* For an agent that is asked for the connection, and for the rest of a message that has begun to come or go.
 */
static const struct timeval open_time = {.tv_sec = 5}, rest_time = {.tv_sec = 1};

struct leases {
    struct job_arbiter *arbiter;
    pthread_t thread;
    int wake;              /* eventfd: something below has changed; -1: none */
    pthread_mutex_t mutex; /* over what follows */
    bool is_ending;
    bool is_new[PLACEMENT_NODES_MAX]; /* by node: the thread is to use this connection from now on */
    int next[PLACEMENT_NODES_MAX];    /* -1: none */
    int socks[PLACEMENT_NODES_MAX];   /* the thread's own; -1: none */
};

static void *run(void *context);
static bool take_changes(struct leases *leases);
static void hear(struct leases *leases, uint32_t node);
static void grant(void *context, uint32_t node, uint32_t epoch, uint64_t asked_us);
static void set(struct leases *leases, uint32_t node, int sock);

struct leases *leases_create(struct job_arbiter *arbiter, struct belay_error *err)
{
    struct leases *leases = calloc(1, sizeof *leases);
    if (!leases) {
        belay_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    leases->arbiter = arbiter;
    pthread_mutex_init(&leases->mutex, NULL);
    for (uint32_t node = 0; node < PLACEMENT_NODES_MAX; node++)
        leases->next[node] = leases->socks[node] = -1;
    leases->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    job_arbiter_set_granter(arbiter, grant, leases);
    int code = leases->wake < 0 ? errno : pthread_create(&leases->thread, NULL, run, leases);
    if (code == 0)
        return leases;
    belay_error_set(err, code, "leases cannot be given: %s", strerror(code));
    if (leases->wake >= 0)
        close(leases->wake);
    job_arbiter_set_granter(arbiter, NULL, NULL);
    free(leases);
    return NULL;
}

static void wake(const struct leases *leases)
{
    ssize_t ignored = write(leases->wake, &(uint64_t){1}, sizeof(uint64_t));
    (void)ignored;
}

void leases_destroy(struct leases *leases)
{
    if (!leases)
        return;
    pthread_mutex_lock(&leases->mutex);
    leases->is_ending = true;
    pthread_mutex_unlock(&leases->mutex);
    wake(leases);
    pthread_join(leases->thread, NULL);
    job_arbiter_set_granter(leases->arbiter, NULL, NULL);
    for (uint32_t node = 0; node < PLACEMENT_NODES_MAX; node++) {
        if (leases->is_new[node] && leases->next[node] >= 0)
            close(leases->next[node]);
        if (leases->socks[node] >= 0)
            close(leases->socks[node]);
    }
    close(leases->wake);
    pthread_mutex_destroy(&leases->mutex);
    free(leases);
}

static int ask_for_connection(int sock, const char *job, struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__LeaseOpen body = BELAY__WIRE__LEASE_OPEN__INIT;
    body.job = (char *)(uintptr_t)job; /* only read */
    request.body_case = BELAY__WIRE__REQUEST__BODY_LEASE_OPEN;
    request.lease_open = &body;
    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &open_time, sizeof open_time);
    Belay__Wire__Reply *reply = agent_call(sock, &request, NULL, NULL, NULL, NULL, err);
    if (reply)
        belay__wire__reply__free_unpacked(reply, NULL);
    return reply ? 0 : -1;
}

int leases_open(struct leases *leases, uint32_t node, const char *rundir, const char *job,
                struct belay_error *err)
{
    int sock = agent_connect(rundir, NULL, err);
    if (sock < 0)
        return -1;
    if (ask_for_connection(sock, job, err) < 0) {
        close(sock);
        return -1;
    }
    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &rest_time, sizeof rest_time);
    setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &rest_time, sizeof rest_time);
    set(leases, node, sock);
    return 0;
}

void leases_close(struct leases *leases, uint32_t node)
{
    if (leases)
        set(leases, node, -1);
}

static void set(struct leases *leases, uint32_t node, int sock)
{
    pthread_mutex_lock(&leases->mutex);
    if (leases->is_new[node] && leases->next[node] >= 0)
        close(leases->next[node]);
    leases->is_new[node] = true;
    leases->next[node] = sock;
    pthread_mutex_unlock(&leases->mutex);
    wake(leases);
}

/* ---- the thread ---- */

static void close_sock(struct leases *leases, uint32_t node)
{
    if (leases->socks[node] >= 0)
        close(leases->socks[node]);
    leases->socks[node] = -1;
}

static void *run(void *context)
{
    struct leases *leases = context;
    while (take_changes(leases)) {
        struct pollfd fds[1 + PLACEMENT_NODES_MAX] = {{.fd = leases->wake, .events = POLLIN}};
        for (uint32_t node = 0; node < PLACEMENT_NODES_MAX; node++)
            fds[1 + node] = (struct pollfd){.fd = leases->socks[node], .events = POLLIN};
        poll(fds, 1 + PLACEMENT_NODES_MAX, -1);
        for (uint32_t node = 0; node < PLACEMENT_NODES_MAX; node++)
            if (fds[1 + node].revents)
                hear(leases, node);
    }
    return NULL;
}

/* False: it is to end. */
static bool take_changes(struct leases *leases)
{
    uint64_t count;
    ssize_t ignored = read(leases->wake, &count, sizeof count);
    (void)ignored;
    pthread_mutex_lock(&leases->mutex);
    for (uint32_t node = 0; node < PLACEMENT_NODES_MAX; node++) {
        if (!leases->is_new[node])
            continue;
        close_sock(leases, node);
        leases->socks[node] = leases->next[node];
        leases->is_new[node] = false;
    }
    bool is_ending = leases->is_ending;
    pthread_mutex_unlock(&leases->mutex);
    return !is_ending;
}

/* An event that asks for a lease, an answer to a grant, or the end. */
static void hear(struct leases *leases, uint32_t node)
{
    struct belay_error err;
    uint8_t *bytes = NULL;
    ssize_t length = message_receive(leases->socks[node], &bytes, NULL, NULL, &err);
    Belay__Wire__Reply *reply = length > 0 ? belay__wire__reply__unpack(NULL, (size_t)length, bytes) : NULL;
    free(bytes);
    if (!reply) {
        close_sock(leases, node);
        return;
    }
    if (reply->body_case == BELAY__WIRE__REPLY__BODY_EVENT && reply->event->renewal)
        job_arbiter_renew(leases->arbiter, node, reply->event->renewal);
    belay__wire__reply__free_unpacked(reply, NULL);
}

/* From within hear(). */
static void grant(void *context, uint32_t node, uint32_t epoch, uint64_t asked_us)
{
    struct leases *leases = context;
    struct belay_error err;
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__LeaseGrant body = BELAY__WIRE__LEASE_GRANT__INIT;
    body.job = (char *)(uintptr_t)job_arbiter_name(leases->arbiter); /* only read */
    body.epoch = epoch;
    body.asked_us = asked_us;
    body.given_ns = fence_now_ns();
    request.body_case = BELAY__WIRE__REQUEST__BODY_LEASE_GRANT;
    request.lease_grant = &body;
    agent_send(leases->socks[node], &request, &err);
}
