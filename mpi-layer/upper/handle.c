/* handle.c - see handle.h. */
#include "mpi-layer/upper/handle.h"

#include <string.h>

#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/half.h"

#define BUCKETS 512 /* for about 150 predefined handles */
#define MAX_PREDEFINED 400
#define KINDS (HANDLE_WIN + 1)

struct bucket_entry {
    struct handle *handle;
    struct bucket_entry *next;
};

static struct bucket_entry *buckets[BUCKETS];
static struct bucket_entry entries[MAX_PREDEFINED];
static struct {
    struct handle *first, *last;
} lists[KINDS]; /* of the others */

static struct table by_real; /* those of them that are asked for by their real twins */

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

/* ---- finding ours for a real one ---- */

static bool is_asked_for(const struct handle *handle)
{
    return handle->real && (handle->kind == HANDLE_COMM || handle->kind == HANDLE_DATATYPE ||
                            handle->kind == HANDLE_ERRHANDLER);
}

static void index_add(struct handle *handle)
{
    if (is_asked_for(handle))
        table_add(&by_real, &handle->entry, table_mix((uintptr_t)handle->real));
}

static void index_remove(struct handle *handle)
{
    if (is_asked_for(handle))
        table_remove(&by_real, &handle->entry);
}

void handle_set_real(struct handle *handle, void *real)
{
    index_remove(handle);
    handle->real = real;
    index_add(handle);
}

void handle_find_again(void)
{
    table_clear(&by_real);
    for (int kind = 0; kind < KINDS; kind++)
        for (struct handle *h = lists[kind].first; h; h = h->next)
            index_add(h);
}

/* The newest one: the library may have given an old one's address to it. */
struct handle *handle_find(enum handle_kind kind, const void *real)
{
    struct handle *found = find_predefined(kind, real);
    struct table_entry *e = found ? NULL : table_first(&by_real, table_mix((uintptr_t)real));
    for (; e && !found; e = table_next(e)) {
        struct handle *h = TABLE_OWNER(e, struct handle, entry);
        if (h->real == real && h->kind == kind)
            found = h;
    }
    return found;
}

/* ---- making and forgetting ---- */

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
    handle->previous = lists[kind].last;
    *(lists[kind].last ? &lists[kind].last->next : &lists[kind].first) = handle;
    lists[kind].last = handle;
    index_add(handle);
    return handle;
}

static void unlink_handle(struct handle *handle)
{
    *(handle->previous ? &handle->previous->next : &lists[handle->kind].first) = handle->next;
    *(handle->next ? &handle->next->previous : &lists[handle->kind].last) = handle->previous;
}

void handle_unref(void *handle)
{
    struct handle *h = handle;
    if (!h || h->is_predefined || --h->references)
        return;
    index_remove(h);
    handle_kind_forget(h);
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

struct handle *handle_first(enum handle_kind kind)
{
    return lists[kind].first;
}
