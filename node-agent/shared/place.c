#include "node-agent/shared/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/image/shared.h"

#define STEP_BYTES (2ull << 20)

/* Of the image's address space: taken in ascending order. */
struct taken {
    uint64_t address, end;
};

static void keep_places(const struct places *former, struct objects *objects);
static int compare_taken(const void *left, const void *right);
static size_t list_taken(const struct objects *objects, struct taken *taken);
static int find_places(struct objects *objects, const struct taken *taken, size_t count,
                       struct belay_error *err);
static uint64_t room_for(const struct object *object);
static int compare_addresses(struct object *one, struct object *other);

void places_release(struct places *places)
{
    int code = errno;
    free(places->all);
    *places = (struct places){0};
    errno = code;
}

int places_assign(const struct places *former, struct objects *objects, struct belay_error *err)
{
    struct taken *taken = calloc(objects_count(objects) + 1, sizeof *taken);
    if (!taken)
        return belay_error_errno(err, "cannot place shared memory in an image");
    keep_places(former, objects);
    size_t count = list_taken(objects, taken);
    int rc = find_places(objects, taken, count, err);
    free(taken);
    HASH_SORT(objects->all, compare_addresses);
    return rc;
}

int places_note(const struct objects *objects, struct places *to)
{
    struct places made = {.all = calloc(objects_count(objects) + 1, sizeof *made.all)};
    if (!made.all)
        return -1;
    for (const struct object *object = objects->all; object; object = object->hh.next)
        made.all[made.count++] =
            (struct place){object->key, object->record.address, object->record.room_bytes};
    places_release(to);
    *to = made;
    return 0;
}

static void keep_places(const struct places *former, struct objects *objects)
{
    for (size_t i = 0; i < former->count; i++) {
        const struct place *place = &former->all[i];
        struct object *object = objects_find(objects, &place->key);
        if (!object || object->content.bytes > place->bytes)
            continue;
        object->record.address = place->address;
        object->record.room_bytes = place->bytes;
    }
}

static int compare_taken(const void *left, const void *right)
{
    const struct taken *one = left, *other = right;
    return one->address < other->address ? -1 : one->address > other->address ? 1 : 0;
}

static size_t list_taken(const struct objects *objects, struct taken *taken)
{
    size_t count = 0;
    for (const struct object *object = objects->all; object; object = object->hh.next)
        if (object->record.address)
            taken[count++] =
                (struct taken){object->record.address, object->record.address + object->record.room_bytes};
    qsort(taken, count, sizeof *taken, compare_taken);
    return count;
}

/* The first gap behind the one that was used last. */
static int find_places(struct objects *objects, const struct taken *taken, size_t count,
                       struct belay_error *err)
{
    uint64_t at = SHARED_CONTENTS_ADDRESS;
    size_t next = 0;
    for (struct object *object = objects->all; object; object = object->hh.next) {
        uint64_t bytes = room_for(object);
        if (object->record.address)
            continue;
        while (next < count && (taken[next].address < at || taken[next].address - at < bytes)) {
            at = taken[next].end > at ? taken[next].end : at;
            next++;
        }
        if (bytes > UPPER_END - at)
            return belay_error_set(err, ENOMEM,
                                   "shared memory of %.1f GiB ('%.200s') does not fit into an image",
                                   object->content.bytes / (double)(1 << 30), object->path);
        object->record.address = at;
        object->record.room_bytes = bytes;
        at += bytes;
    }
    return 0;
}

/* Some things grow. */
static uint64_t room_for(const struct object *object)
{
    uint64_t bytes = object->content.bytes, limit = UPPER_END - SHARED_CONTENTS_ADDRESS;
    if (bytes > limit)
        return UINT64_MAX;
    uint64_t room = (bytes + STEP_BYTES) / STEP_BYTES * STEP_BYTES;
    return object->key.kind == SHARED_MESSAGES ? room + STEP_BYTES : room;
}

static int compare_addresses(struct object *one, struct object *other)
{
    return one->record.address < other->record.address ? -1 : one->record.address > other->record.address;
}
