/* tool_cvar.c - control variables; see tool.h. */
#include "mpi-layer/upper/tool.h"

#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"

struct cvar {               /* behind a handle */
    MPI_T_cvar_handle real; /* NULL: a restart has not found it again */
    int index;
    struct handle *object;
    MPI_Datatype type;
    int count;
    struct cvar *next, **link;
};

/* A value that the application has written: it holds for the process, longer than the handle. */
struct written {
    struct written *next;
    char name[TOOL_NAME_BYTES];
    char value[]; /* as MPI_T_cvar_write takes it */
};

static struct cvar *cvars;
static struct written *first_written, **end_of_written = &first_written; /* oldest first */

static struct cvar *cvar_of(MPI_T_cvar_handle handle)
{
    return (struct cvar *)(void *)handle;
}

int PMPI_T_cvar_get_num(int *num_cvar)
{
    return tool_get_num(TOOL_CVAR, lower_MPI_T_cvar_get_num, num_cvar);
}
API_EXPORT(MPI_T_cvar_get_num);

int PMPI_T_cvar_get_info(int cvar_index, char *name, int *name_len, int *verbosity, MPI_Datatype *datatype,
                         MPI_T_enum *enumtype, char *desc, int *desc_len, int *bind, int *scope)
{
    void *type = NULL;
    MPI_T_enum enumeration = NULL;
    int code;
    wrapper_enter_anytime();
    int real = tool_find(TOOL_CVAR, cvar_index, &code);
    if (code == MPI_SUCCESS)
        code = lower_MPI_T_cvar_get_info(real, name, name_len, verbosity, datatype ? &type : NULL,
                                         enumtype ? &enumeration : NULL, desc, desc_len, bind, scope);
    if (code == MPI_SUCCESS && datatype)
        *datatype = tool_type(type);
    if (code == MPI_SUCCESS && enumtype)
        *enumtype = tool_enum(enumeration, TOOL_CVAR, cvar_index);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_cvar_get_info);

int PMPI_T_cvar_get_index(const char *name, int *cvar_index)
{
    int real = -1;
    wrapper_enter_anytime();
    int code = lower_MPI_T_cvar_get_index(name, cvar_index ? &real : NULL);
    if (code == MPI_SUCCESS)
        *cvar_index = tool_our_index(TOOL_CVAR, real);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_cvar_get_index);

/* ---- handles ---- */

static void link_cvar(struct cvar *cvar)
{
    cvar->next = cvars;
    cvar->link = &cvars;
    if (cvars)
        cvars->link = &cvar->next;
    cvars = cvar;
}

static void destroy_cvar(struct cvar *cvar)
{
    *cvar->link = cvar->next;
    if (cvar->next)
        cvar->next->link = cvar->link;
    tool_object_drop(cvar->object);
    arena_free(cvar);
}

/* Inside a wrapper. */
static int alloc(int real, struct cvar *cvar, const void *obj_handle)
{
    struct tool_info info;
    void *object = NULL;
    int code = tool_info_of(TOOL_CVAR, real, &info);
    if (code != MPI_SUCCESS)
        return code;
    cvar->type = info.type;
    cvar->object = tool_object(info.bind, obj_handle, &object);
    code = lower_MPI_T_cvar_handle_alloc(real, cvar->object ? &object : NULL, &cvar->real, &cvar->count);
    if (code != MPI_SUCCESS)
        tool_object_drop(cvar->object);
    return code;
}

int PMPI_T_cvar_handle_alloc(int cvar_index, void *obj_handle, MPI_T_cvar_handle *handle, int *count)
{
    int code;
    wrapper_enter_anytime();
    int real = tool_find(TOOL_CVAR, cvar_index, &code);
    struct cvar *cvar = code == MPI_SUCCESS ? arena_alloc(sizeof *cvar) : NULL;
    if (code == MPI_SUCCESS)
        code = cvar ? alloc(real, cvar, obj_handle) : MPI_T_ERR_OUT_OF_HANDLES;
    if (code == MPI_SUCCESS) {
        cvar->index = cvar_index;
        link_cvar(cvar);
        *handle = (MPI_T_cvar_handle)(void *)cvar;
        *count = cvar->count;
    } else {
        arena_free(cvar);
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_cvar_handle_alloc);

static int check(const struct cvar *cvar)
{
    if (!tool_is_ready())
        return MPI_T_ERR_NOT_INITIALIZED;
    return cvar && cvar->real ? MPI_SUCCESS : MPI_T_ERR_INVALID_HANDLE;
}

int PMPI_T_cvar_handle_free(MPI_T_cvar_handle *handle)
{
    struct cvar *cvar = handle ? cvar_of(*handle) : NULL;
    wrapper_enter_anytime();
    int code = tool_is_ready() && cvar ? MPI_SUCCESS : check(cvar);
    if (code == MPI_SUCCESS) {
        if (cvar->real)
            lower_MPI_T_cvar_handle_free(&cvar->real);
        destroy_cvar(cvar);
        *handle = MPI_T_CVAR_HANDLE_NULL;
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_cvar_handle_free);

int PMPI_T_cvar_read(MPI_T_cvar_handle handle, void *buf)
{
    struct cvar *cvar = cvar_of(handle);
    wrapper_enter_anytime();
    int code = check(cvar);
    if (code == MPI_SUCCESS)
        code = lower_MPI_T_cvar_read(cvar->real, buf);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_cvar_read);

/* ---- values ---- */

static void drop_written(const char *name)
{
    struct written **link = &first_written, *w;
    while ((w = *link) && strcmp(w->name, name))
        link = &w->next;
    if (!w)
        return;
    *link = w->next;
    if (!w->next)
        end_of_written = link;
    arena_free(w);
}

static bool note_written(const struct cvar *cvar, const void *value)
{
    bool is_text = cvar->type == MPI_CHAR;
    size_t bytes = is_text ? strlen(value) + 1 : (size_t)cvar->count * tool_size_of(cvar->type);
    struct written *w = arena_alloc(sizeof *w + bytes);
    if (!w)
        return false;
    tool_real_name(TOOL_CVAR, tool_real_index(TOOL_CVAR, cvar->index), w->name, NULL);
    memcpy(w->value, value, bytes);
    drop_written(w->name);
    *end_of_written = w;
    end_of_written = &w->next;
    return true;
}

int PMPI_T_cvar_write(MPI_T_cvar_handle handle, const void *buf)
{
    struct cvar *cvar = cvar_of(handle);
    wrapper_enter_anytime();
    int code = check(cvar);
    if (code == MPI_SUCCESS)
        code = lower_MPI_T_cvar_write(cvar->real, buf);
    if (code == MPI_SUCCESS && !note_written(cvar, buf))
        code = MPI_T_ERR_MEMORY;
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_cvar_write);

/* ---- restarts ---- */

bool tool_has_written(void)
{
    return first_written != NULL;
}

static void write_again(const struct written *w)
{
    struct cvar cvar = {.real = NULL};
    int real;
    if (lower_MPI_T_cvar_get_index(w->name, &real) != MPI_SUCCESS || alloc(real, &cvar, NULL) != MPI_SUCCESS)
        return;
    lower_MPI_T_cvar_write(cvar.real, w->value);
    lower_MPI_T_cvar_handle_free(&cvar.real);
}

void tool_restore_cvars(void)
{
    for (const struct written *w = first_written; w; w = w->next)
        write_again(w);
    for (struct cvar *cvar = cvars; cvar; cvar = cvar->next) {
        int count, real = tool_real_index(TOOL_CVAR, cvar->index);
        void *object = cvar->object ? cvar->object->real : NULL;
        cvar->real = NULL;
        if (real >= 0 && !tool_object_is_gone(cvar->object))
            lower_MPI_T_cvar_handle_alloc(real, cvar->object ? &object : NULL, &cvar->real, &count);
    }
}

void tool_forget_cvars(void)
{
    while (cvars)
        destroy_cvar(cvars);
}
