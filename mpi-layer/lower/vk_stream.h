/*
 * vk_stream.h - standard streams of the application: output that is neither lost nor repeated by a restart,
 * input that goes on where it was (common/wire/streams.h).
 *
 * A descriptor is a standard stream if it is the pipe, terminal or socket that the launcher gave the rank as
 * such, under whatever number. If the program (or a script before it) has put something else there, that is
 * not looked at here.
 */
#ifndef BELAY_MPI_LAYER_LOWER_VK_STREAM_H
#define BELAY_MPI_LAYER_LOWER_VK_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "common/wire/streams.h"

/* What identifies an open file, 0 0: none. */
struct vk_stream_id {
    uint64_t device, inode;
};

struct vk_streams {
    struct streams *shared;    /* NULL: there is none, streams are left alone */
    struct streams_rank *slot; /* of this rank, with its rings behind */
    long wake_fd;
    bool is_forwarded;         /* output goes to the rings */
    struct vk_stream_id input; /* rank 0's only */
    struct vk_stream_id outputs[STREAMS_PER_RANK];
    uint32_t rank, epoch;
};

/* Once in each process, before the application runs. */
void vk_stream_start(const struct vk_streams *streams);

/* Rank 0: the application goes on with its input from the position that its image (or 0) says. */
void vk_stream_go_on(void);

/* The program is about to be replaced: give the arbiter a moment to take what has been written. */
void vk_stream_flush(void);

/* Which output stream an open file is, 0 or 1; -1: none. */
struct stat;
int vk_stream_of(const struct stat *st);

/* Serve write(2) or writev(2) on output stream `which`, in the handler of a trap. */
void vk_stream_write(ucontext_t *context, long nr, int which);
/*
 * The same elsewhere, with all signals blocked and the arguments as of the call. False: it has to wait, and
 * is to be made by a trap, with the stack pointer `rsp`, where vk_stream_write() goes on with it.
 */
bool vk_stream_write_at_once(long nr, long fd, long data, long count, int which, uint64_t rsp, long *result);
/* It was not done, and a handler of the application is to run before its trap: *result is what was done. */
bool vk_stream_is_ended(long *result);

/* Is a descriptor the job's standard input? Only rank 0 has it. */
bool vk_stream_is_input(long fd);
/* Serve read(2) or readv(2) on it. */
void vk_stream_read(ucontext_t *context, long nr);

#endif
