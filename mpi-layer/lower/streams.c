/* streams.c - see streams.h. */
#include "mpi-layer/lower/streams.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_stream.h"

#define FIRST_PTY_MAJOR 136
#define LAST_PTY_MAJOR 143

/* What a launcher connects a rank by. A file, or /dev/null, is no stream of a launcher's. */
static bool is_channel(const struct stat *st)
{
    unsigned driver = major(st->st_rdev);
    bool is_terminal = S_ISCHR(st->st_mode) && driver >= FIRST_PTY_MAJOR && driver <= LAST_PTY_MAJOR;
    return S_ISFIFO(st->st_mode) || S_ISSOCK(st->st_mode) || is_terminal;
}

/* The launcher's stream `fd`, unless something else is there by now. */
static struct vk_stream_id identify(int fd)
{
    struct stat st;
    unsigned long ids[6];
    const char *noted = getenv("BELAY_STREAMS");
    struct vk_stream_id none = {0, 0};
    if (fstat(fd, &st) || !is_channel(&st))
        return none;
    if (noted &&
        sscanf(noted, "%lx:%lx %lx:%lx %lx:%lx", &ids[0], &ids[1], &ids[2], &ids[3], &ids[4], &ids[5]) == 6 &&
        (ids[2 * fd] != st.st_dev || ids[2 * fd + 1] != st.st_ino))
        return none;
    return (struct vk_stream_id){st.st_dev, st.st_ino};
}

int streams_start(struct rank *rank, struct belay_error *err)
{
    const int access = PROT_READ | PROT_WRITE;
    void *head = mmap(NULL, STREAMS_PAGE_BYTES, access, MAP_SHARED, rank->streams_fd, 0);
    void *slot =
        mmap(NULL, STREAMS_SLOT_BYTES, access, MAP_SHARED, rank->streams_fd, (off_t)STREAMS_SLOT(rank->rank));
    vk_fd_close_own(rank->streams_fd);
    if (head == MAP_FAILED || slot == MAP_FAILED)
        return belay_error_errno(err, "cannot map the memory of standard streams");
    struct vk_streams streams = {
        .shared = head,
        .slot = slot,
        .wake_fd = rank->wake_fd,
        .is_forwarded = rank->is_output_forwarded,
        .input = identify(STDIN_FILENO),
        .outputs = {identify(STDOUT_FILENO), identify(STDERR_FILENO)},
        .rank = rank->rank,
        .epoch = rank->epoch,
    };
    if (streams.shared->magic != STREAMS_MAGIC || streams.shared->version != STREAMS_VERSION)
        return belay_error_set(err, EPROTO,
                               "the agent is of another version; end its jobs and start it anew");
    vk_stream_start(&streams);
    return 0;
}
