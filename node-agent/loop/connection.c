#include "node-agent/loop/connection.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util/limit.h"
#include "common/util/log.h"
#include "common/wire/message.h"
#include "common/wire/peer.h"
#include "node-agent/loop/crowd.h"
#include "node-agent/loop/timer.h"

#define REQUEST_MAX_BYTES (8u << 20)  /* the environment and words of a process have 6 MiB at most */
#define INPUTS_MAX_BYTES (128u << 20) /* of requests that are not whole yet, of all clients */
#define INPUT_KEPT_BYTES (64u << 10)  /* of room for requests, while there is none */
#define EVENTS_MAX_BYTES                                                                                     \
    (1u << 20)             /* that a client has not read: further ones that only tell are left out           \
                            */
#define REQUESTS_A_TURN 16 /* of one client, before the others have theirs */

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16: may descriptors be sent to us? */
#endif

/* A frame on its way out. */
struct output {
    struct output *next;
    uint8_t *bytes;
    size_t count, sent;
    int fds[MESSAGE_MAX_FDS];
    unsigned fd_count;
};

struct connection {
    int sock;
    uv_poll_t watch;
    const struct connection_ops *ops;
    void *context;
    struct ucred peer;
    uint64_t id;
    uint8_t *input; /* bytes received and not yet taken */
    size_t input_bytes, input_room;
    struct output *first, *last;
    size_t output_bytes; /* in all frames, sent or not */
    uint64_t patience_ms;
    struct timer *patience; /* runs while the peer owes us a request, or the rest of one */
    bool is_patient;        /* it runs */
    bool is_busy;           /* a request waits for its reply */
    bool is_closed;         /* being freed */
    bool is_taking;         /* inside take_requests() */
    bool has_more;          /* a further request may be in input: wants a turn of the loop */
    bool has_left_out;      /* events that were not read in time */
};

static uint64_t last_id;      /* of any connection so far */
static struct limit refusals; /* lines about clients that are not served */
static size_t inputs_bytes;   /* room for requests, of all connections */

static int admit(int sock, struct ucred *peer);
static void tell_of_refusal(const char *text);
static void connection_close(struct connection *connection);
static void send_reply(struct connection *connection, const Belay__Wire__Reply *reply, const int *fds,
                       unsigned fd_count);
static int queue_error(struct connection *connection, int code);
static void update_watch(struct connection *connection);
static void update_patience(struct connection *connection, bool is_owed);
static void on_patience_over(void *context);
static void on_ready(uv_poll_t *handle, int status, int events);
static int receive_input(struct connection *connection);
static int take_requests(struct connection *connection);
static bool may_take(const struct connection *connection);
static int take_request(struct connection *connection, size_t *used);
static int queue_output(struct connection *connection, const Belay__Wire__Reply *reply, const int *fds,
                        unsigned fd_count);
static int send_output(struct connection *connection);
static void output_destroy(struct output *output);
static void on_watch_closed(uv_handle_t *handle);

struct connection *connection_create(uv_loop_t *loop, int sock, uint64_t patience_ms,
                                     const struct connection_ops *ops, void *context)
{
    const int none = 0;
    bool is_admitted = false;
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        goto fail;
    *connection = (struct connection){
        .sock = sock, .ops = ops, .context = context, .id = ++last_id, .patience_ms = patience_ms};
    if (admit(sock, &connection->peer) < 0)
        goto fail;
    is_admitted = true;
    setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &none,
               sizeof none); /* its own end, sent to us, would keep it open */
    connection->patience = timer_new(loop, on_patience_over, connection);
    if (!connection->patience || fcntl(sock, F_SETFL, O_NONBLOCK) < 0 ||
        uv_poll_init(loop, &connection->watch, sock) != 0)
        goto fail;
    connection->watch.data = connection;
    update_watch(connection);
    update_patience(connection, true);
    return connection;
fail:
    if (is_admitted)
        crowd_leave(connection->peer.pid);
    if (connection)
        timer_destroy(connection->patience);
    free(connection);
    close(sock);
    return NULL;
}

/* By what the kernel says of it. */
static int admit(int sock, struct ucred *peer)
{
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    struct belay_error err;
    char text[64];
    if (peer_check_client(sock, peer) < 0) {
        snprintf(text, sizeof text, "refused a client of user %u", (unsigned)peer->uid);
        tell_of_refusal(text);
        return -1;
    }
    if (crowd_enter(peer->pid, &err) == 0)
        return 0;
    tell_of_refusal(err.text);
    reply.error = err.text;
    reply.error_code = (uint32_t)err.code;
    if (fcntl(sock, F_SETFL, O_NONBLOCK) == 0)
        message_send(sock, &reply.base, NULL, 0, NULL);
    return -1;
}

static void tell_of_refusal(const char *text)
{
    uint64_t left_out = 0;
    if (!limit_allows(&refusals, uv_hrtime() / 1000000, &left_out))
        return;
    if (left_out > 0)
        log_warning("%s; %llu others were refused before", text, (unsigned long long)left_out);
    else
        log_warning("%s", text);
}

/*
 * Called from anywhere, so nothing is done here that could end a job: the next request waits for its turn,
 * and a peer that is gone is noticed by the loop.
 */
void connection_reply(struct connection *connection, const Belay__Wire__Reply *reply, const int *fds,
                      unsigned fd_count)
{
    assert(connection->is_busy);
    connection->is_busy = false;
    connection->has_more = !connection->is_taking && connection->input_bytes > 0;
    send_reply(connection, reply, fds, fd_count);
}

void connection_reply_error(struct connection *connection, int code, const char *text)
{
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    reply.error = (char *)text;
    reply.error_code = (uint32_t)code;
    connection_reply(connection, &reply, NULL, 0);
}

/* An arbiter that stands still, suspended say, does not fill our memory. */
void connection_send_event(struct connection *connection, const Belay__Wire__Event *event)
{
    bool is_needed = event->stop_requested || event->restored;
    if (connection->output_bytes > EVENTS_MAX_BYTES && !is_needed) {
        if (!connection->has_left_out)
            log_warning("process %d does not read what it is told: some of it is left out",
                        (int)connection->peer.pid);
        connection->has_left_out = true;
        return;
    }
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    reply.body_case = BELAY__WIRE__REPLY__BODY_EVENT;
    reply.event = (Belay__Wire__Event *)event;
    send_reply(connection, &reply, NULL, 0);
}

pid_t connection_pid(const struct connection *connection)
{
    return connection->peer.pid;
}

int connection_open_peer(const struct connection *connection)
{
    return peer_open(connection->sock, &connection->peer);
}

uint64_t connection_id(const struct connection *connection)
{
    return connection->id;
}

static void connection_close(struct connection *connection)
{
    if (connection->is_closed)
        return;
    connection->is_closed = true;
    timer_stop(connection->patience);
    connection->ops->closed(connection, connection->context);
    uv_close((uv_handle_t *)&connection->watch, on_watch_closed);
}

static void send_reply(struct connection *connection, const Belay__Wire__Reply *reply, const int *fds,
                       unsigned fd_count)
{
    if (connection->is_closed)
        return;
    int rc = queue_output(connection, reply, fds, fd_count);
    if (rc < 0 && reply->body_case != BELAY__WIRE__REPLY__BODY_EVENT)
        rc = queue_error(connection, errno);
    if (rc < 0 || send_output(connection) < 0)
        shutdown(connection->sock, SHUT_RDWR);
    update_watch(connection);
}

/* Why the answer cannot be given. */
static int queue_error(struct connection *connection, int code)
{
    char text[128];
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    snprintf(text, sizeof text, "the agent cannot send its answer: %s", strerror(code));
    log_warning("to process %d: %s", (int)connection->peer.pid, text);
    reply.error = text;
    reply.error_code = (uint32_t)code;
    return queue_output(connection, &reply, NULL, 0);
}

/*
 * While a request waits for its reply, and the reply for its reader, only the peer's end is of interest: who
 * does not read what it has asked for is asked nothing more of us.
 */
static void update_watch(struct connection *connection)
{
    if (connection->is_closed)
        return;
    int events = UV_DISCONNECT | (connection->is_busy || connection->first ? 0 : UV_READABLE) |
                 (connection->first || connection->has_more ? UV_WRITABLE : 0);
    uv_poll_start(&connection->watch, events, on_ready);
}

/* From the moment on which a request is owed, not again with each byte of it. */
static void update_patience(struct connection *connection, bool is_owed)
{
    if (connection->is_closed || is_owed == connection->is_patient)
        return;
    connection->is_patient = is_owed;
    if (is_owed)
        timer_start(connection->patience, connection->patience_ms, 0);
    else
        timer_stop(connection->patience);
}

static void on_patience_over(void *context)
{
    struct connection *connection = context;
    log_warning("process %d has sent no whole request within %.1f s: its connection is closed",
                (int)connection->peer.pid, (double)connection->patience_ms / 1e3);
    connection_close(connection);
}

static void on_ready(uv_poll_t *handle, int status, int events)
{
    struct connection *connection = handle->data;
    int rc = status < 0 ? -1 : 0;
    connection->has_more = false;
    if (rc == 0 && (events & UV_WRITABLE))
        rc = send_output(connection);
    if (rc == 0 && (events & UV_READABLE))
        rc = receive_input(connection);
    else if (rc == 0 && (events & UV_DISCONNECT))
        rc = -1;
    if (rc == 0)
        rc = take_requests(connection);
    if (rc < 0)
        connection_close(connection);
    else
        update_watch(connection);
}

static void give_room_back(struct connection *connection)
{
    inputs_bytes -= connection->input_room;
    free(connection->input);
    connection->input = NULL;
    connection->input_room = 0;
}

/* As much as the peer has sent already, once more: what a header announces is not believed. */
static int make_room(struct connection *connection)
{
    size_t room = connection->input_room ? connection->input_room * 2 : 16384;
    uint8_t *larger = inputs_bytes + room <= INPUTS_MAX_BYTES ? realloc(connection->input, room) : NULL;
    if (!larger) {
        log_warning("no memory for the request of process %d", (int)connection->peer.pid);
        return -1;
    }
    inputs_bytes += room - connection->input_room;
    connection->input = larger;
    connection->input_room = room;
    return 0;
}

/* What is there. Descriptors have no meaning here: the kernel closes those that nobody takes. */
static int receive_input(struct connection *connection)
{
    if (connection->input_room - connection->input_bytes < 4096 && make_room(connection) < 0)
        return -1;
    ssize_t got = recv(connection->sock, connection->input + connection->input_bytes,
                       connection->input_room - connection->input_bytes, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    connection->input_bytes += (size_t)got;
    return got > 0 ? 0 : -1;
}

static int take_requests(struct connection *connection)
{
    size_t used = 0;
    int rc = 1;
    connection->is_taking = true;
    for (int turn = 0; rc == 1 && may_take(connection); turn++) {
        connection->has_more = turn == REQUESTS_A_TURN;
        if (connection->has_more)
            break;
        rc = take_request(connection, &used);
    }
    connection->is_taking = false;
    if (used > 0)
        memmove(connection->input, connection->input + used, connection->input_bytes - used);
    connection->input_bytes -= used;
    if (connection->input_bytes == 0 && connection->input_room > INPUT_KEPT_BYTES)
        give_room_back(connection);
    if (used > 0 || connection->input_bytes > 0)
        update_patience(connection, rc == 0 && connection->input_bytes > 0);
    return rc < 0 ? -1 : 0;
}

static bool may_take(const struct connection *connection)
{
    return !connection->is_busy && !connection->is_closed && !connection->first;
}

/* Returns 1 if a request was handed on, 0 if none is complete, -1 if the peer talks nonsense. */
static int take_request(struct connection *connection, size_t *used)
{
    const uint8_t *at = connection->input + *used;
    size_t left = connection->input_bytes - *used, body;
    if (left < MESSAGE_HEADER_BYTES)
        return 0;
    if (message_body_bytes(at, &body) < 0 || body > REQUEST_MAX_BYTES) {
        log_warning("process %d announced a request that is too large", (int)connection->peer.pid);
        return -1;
    }
    if (left - MESSAGE_HEADER_BYTES < body)
        return 0;
    Belay__Wire__Request *request = belay__wire__request__unpack(NULL, body, at + MESSAGE_HEADER_BYTES);
    *used += MESSAGE_HEADER_BYTES + body;
    if (!request) {
        log_warning("process %d sent a malformed request", (int)connection->peer.pid);
        return -1;
    }
    connection->is_busy = true;
    connection->ops->request(connection, request, connection->context);
    belay__wire__request__free_unpacked(request, NULL);
    return 1;
}

static int queue_output(struct connection *connection, const Belay__Wire__Reply *reply, const int *fds,
                        unsigned fd_count)
{
    struct output *output = calloc(1, sizeof *output);
    if (!output)
        return -1;
    output->bytes = message_pack(&reply->base, &output->count);
    for (unsigned i = 0; output->bytes && i < fd_count; i++) {
        output->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
        if (output->fds[i] < 0)
            break;
        output->fd_count++;
    }
    if (!output->bytes || output->fd_count < fd_count) {
        int code = errno;
        output_destroy(output);
        errno = code;
        return -1;
    }
    connection->output_bytes += output->count;
    if (connection->last)
        connection->last->next = output;
    else
        connection->first = output;
    connection->last = output;
    return 0;
}

static int send_output(struct connection *connection)
{
    while (connection->first) {
        struct output *output = connection->first;
        ssize_t sent =
            message_sendmsg(connection->sock, output->bytes + output->sent, output->count - output->sent,
                            output->fds, output->sent == 0 ? output->fd_count : 0);
        if (sent < 0)
            return errno == EAGAIN ? 0 : -1;
        output->sent += (size_t)sent;
        if (output->sent < output->count)
            continue;
        connection->first = output->next;
        if (!connection->first)
            connection->last = NULL;
        connection->output_bytes -= output->count;
        output_destroy(output);
    }
    return 0;
}

static void output_destroy(struct output *output)
{
    for (unsigned i = 0; i < output->fd_count; i++)
        close(output->fds[i]);
    free(output->bytes);
    free(output);
}

static void on_watch_closed(uv_handle_t *handle)
{
    struct connection *connection = handle->data;
    while (connection->first) {
        struct output *output = connection->first;
        connection->first = output->next;
        output_destroy(output);
    }
    close(connection->sock);
    crowd_leave(connection->peer.pid);
    give_room_back(connection);
    timer_destroy(connection->patience);
    free(connection);
}
