#include "relay/local.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/wire/message.h"

/* A message that waits to be sent. */
struct outgoing {
    struct outgoing *next;
    size_t done, count;
    int fds[LOCAL_FDS];
    unsigned fd_count;
    uint8_t bytes[];
};

struct local {
    int sock;
    uint32_t channel;
    struct outgoing *first, **last;
    uint8_t header[MESSAGE_HEADER_BYTES]; /* of the message that comes */
    size_t header_done;
    uint8_t *body;
    size_t body_done, body_count;
    int fds[LOCAL_FDS]; /* that have come with it */
    unsigned fd_count;
};

static void close_all(const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        close(fds[i]);
}

struct local *local_create(int sock, uint32_t channel)
{
    struct local *local = calloc(1, sizeof *local);
    if (!local) {
        close(sock);
        return NULL;
    }
    local->sock = sock;
    fcntl(sock, F_SETFL, fcntl(sock, F_GETFL) | O_NONBLOCK);
    local->channel = channel;
    local->last = &local->first;
    return local;
}

static void drop_first(struct local *local)
{
    struct outgoing *first = local->first;
    local->first = first->next;
    if (!local->first)
        local->last = &local->first;
    close_all(first->fds, first->fd_count);
    free(first);
}

void local_destroy(struct local *local)
{
    if (!local)
        return;
    while (local->first)
        drop_first(local);
    close_all(local->fds, local->fd_count);
    free(local->body);
    close(local->sock);
    free(local);
}

uint32_t local_channel(const struct local *local)
{
    return local->channel;
}

int local_fd(const struct local *local)
{
    return local->sock;
}

short local_events(const struct local *local)
{
    return local->first ? POLLIN | POLLOUT : POLLIN;
}

int local_put(struct local *local, const uint8_t *bytes, size_t count, const int *fds, unsigned fd_count)
{
    struct outgoing *out = count <= MESSAGE_MAX_BYTES && fd_count <= LOCAL_FDS
                               ? malloc(sizeof *out + MESSAGE_HEADER_BYTES + count)
                               : NULL;
    if (!out)
        return -1;
    *out = (struct outgoing){.count = MESSAGE_HEADER_BYTES + count};
    for (unsigned i = 0; i < MESSAGE_HEADER_BYTES; i++)
        out->bytes[i] = (uint8_t)(count >> (8 * i));
    memcpy(out->bytes + MESSAGE_HEADER_BYTES, bytes, count);
    for (unsigned i = 0; i < fd_count; i++) {
        int fd = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
        if (fd < 0) {
            close_all(out->fds, out->fd_count);
            free(out);
            return -1;
        }
        out->fds[out->fd_count++] = fd;
    }
    *local->last = out;
    local->last = &out->next;
    return local_flush(local);
}

int local_flush(struct local *local)
{
    while (local->first) {
        struct outgoing *out = local->first;
        unsigned fd_count = out->done == 0 ? out->fd_count : 0;
        ssize_t sent =
            message_sendmsg(local->sock, out->bytes + out->done, out->count - out->done, out->fds, fd_count);
        if (sent < 0)
            return errno == EAGAIN ? 0 : -1;
        out->done += (size_t)sent;
        if (out->done == out->count)
            drop_first(local);
    }
    return 0;
}

/* More than a message may bring are closed. */
static void keep_fds(struct local *local, struct msghdr *msg)
{
    int came[MESSAGE_MAX_FDS];
    unsigned count = message_take_fds(msg, came);
    for (unsigned i = 0; i < count; i++) {
        if (local->fd_count < LOCAL_FDS)
            local->fds[local->fd_count++] = came[i];
        else
            close(came[i]);
    }
}

/* Up to the end of a header or body, so that descriptors belong to what is read. Returns 1, 0 or -1. */
static int read_part(struct local *local, uint8_t *bytes, size_t *done, size_t count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(MESSAGE_MAX_FDS * sizeof(int))];
    } control;
    while (*done < count) {
        struct iovec part = {.iov_base = bytes + *done, .iov_len = count - *done};
        struct msghdr msg = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
        ssize_t got = recvmsg(local->sock, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno == EAGAIN ? 0 : -1;
        keep_fds(local, &msg);
        if (got == 0) {
            errno = ECONNRESET;
            return -1;
        }
        *done += (size_t)got;
    }
    return 1;
}

static void forget_taken(struct local *local)
{
    if (!local->body || local->body_done < local->body_count)
        return;
    free(local->body);
    local->body = NULL;
    local->header_done = local->body_done = local->body_count = 0;
}

int local_take(struct local *local, struct local_message *message)
{
    forget_taken(local);
    int rc = read_part(local, local->header, &local->header_done, MESSAGE_HEADER_BYTES);
    if (rc <= 0)
        return rc;
    if (!local->body) {
        if (message_body_bytes(local->header, &local->body_count) < 0)
            return -1;
        if (local->body_count == 0) {
            errno = EBADMSG;
            return -1;
        }
        local->body = malloc(local->body_count);
        if (!local->body)
            return -1;
    }
    rc = read_part(local, local->body, &local->body_done, local->body_count);
    if (rc <= 0)
        return rc;
    *message =
        (struct local_message){.bytes = local->body, .count = local->body_count, .fd_count = local->fd_count};
    memcpy(message->fds, local->fds, sizeof local->fds);
    local->fd_count = 0;
    return 1;
}
