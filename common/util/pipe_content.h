/*
 * pipe_content.h - the content of a pipe, read without taking it out, and put into another pipe.
 *
 * The content is kept in pieces: a pipe that is written with O_DIRECT holds packets (pipe(2)), and each read
 * gets one packet. Only reads tell the length of a packet: plain bytes in front of a packet are taken for a
 * part of the packet.
 */
#ifndef BELAY_COMMON_UTIL_PIPE_CONTENT_H
#define BELAY_COMMON_UTIL_PIPE_CONTENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* In front of the bytes of each piece. */
struct pipe_piece {
    uint32_t bytes;
    uint32_t is_packet;
};

/*
 * The pieces in the pipe to *pieces, which the caller frees; `fd` is any end of it. Returns their bytes all
 * together, 0 with *pieces NULL if the pipe is empty, or -1 with errno. It never waits.
 */
ssize_t pipe_content_read(int fd, char **pieces);

/*
 * Put pieces into an empty pipe with as much room, whose writing end does not wait. Returns 0, or -1 with
 * errno.
 */
int pipe_content_write(int writer, const char *pieces, size_t bytes);

#endif
