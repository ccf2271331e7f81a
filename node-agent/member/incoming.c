#include "node-agent/member/incoming.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/image/image.h"

int incoming_begin(struct incoming *incoming, struct belay_error *err)
{
    *incoming = (struct incoming){.fd = image_make_memfd(err)};
    return incoming->fd < 0 ? -1 : 0;
}

static bool is_in_file(const struct part_range *range)
{
    uint64_t end = image_end();
    return range->offset <= end && range->bytes <= end - range->offset;
}

/* Returns how many bytes were used, or -1 with errno. */
static ssize_t take_some(struct incoming *incoming, const uint8_t *bytes, size_t count)
{
    struct part_range *range = &incoming->range;
    if (incoming->got < sizeof *range) {
        size_t left = sizeof *range - incoming->got, used = left < count ? left : count;
        memcpy((uint8_t *)range + incoming->got, bytes, used);
        if (used < left || is_in_file(range))
            return (ssize_t)used;
        errno = EBADMSG;
        return -1;
    }
    uint64_t at = incoming->got - sizeof *range, left = range->bytes - at;
    return pwrite(incoming->fd, bytes, left < count ? left : count, (off_t)(range->offset + at));
}

int incoming_take(struct incoming *incoming, const uint8_t *bytes, size_t count)
{
    while (count > 0) {
        ssize_t used = take_some(incoming, bytes, count);
        if (used < 0 && errno == EINTR)
            continue;
        if (used <= 0)
            return -1;
        incoming->got += (uint64_t)used;
        bytes += used;
        count -= (size_t)used;
        if (incoming->got >= sizeof incoming->range &&
            incoming->got == sizeof incoming->range + incoming->range.bytes)
            incoming->got = 0;
    }
    return 0;
}

bool incoming_is_whole(const struct incoming *incoming)
{
    return incoming->got == 0;
}

void incoming_end(struct incoming *incoming)
{
    if (incoming->fd >= 0)
        close(incoming->fd);
    incoming->fd = -1;
}
