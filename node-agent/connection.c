#include "node-agent/connection.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/wire/message.h"
#include "common/wire/peer.h"

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
    bool is_busy;   /* a request waits for its reply */
    bool is_closed; /* being freed */
    bool is_taking; /* inside take_requests() */
    bool has_more;  /* a further request may be in input: wants a turn of the loop */
};

static uint64_t last_id; /* of any connection so far */

static void connection_close(struct connection *connection);
static void send_reply(struct connection *connection, const Belay__Wire__Reply *reply, const int *fds,
                       unsigned fd_count);
static void update_watch(struct connection *connection);
static void on_ready(uv_poll_t *handle, int status, int events);
static int receive_input(struct connection *connection);
static int take_requests(struct connection *connection);
static int take_request(struct connection *connection, size_t *used);
static int queue_output(struct connection *connection, const Belay__Wire__Reply *reply, const int *fds,
                        unsigned fd_count);
static int send_output(struct connection *connection);
static void output_destroy(struct output *output);
static void on_watch_closed(uv_handle_t *handle);

struct connection *connection_create(uv_loop_t *loop, int sock, const struct connection_ops *ops,
                                     void *context)
{
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        goto fail;
    *connection = (struct connection){.sock = sock, .ops = ops, .context = context, .id = ++last_id};
    if (peer_check_client(sock, &connection->peer) < 0) {
        log_warning("refused a client of user %u", (unsigned)connection->peer.uid);
        goto fail;
    }
    if (fcntl(sock, F_SETFL, O_NONBLOCK) < 0 || uv_poll_init(loop, &connection->watch, sock) != 0)
        goto fail;
    connection->watch.data = connection;
    update_watch(connection);
    return connection;
fail:
    free(connection);
    close(sock);
    return NULL;
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

void connection_send_event(struct connection *connection, const Belay__Wire__Event *event)
{
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
    connection->ops->closed(connection, connection->context);
    uv_close((uv_handle_t *)&connection->watch, on_watch_closed);
}

static void send_reply(struct connection *connection, const Belay__Wire__Reply *reply, const int *fds,
                       unsigned fd_count)
{
    if (connection->is_closed)
        return;
    if (queue_output(connection, reply, fds, fd_count) < 0 || send_output(connection) < 0)
        shutdown(connection->sock, SHUT_RDWR);
    update_watch(connection);
}

/* While a request waits for its reply, only the peer's end is of interest. */
static void update_watch(struct connection *connection)
{
    if (connection->is_closed)
        return;
    int events = UV_DISCONNECT | (connection->is_busy ? 0 : UV_READABLE) |
                 (connection->first || connection->has_more ? UV_WRITABLE : 0);
    uv_poll_start(&connection->watch, events, on_ready);
}

static void on_ready(uv_poll_t *handle, int status, int events)
{
    struct connection *connection = handle->data;
    int rc = status < 0 ? -1 : 0;
    connection->has_more = false;
    if (rc == 0 && (events & UV_READABLE))
        rc = receive_input(connection);
    else if (rc == 0 && (events & UV_DISCONNECT))
        rc = -1;
    if (rc == 0)
        rc = take_requests(connection);
    if (rc == 0 && !connection->is_closed && (events & UV_WRITABLE))
        rc = send_output(connection);
    if (rc < 0)
        connection_close(connection);
    else
        update_watch(connection);
}

/* What is there, at most a message's worth at once. Descriptors from clients have no meaning here. */
static int receive_input(struct connection *connection)
{
    if (connection->input_room - connection->input_bytes < 4096) {
        size_t room = connection->input_room ? connection->input_room * 2 : 16384;
        uint8_t *larger = realloc(connection->input, room);
        if (!larger)
            return -1;
        connection->input = larger;
        connection->input_room = room;
    }
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
    while (rc == 1 && !connection->is_busy && !connection->is_closed)
        rc = take_request(connection, &used);
    connection->is_taking = false;
    if (used > 0)
        memmove(connection->input, connection->input + used, connection->input_bytes - used);
    connection->input_bytes -= used;
    return rc < 0 ? -1 : 0;
}

/* Returns 1 if a request was handed on, 0 if none is complete, -1 if the peer talks nonsense. */
static int take_request(struct connection *connection, size_t *used)
{
    const uint8_t *at = connection->input + *used;
    size_t left = connection->input_bytes - *used, body;
    if (left < MESSAGE_HEADER_BYTES)
        return 0;
    if (message_body_bytes(at, &body) < 0)
        return -1;
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
        output_destroy(output);
        return -1;
    }
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
    free(connection->input);
    free(connection);
}
