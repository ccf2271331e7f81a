/* rebuild.c - see rebuild.h. */
#include "mpi-layer/upper/rebuild.h"

#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/attr.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/datatype.h"
#include "mpi-layer/upper/file.h"
#include "mpi-layer/upper/half.h"
#include "mpi-layer/upper/init.h"
#include "mpi-layer/upper/op.h"
#include "mpi-layer/upper/p2p.h"

struct group { /* members by world rank */
    int size;
    int world[];
};

struct info { /* count pairs of NUL-terminated strings, key then value */
    int count;
    char text[];
};

static void *world_group(void)
{
    void *group = NULL;
    lower_MPI_Comm_group(api_real(MPI_COMM_WORLD), &group);
    return group;
}

static void note_group(struct handle *handle)
{
    int size = 0;
    void *world = world_group();
    lower_MPI_Group_size(handle->real, &size);
    struct group *group = arena_alloc(sizeof *group + (size_t)size * sizeof(int));
    int *own = arena_alloc((size_t)size * sizeof(int));
    for (int i = 0; i < size; i++)
        own[i] = i;
    group->size = size;
    lower_MPI_Group_translate_ranks(handle->real, size, own, world, group->world);
    lower_MPI_Group_free(&world);
    arena_free(own);
    arena_free(handle->record);
    handle->record = group;
}

static void restore_group(struct handle *handle)
{
    const struct group *group = handle->record;
    void *world = world_group();
    lower_MPI_Group_incl(world, group->size, group->world, &handle->real);
    lower_MPI_Group_free(&world);
}

/* Copies one pair to `to` (NULL: only measures). Returns its length. */
static size_t copy_pair(void *real, int number, char *to)
{
    char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    int flag = 0;
    lower_MPI_Info_get_nthkey(real, number, key);
    lower_MPI_Info_get(real, key, MPI_MAX_INFO_VAL, value, &flag);
    size_t key_bytes = strlen(key) + 1, value_bytes = strlen(value) + 1;
    if (to) {
        memcpy(to, key, key_bytes);
        memcpy(to + key_bytes, value, value_bytes);
    }
    return key_bytes + value_bytes;
}

static void note_info(struct handle *handle)
{
    int count = 0;
    size_t bytes = 0, used = 0;
    lower_MPI_Info_get_nkeys(handle->real, &count);
    for (int i = 0; i < count; i++)
        bytes += copy_pair(handle->real, i, NULL);
    struct info *info = arena_alloc(sizeof *info + bytes);
    info->count = count;
    for (int i = 0; i < count; i++)
        used += copy_pair(handle->real, i, info->text + used);
    arena_free(handle->record);
    handle->record = info;
}

static void restore_info(struct handle *handle)
{
    const struct info *info = handle->record;
    const char *at = info->text;
    lower_MPI_Info_create(&handle->real);
    for (int i = 0; i < info->count; i++) {
        const char *key = at, *value = key + strlen(key) + 1;
        lower_MPI_Info_set(handle->real, key, value);
        at = value + strlen(value) + 1;
    }
}

void rebuild_note(void)
{
    comm_note_all();
    file_note_all();
    for (struct handle *h = handle_first(); h; h = h->next) {
        if (h->kind == HANDLE_GROUP)
            note_group(h);
        else if (h->kind == HANDLE_INFO)
            note_info(h);
        else if (h->kind == HANDLE_DATATYPE)
            datatype_note(h);
    }
}

/* Oldest first: a datatype is made of older ones. Communicators follow, they need nothing of these. */
static void restore_objects(void)
{
    for (struct handle *h = handle_first(); h; h = h->next) {
        if (h->kind == HANDLE_DATATYPE)
            datatype_restore(h);
        else if (h->kind == HANDLE_OP)
            op_restore(h);
        else if (h->kind == HANDLE_GROUP)
            restore_group(h);
        else if (h->kind == HANDLE_INFO)
            restore_info(h);
    }
}

/* In their original order, which the matching rules of MPI depend on. */
static void post_receives(void)
{
    for (struct request *r = request_first(); r; r = r->next) {
        if (r->is_done || r->kind != REQUEST_RECV || !r->comm)
            continue;
        if (r->comm->ending) /* no message will come */
            r->real = NULL;
        else
            p2p_post(r);
    }
}

void rebuild_all(uint64_t line)
{
    half_bind();
    attr_bind_predefined();
    restore_objects();
    comm_rebuild_all();
    file_restore_all();
    post_receives();
    init_restore();
    struct control *control = half_control();
    control->restore_ns = GATE->now_ns() - GATE->mpi_init_done_ns;
    control->restored_line = line;
}
