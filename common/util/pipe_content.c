/* pipe_content.c - see pipe_content.h. tee(2) leaves what a pipe holds where it is. */
#include "common/util/pipe_content.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/util/array.h"

struct pieces {
    char *text;
    size_t bytes, room;
};

static int held(int fd)
{
    int bytes = 0;
    return ioctl(fd, FIONREAD, &bytes) ? -1 : bytes;
}

/* Only a reading end can be copied from. What is opened for it does not wait for a writer. */
static int open_reader(int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

static bool is_reader(int fd)
{
    return (fcntl(fd, F_GETFL) & O_ACCMODE) != O_WRONLY;
}

static void close_both(int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

/* A pipe with as much room. */
static int make_scratch(int like, int scratch[2])
{
    int room = fcntl(like, F_GETPIPE_SZ);
    if (room < 0 || pipe2(scratch, O_CLOEXEC | O_NONBLOCK))
        return -1;
    if (fcntl(scratch[1], F_GETPIPE_SZ) >= room || fcntl(scratch[1], F_SETPIPE_SZ, room) >= room)
        return 0;
    close_both(scratch);
    return -1;
}

static void set_head(struct pieces *to, size_t at, size_t bytes, bool is_packet)
{
    const struct pipe_piece piece = {(uint32_t)bytes, is_packet};
    memcpy(to->text + at, &piece, sizeof piece);
}

/* One more piece with what a single read gets. Its bytes, or -1. */
static ssize_t read_piece(int fd, size_t left, struct pieces *to)
{
    const size_t head = sizeof(struct pipe_piece);
    if (array_reserve(&to->text, to->bytes + head + left, &to->room) < 0)
        return -1;
    ssize_t got = read(fd, to->text + to->bytes + head, left);
    if (got <= 0)
        return -1;
    set_head(to, to->bytes, (size_t)got, (size_t)got < left);
    to->bytes += head + (size_t)got;
    return got;
}

/*
 * Is the last piece, from `offset` on, a packet, too? A read of its first byte takes all of a packet away.
 * One of a single byte is what the piece before it is.
 */
static bool is_last_packet(int fd, const int scratch[2], size_t offset, size_t bytes, bool is_behind_packet)
{
    char text[PIPE_BUF];
    if (bytes == 1 || bytes > sizeof text)
        return bytes == 1 && is_behind_packet;
    if (tee(fd, scratch[1], offset + bytes, SPLICE_F_NONBLOCK) != (ssize_t)(offset + bytes))
        return false;
    for (ssize_t got; offset > 0; offset -= (size_t)got) {
        got = read(scratch[0], text, offset < sizeof text ? offset : sizeof text);
        if (got <= 0)
            return false;
    }
    return read(scratch[0], text, 1) == 1 && held(scratch[0]) == 0;
}

static ssize_t copy_pieces(int fd, int bytes, struct pieces *to)
{
    int scratch[2];
    size_t last = 0;
    ssize_t got = 0;
    bool is_packet = false;
    if (make_scratch(fd, scratch))
        return -1;
    ssize_t copied = tee(fd, scratch[1], (size_t)bytes, SPLICE_F_NONBLOCK), left = copied;
    for (; left > 0; left -= got) {
        is_packet = got > 0;
        last = to->bytes;
        got = read_piece(scratch[0], (size_t)left, to);
        if (got < 0)
            break;
    }
    if (copied > 0 && left == 0 &&
        is_last_packet(fd, scratch, (size_t)(copied - got), (size_t)got, is_packet))
        set_head(to, last, (size_t)got, true);
    close_both(scratch);
    return copied < 0 || left > 0 ? -1 : (ssize_t)to->bytes;
}

ssize_t pipe_content_read(int fd, char **pieces)
{
    struct pieces to = {NULL, 0, 0};
    int bytes = held(fd);
    *pieces = NULL;
    if (bytes <= 0)
        return bytes;
    int reader = is_reader(fd) ? fd : open_reader(fd);
    ssize_t got = reader < 0 ? -1 : copy_pieces(reader, bytes, &to);
    if (reader >= 0 && reader != fd)
        close(reader);
    if (got < 0)
        free(to.text);
    else
        *pieces = to.text;
    return got;
}

static int write_piece(int writer, int flags, const struct pipe_piece *piece, const char *bytes)
{
    if (fcntl(writer, F_SETFL, piece->is_packet ? flags | O_DIRECT : flags & ~O_DIRECT))
        return -1;
    return write(writer, bytes, piece->bytes) == (ssize_t)piece->bytes ? 0 : -1;
}

int pipe_content_write(int writer, const char *pieces, size_t bytes)
{
    struct pipe_piece piece;
    int flags = fcntl(writer, F_GETFL), result = 0;
    for (size_t at = 0; result == 0 && at + sizeof piece <= bytes; at += sizeof piece + piece.bytes) {
        memcpy(&piece, pieces + at, sizeof piece);
        if (piece.bytes > bytes - at - sizeof piece)
            piece.bytes = (uint32_t)(bytes - at - sizeof piece);
        result = write_piece(writer, flags, &piece, pieces + at + sizeof piece);
    }
    fcntl(writer, F_SETFL, flags);
    return result;
}
