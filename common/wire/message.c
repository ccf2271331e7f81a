#include "common/wire/message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static int send_all(int sock, const uint8_t *bytes, size_t count, const int *fds, unsigned fd_count);
static int receive_all(int sock, uint8_t *bytes, size_t count);
static ssize_t receive_header(int sock, uint8_t *header, int *fds, unsigned *fd_count);

uint8_t *message_pack(const ProtobufCMessage *message, size_t *bytes)
{
    size_t body = protobuf_c_message_get_packed_size(message);
    if (body > MESSAGE_MAX_BYTES) {
        errno = EMSGSIZE;
        return NULL;
    }
    uint8_t *frame = malloc(MESSAGE_HEADER_BYTES + body);
    if (!frame)
        return NULL;
    for (int i = 0; i < MESSAGE_HEADER_BYTES; i++)
        frame[i] = (uint8_t)(body >> (8 * i));
    protobuf_c_message_pack(message, frame + MESSAGE_HEADER_BYTES);
    *bytes = MESSAGE_HEADER_BYTES + body;
    return frame;
}

int message_body_bytes(const uint8_t header[MESSAGE_HEADER_BYTES], size_t *bytes)
{
    uint32_t body = 0;
    for (int i = 0; i < MESSAGE_HEADER_BYTES; i++)
        body |= (uint32_t)header[i] << (8 * i);
    if (body > MESSAGE_MAX_BYTES) {
        errno = EBADMSG;
        return -1;
    }
    *bytes = body;
    return 0;
}

ssize_t message_sendmsg(int sock, const void *bytes, size_t count, const int *fds, unsigned fd_count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(MESSAGE_MAX_FDS * sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = count};
    struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd_count) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(cmsg), fds, fd_count * sizeof(int));
    }
    ssize_t sent;
    do {
        sent = sendmsg(sock, &msg, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent;
}

int message_send(int sock, const ProtobufCMessage *message, const int *fds, unsigned fd_count,
                 struct belay_error *err)
{
    if (fd_count > MESSAGE_MAX_FDS)
        return belay_error_set(err, EINVAL, "a message cannot carry %u descriptors", fd_count);
    size_t bytes = 0;
    uint8_t *frame = message_pack(message, &bytes);
    if (!frame)
        return belay_error_errno(err, "cannot encode a message");
    int rc = send_all(sock, frame, bytes, fds, fd_count);
    int code = errno;
    free(frame);
    errno = code;
    return rc < 0 ? belay_error_errno(err, "cannot send a message") : 0;
}

ssize_t message_receive(int sock, uint8_t **bytes, int *fds, unsigned *fd_count, struct belay_error *err)
{
    uint8_t header[MESSAGE_HEADER_BYTES];
    int came[MESSAGE_MAX_FDS];
    unsigned came_count = 0;
    size_t body = 0;
    uint8_t *buffer = NULL;

    *bytes = NULL;
    ssize_t got = receive_header(sock, header, came, &came_count);
    if (got == 0)
        return 0;
    if (got < 0 || message_body_bytes(header, &body) < 0)
        goto fail;
    if (body == 0) { /* an empty message says nothing, and 0 means the end here */
        errno = EBADMSG;
        goto fail;
    }
    buffer = malloc(body);
    if (!buffer || receive_all(sock, buffer, body) < 0)
        goto fail;
    for (unsigned i = 0; !fds && i < came_count; i++)
        close(came[i]);
    if (fds) {
        memcpy(fds, came, came_count * sizeof *came);
        *fd_count = came_count;
    } else if (fd_count) {
        *fd_count = 0;
    }
    *bytes = buffer;
    return (ssize_t)body;
fail:
    belay_error_errno(err,
                      errno == EBADMSG ? "the peer sent a malformed message" : "cannot receive a message");
    int code = errno;
    for (unsigned i = 0; i < came_count; i++)
        close(came[i]);
    free(buffer);
    errno = code;
    return -1;
}

unsigned message_take_fds(struct msghdr *msg, int fds[MESSAGE_MAX_FDS])
{
    unsigned count = 0;
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
        if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
            continue;
        unsigned here = (unsigned)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (unsigned i = 0; i < here; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof fd, sizeof fd);
            if (count < MESSAGE_MAX_FDS)
                fds[count++] = fd;
            else
                close(fd);
        }
    }
    return count;
}

static int send_all(int sock, const uint8_t *bytes, size_t count, const int *fds, unsigned fd_count)
{
    while (count > 0) {
        ssize_t sent = message_sendmsg(sock, bytes, count, fds, fd_count);
        if (sent < 0)
            return -1;
        bytes += sent;
        count -= (size_t)sent;
        fd_count = 0;
    }
    return 0;
}

static int receive_all(int sock, uint8_t *bytes, size_t count)
{
    while (count > 0) {
        ssize_t got = recv(sock, bytes, count, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = EBADMSG; /* ends inside a message */
        if (got <= 0)
            return -1;
        bytes += got;
        count -= (size_t)got;
    }
    return 0;
}

/* The first byte carries the descriptors. Returns the header's size, 0 at the end, or -1. */
static ssize_t receive_header(int sock, uint8_t *header, int *fds, unsigned *fd_count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(MESSAGE_MAX_FDS * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = header, .iov_len = MESSAGE_HEADER_BYTES};
    struct msghdr msg = {.msg_iov = &part,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof control.bytes};
    ssize_t got;
    do {
        got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got <= 0)
        return got;
    *fd_count = message_take_fds(&msg, fds);
    if (msg.msg_flags & MSG_CTRUNC) { /* not all of them could be taken */
        errno = EMFILE;
        return -1;
    }
    if (receive_all(sock, header + got, MESSAGE_HEADER_BYTES - (size_t)got) < 0)
        return -1;
    return MESSAGE_HEADER_BYTES;
}
