#include "relay/guests.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/escape.h"
#include "common/util/log.h"
#include "common/wire/belay.pb-c.h"
#include "common/wire/epoch_record.h"
#include "common/wire/peer.h"
#include "common/wire/placement.h"
#include "common/wire/rundir.h"
#include "relay/doubt.h"
#include "relay/local.h"
#include "relay/mirror.h"
#include "relay/roles.h"

#define CLIENTS_MAX 64u
#define REASON_BYTES 300 /* that are shown of what a host says */

struct guest {
    struct session *session;
    char name[HOST_NAME_MAX + 1];
    char rundir[PATH_MAX]; /* where its clients look for it */
    struct sockaddr_un socket_name;
    int listener; /* -1: none */
    struct local *clients[CLIENTS_MAX];
    uint32_t channels;     /* given so far */
    struct mirror *mirror; /* of the newest job that was opened; NULL: none */
    uint32_t ranks;        /* that its arbiter has placed */
    int64_t beat_ms;
    struct doubt doubt;
};

/* ---- its life ---- */

/* A socket that another process serves is of another job. */
static bool is_served(const struct sockaddr_un *name)
{
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_it = sock >= 0 && connect(sock, (const struct sockaddr *)name, sizeof *name) == 0;
    if (sock >= 0)
        close(sock);
    return is_it;
}

static int listen_for_clients(struct guest *guest, const char *rundir, struct belay_error *err)
{
    struct sockaddr_un *name = &guest->socket_name;
    if (placement_rundir(guest->rundir, sizeof guest->rundir, rundir, session_node(guest->session), err) <
            0 ||
        rundir_make(guest->rundir, err) < 0)
        return -1;
    name->sun_family = AF_UNIX;
    int used = snprintf(name->sun_path, sizeof name->sun_path, "%s/agent.sock", guest->rundir);
    if (used < 0 || (size_t)used >= sizeof name->sun_path)
        return belay_error_set(err, ENAMETOOLONG, "the run directory's path is too long: use BELAY_RUNDIR");
    if (is_served(name))
        return belay_error_set(err, EBUSY, "another process serves %s", guest->rundir);
    unlink(name->sun_path);
    guest->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (guest->listener < 0 || bind(guest->listener, (struct sockaddr *)name, sizeof *name) < 0 ||
        listen(guest->listener, CLIENTS_MAX) < 0)
        return belay_error_errno(err, "cannot listen at %s", name->sun_path);
    return 0;
}

static int say(struct guest *guest, enum record_kind kind, uint32_t channel, const void *bytes, size_t count)
{
    const struct record record = {.kind = kind, .channel = channel, .bytes = bytes, .count = count};
    return session_put(guest->session, &record, NULL, 0);
}

struct guest *guest_create(struct session *session, const char *rundir, const char *name,
                           struct belay_error *err)
{
    struct guest *guest = calloc(1, sizeof *guest);
    if (!guest) {
        session_destroy(session);
        belay_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    guest->session = session;
    guest->listener = -1;
    snprintf(guest->name, sizeof guest->name, "%s", name);
    if (listen_for_clients(guest, rundir, err) == 0 && say(guest, RECORD_WELCOME, 0, NULL, 0) == 0)
        return guest;
    guest_destroy(guest);
    return NULL;
}

void guest_destroy(struct guest *guest)
{
    if (!guest)
        return;
    if (guest->listener >= 0) {
        unlink(guest->socket_name.sun_path);
        close(guest->listener);
        rmdir(guest->rundir);
    }
    for (uint32_t i = 0; i < CLIENTS_MAX; i++)
        local_destroy(guest->clients[i]);
    mirror_destroy(guest->mirror);
    session_destroy(guest->session);
    free(guest);
}

uint32_t guest_node(const struct guest *guest)
{
    return session_node(guest->session);
}

const char *guest_name(const struct guest *guest)
{
    return guest->name;
}

/* ---- clients ---- */

/* One that finds no place waits at the listener. */
static int take_client(struct guest *guest, struct local **place)
{
    struct ucred peer;
    int sock = accept4(guest->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (sock < 0)
        return 0;
    if (peer_check_client(sock, &peer) < 0) {
        close(sock);
        return 0;
    }
    *place = local_create(sock, ++guest->channels);
    return *place ? say(guest, RECORD_OPEN, guest->channels, NULL, 0) : 0;
}

static int take_clients(struct guest *guest)
{
    for (uint32_t i = 0; i < CLIENTS_MAX; i++)
        if (!guest->clients[i] && take_client(guest, &guest->clients[i]) < 0)
            return -1;
    return 0;
}

/* What an arbiter has changed in the memory of streams goes before its next word; EpochStart tells how many
 * ranks. */
static int push_streams(struct guest *guest, const Belay__Wire__Request *request, struct belay_error *err)
{
    bool is_start = request->body_case == BELAY__WIRE__REQUEST__BODY_EPOCH_START;
    bool is_ping = request->body_case == BELAY__WIRE__REQUEST__BODY_PING;
    if (is_start && request->epoch_start->start && epoch_record_check(request->epoch_start->start) == 0)
        guest->ranks = epoch_record_ranks(request->epoch_start->start);
    return (is_start || is_ping) && guest->mirror
               ? mirror_push(guest->mirror, guest->session, guest->ranks, err)
               : 0;
}

/* What its sender wants to be passed on; a request that cannot be read is the agent's to refuse. */
static int read_request(struct guest *guest, const struct local_message *message, enum record_kind *kind,
                        struct belay_error *err)
{
    Belay__Wire__Request *request = belay__wire__request__unpack(NULL, message->count, message->bytes);
    if (!request)
        return 0;
    if (request->body_case == BELAY__WIRE__REQUEST__BODY_FENCE)
        *kind = RECORD_FENCE;
    int rc = push_streams(guest, request, err);
    belay__wire__request__free_unpacked(request, NULL);
    return rc;
}

static int pass_message(struct guest *guest, uint32_t channel, const struct local_message *message,
                        struct belay_error *err)
{
    for (unsigned i = 0; i < message->fd_count; i++) /* no request brings any */
        close(message->fds[i]);
    enum record_kind kind = RECORD_MESSAGE;
    if (read_request(guest, message, &kind, err) < 0)
        return -1;
    return say(guest, kind, channel, message->bytes, message->count);
}

static int move_client(struct guest *guest, struct local **place, struct belay_error *err)
{
    struct local_message message;
    uint32_t channel = local_channel(*place);
    int rc = local_flush(*place) == 0 ? 1 : -1;
    while (rc > 0) {
        rc = local_take(*place, &message);
        if (rc > 0 && pass_message(guest, channel, &message, err) < 0)
            return -1;
    }
    if (rc == 0)
        return 0;
    local_destroy(*place);
    *place = NULL;
    return say(guest, RECORD_CLOSE, channel, NULL, 0);
}

/* ---- what the host says ---- */

static struct local **find_client(struct guest *guest, uint32_t channel)
{
    for (uint32_t i = 0; i < CLIENTS_MAX; i++)
        if (guest->clients[i] && local_channel(guest->clients[i]) == channel)
            return &guest->clients[i];
    return NULL;
}

static void close_client(struct local **place)
{
    local_destroy(*place);
    *place = NULL;
}

static void tell_reason(const struct guest *guest, const struct record *record)
{
    char text[REASON_BYTES], shown[2 * REASON_BYTES];
    snprintf(text, sizeof text, "%.*s", (int)(record->count < REASON_BYTES ? record->count : REASON_BYTES),
             (const char *)record->bytes);
    escape_text(shown, sizeof shown, text);
    log_error("host %s: %s", guest->name, shown);
}

static void take_close(struct guest *guest, const struct record *record)
{
    struct local **place = find_client(guest, record->channel);
    if (record->count > 0)
        tell_reason(guest, record);
    if (place)
        close_client(place);
}

static void take_message(struct guest *guest, const struct record *record)
{
    struct local **place = find_client(guest, record->channel);
    bool has_streams = record->kind == RECORD_OPENED && guest->mirror;
    if (place && local_put(*place, record->bytes, record->count,
                           has_streams ? mirror_fds(guest->mirror) : NULL, has_streams ? LOCAL_FDS : 0) < 0)
        close_client(place);
}

static int take_streams(struct guest *guest, struct belay_error *err)
{
    mirror_destroy(guest->mirror);
    guest->ranks = 0;
    guest->mirror = mirror_create(err);
    return guest->mirror ? 0 : -1;
}

static int take_record(struct guest *guest, const struct record *record, struct belay_error *err)
{
    switch (record->kind) {
    case RECORD_BEAT:
        return 0;
    case RECORD_CLOSE:
        take_close(guest, record);
        return 0;
    case RECORD_MESSAGE:
    case RECORD_OPENED:
        take_message(guest, record);
        return 0;
    case RECORD_STREAMS:
        return take_streams(guest, err);
    case RECORD_OUTPUT:
    case RECORD_HEAD:
    case RECORD_INPUT:
        if (guest->mirror)
            return mirror_take(guest->mirror, record, err);
        /* fall through */
    default:
        return belay_error_set(err, EPROTO, "it says something that makes no sense");
    }
}

static int take_records(struct guest *guest, struct belay_error *err)
{
    struct record record;
    int rc = session_move(guest->session, err) < 0 ? -1 : 1;
    while (rc > 0) {
        rc = session_take(guest->session, &record, err);
        if (rc > 0 && take_record(guest, &record, err) < 0)
            return -1;
    }
    return rc;
}

static int beat(struct guest *guest, struct belay_error *err)
{
    int64_t now_ms = clock_now_ms();
    if (doubt_look(&guest->doubt, session_fd(guest->session), now_ms, session_heard_ms(guest->session)))
        return belay_error_set(err, ETIMEDOUT, "its kernel has acknowledged nothing for %d s",
                               ROLE_UNANSWERED_MS / 1000);
    if (now_ms - session_heard_ms(guest->session) > ROLE_GATHERER_STALL_MS)
        return belay_error_set(err, ETIMEDOUT, "nothing was heard of it for %d s",
                               ROLE_GATHERER_STALL_MS / 1000);
    if (now_ms < guest->beat_ms)
        return 0;
    guest->beat_ms = now_ms + ROLE_BEAT_MS;
    return say(guest, RECORD_BEAT, 0, NULL, 0);
}

int guest_move(struct guest *guest, bool *is_waiting, struct belay_error *err)
{
    if (take_records(guest, err) < 0 || take_clients(guest) < 0)
        return -1;
    for (uint32_t i = 0; i < CLIENTS_MAX; i++)
        if (guest->clients[i] && move_client(guest, &guest->clients[i], err) < 0)
            return -1;
    if (guest->mirror && mirror_look(guest->mirror, guest->session, is_waiting, err) < 0)
        return -1;
    return beat(guest, err) < 0 ? -1 : session_move(guest->session, err);
}

nfds_t guest_polls(const struct guest *guest, struct pollfd fds[GUEST_POLLS_MAX])
{
    nfds_t count = 0;
    fds[count++] =
        (struct pollfd){.fd = session_fd(guest->session), .events = session_events(guest->session)};
    fds[count++] = (struct pollfd){.fd = guest->listener, .events = POLLIN};
    for (uint32_t i = 0; i < CLIENTS_MAX; i++)
        if (guest->clients[i])
            fds[count++] =
                (struct pollfd){.fd = local_fd(guest->clients[i]), .events = local_events(guest->clients[i])};
    return count;
}
