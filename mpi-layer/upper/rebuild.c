/* rebuild.c - see rebuild.h. */
#include "mpi-layer/upper/rebuild.h"

#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/attr.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/datatype.h"
#include "mpi-layer/upper/errhandler.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/file.h"
#include "mpi-layer/upper/half.h"
#include "mpi-layer/upper/info.h"
#include "mpi-layer/upper/init.h"
#include "mpi-layer/upper/op.h"
#include "mpi-layer/upper/p2p.h"

struct group { /* members by world rank */
    int size;
    int world[];
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
    handle->record = group;
}

static void restore_group(struct handle *handle)
{
    const struct group *group = handle->record;
    void *world = world_group();
    lower_MPI_Group_incl(world, group->size, group->world, &handle->real);
    lower_MPI_Group_free(&world);
}

void rebuild_note(void)
{
    comm_note_all();
    file_note_all();
    errhandler_sweep();
    for (struct handle *h = handle_first(); h; h = h->next) {
        if (h->kind == HANDLE_GROUP && !h->record) /* a group never changes */
            note_group(h);
        else if (h->kind == HANDLE_INFO)
            h->record = info_note(h->real, h->record);
    }
}

/* Oldest first: a datatype is made of older ones. Communicators follow, they need nothing of these. */
static void restore_objects(void)
{
    for (size_t i = 0; i < predefined_handle_count; i++)
        if (predefined_handles[i].kind == HANDLE_DATATYPE)
            datatype_restore_name(predefined_handles[i].object);
    for (struct handle *h = handle_first(); h; h = h->next) {
        if (h->kind == HANDLE_DATATYPE)
            datatype_restore(h);
        else if (h->kind == HANDLE_OP)
            op_restore(h);
        else if (h->kind == HANDLE_GROUP)
            restore_group(h);
        else if (h->kind == HANDLE_INFO)
            h->real = info_make(h->record);
        else if (h->kind == HANDLE_ERRHANDLER)
            errhandler_restore(h);
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
    errors_restore();
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
