/* info.c - see info.h. */
#include "mpi-layer/upper/info.h"

#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/half.h"
#include "mpi-layer/upper/handle.h"

struct info { /* count pairs of NUL-terminated strings, key then value */
    int count;
    char text[];
};

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

struct info *info_note(void *real, struct info *old)
{
    int count = 0;
    size_t bytes = 0, used = 0;
    lower_MPI_Info_get_nkeys(real, &count);
    for (int i = 0; i < count; i++)
        bytes += copy_pair(real, i, NULL);
    struct info *info = arena_alloc(sizeof *info + bytes);
    if (!info)
        return NULL;
    info->count = count;
    for (int i = 0; i < count; i++)
        used += copy_pair(real, i, info->text + used);
    arena_free(old);
    return info;
}

void *info_make(const struct info *info)
{
    void *real = NULL;
    const char *at = info->text;
    lower_MPI_Info_create(&real);
    for (int i = 0; i < info->count; i++) {
        const char *key = at, *value = key + strlen(key) + 1;
        lower_MPI_Info_set(real, key, value);
        at = value + strlen(value) + 1;
    }
    return real;
}

/* ---- what changes an object of the application: it is to be noted again ---- */

static void forget_noted(MPI_Info info)
{
    struct handle *handle = (struct handle *)(void *)info;
    if (!handle || handle->is_predefined)
        return;
    arena_free(handle->record);
    handle->record = NULL;
}

int PMPI_Info_set(MPI_Info info, const char *key, const char *value)
{
    wrapper_enter();
    int code = lower_MPI_Info_set(api_real(info), key, value);
    if (code == MPI_SUCCESS)
        forget_noted(info);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Info_set);

int PMPI_Info_delete(MPI_Info info, const char *key)
{
    wrapper_enter();
    int code = lower_MPI_Info_delete(api_real(info), key);
    if (code == MPI_SUCCESS)
        forget_noted(info);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Info_delete);
