#include "node-agent/member/load_pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A range that comes. */
struct arrival {
    struct load_range *range;
    uint64_t got;
};

/* In a thread of the fabric's. */
static int on_bytes(void *context, uint64_t offset, const uint8_t *bytes, size_t count)
{
    struct arrival *arrival = context;
    if (offset != arrival->got || count > arrival->range->bytes - arrival->got) {
        errno = EBADMSG;
        return -1;
    }
    memcpy(arrival->range->data + arrival->got, bytes, count);
    arrival->got += count;
    return 0;
}

static void on_taken(void *context, int error)
{
    struct arrival *arrival = context;
    bool is_whole = arrival->got == arrival->range->bytes;
    load_came(arrival->range, error ? error : is_whole ? 0 : EBADMSG);
    free(arrival);
}

int load_pages_offered(struct load *load, uint64_t offset, uint64_t bytes, uint64_t most_bytes,
                       struct transfer_intake *intake)
{
    struct load_range *range = load_find(load, offset, bytes);
    if (!range || most_bytes != bytes)
        return EPERM;
    struct arrival *arrival = calloc(1, sizeof *arrival);
    if (!arrival) {
        load_fail(load, "out of memory");
        return ENOMEM;
    }
    arrival->range = range;
    load_hold(range);
    *intake = (struct transfer_intake){.take = on_bytes, .done = on_taken, .context = arrival};
    return 0;
}
