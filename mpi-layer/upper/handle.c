/* handle.c - see handle.h. */
#include "mpi-layer/upper/handle.h"

#include <string.h>

#include "mpi-layer/fortran/numbers.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/datatype.h"
#include "mpi-layer/upper/errhandler.h"
#include "mpi-layer/upper/half.h"
#include "mpi-layer/upper/op.h"

#define BUCKETS 512 /* for about 150 predefined handles */
#define MAX_PREDEFINED 400

struct bucket_entry {
    struct handle *handle;
    struct bucket_entry *next;
};

static struct bucket_entry *buckets[BUCKETS];
static struct bucket_entry entries[MAX_PREDEFINED];
static struct handle *first, *last; /* list of the others */

static unsigned bucket_of(const void *real)
{
    return (unsigned)(((uintptr_t)real >> 4) * 2654435761u >> 20) % BUCKETS;
}

void handle_bind_predefined(void)
{
    memset(buckets, 0, sizeof buckets);
    for (size_t i = 0; i < predefined_handle_count && i < MAX_PREDEFINED; i++) {
        const struct predefined_handle *p = &predefined_handles[i];
        struct handle *handle = p->object;
        unsigned long upper = lower_enter();
        void *real = GATE->symbol(p->symbol);
        lower_leave(upper);
        handle->real = real;
        handle->kind = p->kind;
        handle->is_predefined = 1;
        entries[i] = (struct bucket_entry){handle, buckets[bucket_of(real)]};
        buckets[bucket_of(real)] = &entries[i];
    }
}

static struct handle *find_predefined(enum handle_kind kind, const void *real)
{
    for (const struct bucket_entry *e = buckets[bucket_of(real)]; e; e = e->next)
        if (e->handle->real == real && e->handle->kind == kind)
            return e->handle;
    return NULL;
}

struct handle *handle_find(enum handle_kind kind, const void *real)
{
    struct handle *found = find_predefined(kind, real);
    for (struct handle *h = last; !found && h; h = h->previous)
        if (h->real == real && h->kind == kind)
            found = h;
    return found;
}

void *handle_new(enum handle_kind kind, void *real)
{
    struct handle *handle = find_predefined(kind, real);
    if (handle)
        return handle;
    handle = arena_alloc(sizeof *handle);
    if (!handle)
        return NULL;
    handle->real = real;
    handle->kind = kind;
    handle->references = handle->held = 1;
    handle->previous = last;
    *(last ? &last->next : &first) = handle;
    last = handle;
    return handle;
}

static void unlink_handle(struct handle *handle)
{
    *(handle->previous ? &handle->previous->next : &first) = handle->next;
    *(handle->next ? &handle->next->previous : &last) = handle->previous;
}

void handle_unref(void *handle)
{
    struct handle *h = handle;
    if (!h || h->is_predefined || --h->references)
        return;
    if (h->kind == HANDLE_DATATYPE)
        datatype_forget(h);
    else if (h->kind == HANDLE_OP)
        op_forget(h);
    else if (h->kind == HANDLE_ERRHANDLER)
        errhandler_forget(h);
    numbers_drop(h->kind, h->number);
    unlink_handle(h);
    arena_free(h->name);
    arena_free(h->record);
    arena_free(h);
}

void handle_release(enum handle_kind kind, void *handle)
{
    struct handle *h = handle;
    (void)kind;
    if (h && !h->is_predefined && h->held) {
        h->held--;
        handle_unref(h);
    }
}

int handle_set_name(void *handle, const char *name)
{
    struct handle *h = handle;
    size_t bytes = strlen(name) + 1;
    char *copy = arena_alloc(bytes);
    if (!copy)
        return -1;
    memcpy(copy, name, bytes);
    arena_free(h->name);
    h->name = copy;
    return 0;
}

struct handle *handle_first(void)
{
    return first;
}
