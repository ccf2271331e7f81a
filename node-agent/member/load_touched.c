#include "node-agent/member/load_touched.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "node-agent/member/fetch_note.h"

struct set {
    struct load *load;
    uint64_t bytes, got;
    struct fetch_touched parts[];
};

/* In a thread of the fabric's. */
static int on_bytes(void *context, uint64_t offset, const uint8_t *bytes, size_t count)
{
    struct set *set = context;
    if (offset != set->got || count > set->bytes - set->got) {
        errno = EBADMSG;
        return -1;
    }
    memcpy((uint8_t *)set->parts + set->got, bytes, count);
    set->got += count;
    return 0;
}

/* Without it, or with a part of it, the image comes as well. Ranges ascend: no unit is looked at more often
 * than twice, whatever comes. */
static void on_taken(void *context, int error)
{
    struct set *set = context;
    uint64_t count = error ? 0 : set->got / sizeof set->parts[0], last = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t start = set->parts[i].address, bytes = set->parts[i].bytes;
        if (start < last)
            continue;
        last = bytes <= UINT64_MAX - start ? start + bytes : UINT64_MAX;
        load_prefer(set->load, start, last);
    }
    load_go_on(set->load);
    load_unref(set->load);
    free(set);
}

int load_touched_offered(struct load *load, uint64_t bytes, struct transfer_intake *intake)
{
    if (bytes == 0 || bytes % sizeof(struct fetch_touched) ||
        bytes / sizeof(struct fetch_touched) > FETCH_TOUCHED_MAX || !load_begin_touched(load))
        return EPERM;
    struct set *set = calloc(1, sizeof *set + bytes);
    if (!set)
        return ENOMEM;
    set->load = load_ref(load);
    set->bytes = bytes;
    *intake = (struct transfer_intake){.take = on_bytes, .done = on_taken, .context = set};
    return 0;
}
