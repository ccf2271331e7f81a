/* socket_queue.c - see socket_queue.h. */
#include "mpi-layer/lower/socket_queue.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define MESSAGE_BYTES (256u << 10) /* beyond the longest that a socket takes by default */
#define MESSAGES_MAX 1024
#define HEAD sizeof(uint32_t)
#define HIDDEN_MAX 64

enum found {
    FOUND_LOST,    /* it cannot be noted */
    FOUND_NOTHING, /* nothing more waits */
    FOUND_MESSAGE,
};

/* Inodes of sockets in which an empty message has been peeked at, so that the kernel shows it no more. */
static uint64_t hidden[HIDDEN_MAX];

static int get(int fd, int option)
{
    int value = 0;
    socklen_t length = sizeof value;
    getsockopt(fd, SOL_SOCKET, option, &value, &length);
    return value;
}

static void set(int fd, int option, int value)
{
    setsockopt(fd, SOL_SOCKET, option, &value, sizeof value);
}

/* ---- noting ---- */

/*
 * The next message or part of a stream, its length in *bytes. Credentials come first: no descriptor finds
 * room behind them. A message always has them, if they are wanted, the end of all messages has not.
 */
static enum found look(int fd, int flags, char *to, size_t room, size_t *bytes)
{
    struct iovec part = {to, room};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    char credentials[CMSG_SPACE(sizeof(struct ucred))];
    if (get(fd, SO_PASSCRED)) {
        message.msg_control = credentials;
        message.msg_controllen = sizeof credentials;
    }
    ssize_t got = recvmsg(fd, &message, flags | MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN ? FOUND_NOTHING : FOUND_LOST;
    *bytes = (size_t)got;
    if ((size_t)got > room || message.msg_flags & MSG_CTRUNC)
        return FOUND_LOST;
    return got > 0 || message.msg_controllen > 0 ? FOUND_MESSAGE : FOUND_NOTHING;
}

/* All of a stream. */
static size_t note_stream(const struct socket_queue *queue, size_t used)
{
    int left = 0, fd = queue->record->fd;
    if (ioctl(fd, FIONREAD, &left))
        return 0;
    for (size_t bytes; left > 0; left -= (int)bytes) {
        char *details = queue->reserve(used + HEAD + (size_t)left);
        if (!details || look(fd, MSG_PEEK, details + used + HEAD, (size_t)left, &bytes) != FOUND_MESSAGE)
            return 0;
        memcpy(details + used, &(uint32_t){(uint32_t)bytes}, HEAD);
        used += HEAD + bytes;
    }
    return used;
}

/* All messages: peeked at, or taken out. *has_empty is set if one of them is empty. */
static size_t note_messages(const struct socket_queue *queue, size_t used, int flags, bool *has_empty)
{
    int fd = queue->record->fd;
    for (int count = 0;; count++) {
        size_t bytes = 1;
        char *details = count < MESSAGES_MAX ? queue->reserve(used + HEAD + MESSAGE_BYTES) : NULL;
        enum found found =
            details ? look(fd, flags | MSG_TRUNC, details + used + HEAD, MESSAGE_BYTES, &bytes) : FOUND_LOST;
        if (found == FOUND_NOTHING)
            return used;
        *has_empty |= bytes == 0;
        if (found == FOUND_LOST)
            return 0;
        memcpy(details + used, &(uint32_t){(uint32_t)bytes}, HEAD);
        used += HEAD + bytes;
    }
}

/* Messages from the first on, also if that is empty and was peeked at. */
static size_t peek_at_messages(const struct socket_queue *queue, size_t used, bool *has_empty)
{
    int fd = queue->record->fd;
    size_t bytes = 1;
    char *details = queue->reserve(used + MESSAGE_BYTES);
    set(fd, SO_PEEK_OFF, -1);
    enum found first =
        details ? look(fd, MSG_PEEK | MSG_TRUNC, details + used, MESSAGE_BYTES, &bytes) : FOUND_LOST;
    *has_empty = first != FOUND_NOTHING && bytes == 0;
    if (first == FOUND_LOST)
        return 0;
    set(fd, SO_PEEK_OFF, 0);
    return note_messages(queue, used, MSG_PEEK, has_empty);
}

/* The place of this socket among those that hide something, or a free one; NULL: there is none. */
static uint64_t *find_hidden(uint64_t inode)
{
    for (size_t i = 0; i < HIDDEN_MAX; i++)
        if (hidden[i] == inode)
            return &hidden[i];
    return inode ? find_hidden(0) : NULL;
}

/*
 * Of an empty message the kernel notes that it was peeked at, and does not show it a second time behind
 * others. So all are taken out and sent anew.
 */
static size_t send_anew(const struct socket_queue *queue, size_t used)
{
    bool has_empty = false;
    size_t end = note_messages(queue, used, 0, &has_empty);
    char *details = queue->reserve(end ? end : used);
    return details && end && socket_queue_fill(queue->writer, details + used, end - used) ? end : 0;
}

static size_t note_packets(const struct socket_queue *queue, size_t used)
{
    int fd = queue->record->fd, wants_credentials = get(fd, SO_PASSCRED), offset = get(fd, SO_PEEK_OFF);
    uint64_t *place = find_hidden(queue->record->id.inode);
    bool has_empty = false, is_hidden = place && *place;
    set(fd, SO_PASSCRED, 1);
    size_t end = peek_at_messages(queue, used, &has_empty);
    set(fd, SO_PEEK_OFF, -1);
    if (end && has_empty && !is_hidden && queue->writer >= 0)
        end = send_anew(queue, used);
    else if (has_empty || is_hidden)
        end = 0;
    if (has_empty && !end && place)
        *place = queue->record->id.inode;
    set(fd, SO_PEEK_OFF, offset);
    set(fd, SO_PASSCRED, wants_credentials);
    return end;
}

static size_t note_parts(const struct socket_queue *queue, size_t used)
{
    int fd = queue->record->fd, offset = get(fd, SO_PEEK_OFF);
    set(fd, SO_PEEK_OFF, 0);
    used = note_stream(queue, used);
    set(fd, SO_PEEK_OFF, offset);
    return used;
}

size_t socket_queue_note(const struct socket_queue *queue, size_t used)
{
    return queue->type == SOCK_STREAM ? note_parts(queue, used) : note_packets(queue, used);
}

void socket_queue_is_empty(const struct fd_record *record)
{
    uint64_t *place = find_hidden(record->id.inode);
    if (place)
        *place = 0;
}

/* ---- filling ---- */

/*
 * Of the room for what is sent, sendfile(2) takes less for the same bytes than send(2) does: all that the
 * user may have is lent for the time. Returns the room as it was.
 */
static int lend_room(int fd)
{
    int most = INT_MAX / 2, before = get(fd, SO_SNDBUF);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &most, sizeof most))
        set(fd, SO_SNDBUF, most);
    return before / 2; /* the kernel doubles what is asked for */
}

static bool send_all(int fd, const char *from, uint64_t bytes)
{
    for (uint64_t at = 0; at + HEAD <= bytes;) {
        uint32_t length;
        memcpy(&length, from + at, HEAD);
        at += HEAD;
        if (length > bytes - at ||
            send(fd, from + at, length, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)length)
            return false;
        at += length;
    }
    return true;
}

bool socket_queue_fill(int writer, const char *from, uint64_t bytes)
{
    if (bytes == 0)
        return true;
    int room = lend_room(writer);
    bool is_filled = send_all(writer, from, bytes);
    set(writer, SO_SNDBUF, room);
    return is_filled;
}
