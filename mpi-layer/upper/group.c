/* group.c - see group.h. */
#include "mpi-layer/upper/group.h"

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"

struct group { /* members by world rank; it never changes */
    int size;
    int world[];
};

static void *world_group(void)
{
    void *group = NULL;
    lower_MPI_Comm_group(api_real(MPI_COMM_WORLD), &group);
    return group;
}

bool group_note(struct handle *handle)
{
    int size = 0;
    if (handle->record)
        return true;
    lower_MPI_Group_size(handle->real, &size);
    struct group *group = arena_alloc(sizeof *group + (size_t)size * sizeof(int));
    int *own = arena_alloc((size_t)size * sizeof(int) + 1);
    if (!group || !own) {
        arena_free(group);
        arena_free(own);
        return false;
    }
    void *world = world_group();
    for (int i = 0; i < size; i++)
        own[i] = i;
    group->size = size;
    lower_MPI_Group_translate_ranks(handle->real, size, own, world, group->world);
    lower_MPI_Group_free(&world);
    arena_free(own);
    handle->record = group;
    return true;
}

void group_restore(struct handle *handle)
{
    const struct group *group = handle->record;
    void *world = world_group();
    lower_MPI_Group_incl(world, group->size, group->world, &handle->real);
    lower_MPI_Group_free(&world);
}

/*
 * MPI_GROUP_EMPTY is handed out as the result of operations and freed as such. The library counts its
 * references, but a new one knows nothing of those from before a restart: so it keeps them all.
 */
int PMPI_Group_free(MPI_Group *group)
{
    int code = MPI_SUCCESS;
    wrapper_enter();
    if (!group || *group != MPI_GROUP_EMPTY) {
        void *real = group ? api_real(*group) : NULL;
        code = lower_MPI_Group_free(group ? &real : NULL);
    }
    if (code == MPI_SUCCESS) {
        handle_release(HANDLE_GROUP, *group);
        *group = MPI_GROUP_NULL;
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Group_free);
