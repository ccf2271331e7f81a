#include "node-agent/job/streams.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/wire/descriptor.h"
#include "common/wire/streams.h"

static void name_of(const char *job, char name[KEEPER_NAME_BYTES])
{
    snprintf(name, KEEPER_NAME_BYTES, "%s/streams", job);
}

int streams_create(struct streams_holder *streams, struct keeper *keeper, const char *job,
                   struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    const struct streams head = {.magic = STREAMS_MAGIC, .version = STREAMS_VERSION};
    name_of(job, name);
    streams->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    streams->fd = descriptor_make_memory("belay-streams", STREAMS_BYTES, err);
    if (streams->fd < 0)
        return -1;
    if (streams->wake_fd < 0 || pwrite(streams->fd, &head, sizeof head, 0) != sizeof head)
        return belay_error_errno(err, "cannot make memory for standard streams");
    return keeper_put(keeper, name, streams->fd, err);
}

int streams_adopt(struct streams_holder *streams, int fd, struct belay_error *err)
{
    streams->fd = fd;
    streams->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return belay_error_set(err, ENOENT, "it has no record of its standard streams");
    if (descriptor_check_memory(fd, STREAMS_BYTES, "the record of its standard streams", err) < 0)
        return -1;
    return streams->wake_fd < 0 ? belay_error_errno(err, "cannot make an eventfd") : 0;
}

int streams_set_ranks(struct streams_holder *streams, uint32_t ranks, struct belay_error *err)
{
    const off_t at = (off_t)offsetof(struct streams, ranks);
    return pwrite(streams->fd, &ranks, sizeof ranks, at) == sizeof ranks
               ? 0
               : belay_error_errno(err, "cannot write to the memory of standard streams");
}

int streams_ends(const struct streams_holder *streams, uint32_t rank,
                 struct stream_end ends[STREAMS_PER_RANK])
{
    struct streams_rank slot;
    if (pread(streams->fd, &slot, sizeof slot, (off_t)STREAMS_SLOT(rank)) != sizeof slot)
        return -1;
    for (int i = 0; i < STREAMS_PER_RANK; i++)
        ends[i] = stream_end_now(&slot.streams[i]);
    return 0;
}

int streams_set_ends(const struct streams_holder *streams, uint32_t rank,
                     const struct stream_end ends[STREAMS_PER_RANK])
{
    struct streams_rank slot = {0};
    for (int i = 0; i < STREAMS_PER_RANK; i++)
        slot.streams[i] = (struct stream){.ends = {ends[i], ends[i]}, .taken = ends[i].bytes};
    return pwrite(streams->fd, &slot, sizeof slot, (off_t)STREAMS_SLOT(rank)) == sizeof slot ? 0 : -1;
}

void streams_release(struct streams_holder *streams, struct keeper *keeper, const char *job)
{
    char name[KEEPER_NAME_BYTES];
    name_of(job, name);
    if (streams->fd >= 0) {
        keeper_drop(keeper, name, NULL);
        close(streams->fd);
    }
    if (streams->wake_fd >= 0)
        close(streams->wake_fd);
    *streams = STREAMS_NONE;
}
