/* tool.c - beginning, end and enumerations of the tool interface; see tool.h. */
#include "mpi-layer/upper/tool.h"

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/phase.h"

struct enumeration {
    void *real;            /* NULL: a restart has not found it again */
    enum tool_space space; /* the variable that it came with */
    int index;
    struct enumeration *next;
};

static int inits; /* calls of MPI_T_init_thread that no MPI_T_finalize has answered */
static struct enumeration *enumerations;

bool tool_is_ready(void)
{
    return inits > 0;
}

/* As with MPI_Init_thread: one thread at a time. */
static int level_of(int required)
{
    return required < MPI_THREAD_SERIALIZED ? required : MPI_THREAD_SERIALIZED;
}

int PMPI_T_init_thread(int required, int *provided)
{
    wrapper_enter_anytime();
    int level = level_of(required), code = lower_MPI_T_init_thread(level, provided);
    if (code == MPI_SUCCESS) {
        inits++;
        *provided = level; /* the library writes it in the first call only */
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_init_thread);

static void forget_enumerations(void)
{
    for (struct enumeration *e = enumerations, *next; e; e = next) {
        next = e->next;
        arena_free(e);
    }
    enumerations = NULL;
}

/* After MPI_Finalize the library's own MPI_T_finalize would use what MPI_Finalize has freed. */
int PMPI_T_finalize(void)
{
    wrapper_enter_anytime();
    int code = MPI_T_ERR_NOT_INITIALIZED;
    if (inits)
        code = phase.is_finalized ? MPI_SUCCESS : lower_MPI_T_finalize();
    if (code == MPI_SUCCESS && !--inits) {
        tool_forget_cvars();
        tool_forget_pvars();
        forget_enumerations();
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_finalize);

/* ---- what variables are ---- */

int tool_info_of(enum tool_space space, int real_index, struct tool_info *info)
{
    int verbosity, scope, atomic, length = 0, code;
    void *type = NULL;
    MPI_T_enum enumeration = NULL;
    *info = (struct tool_info){.bind = MPI_T_BIND_NO_OBJECT};
    if (space == TOOL_CVAR)
        code = lower_MPI_T_cvar_get_info(real_index, NULL, &length, &verbosity, &type, &enumeration, NULL,
                                         &length, &info->bind, &scope);
    else
        code = lower_MPI_T_pvar_get_info(real_index, NULL, &length, &verbosity, &info->class, &type,
                                         &enumeration, NULL, &length, &info->bind, &info->is_readonly,
                                         &info->is_continuous, &atomic);
    info->enumeration = enumeration;
    info->type = tool_type(type);
    return code;
}

size_t tool_size_of(MPI_Datatype type)
{
    const struct {
        MPI_Datatype type;
        size_t bytes;
    } sizes[] = {
        {MPI_CHAR, sizeof(char)},
        {MPI_C_BOOL, sizeof(bool)},
        {MPI_INT, sizeof(int)},
        {MPI_UNSIGNED, sizeof(unsigned)},
        {MPI_LONG, sizeof(long)},
        {MPI_UNSIGNED_LONG, sizeof(unsigned long)},
        {MPI_UNSIGNED_LONG_LONG, sizeof(unsigned long long)},
        {MPI_INT32_T, 4},
        {MPI_UINT32_T, 4},
        {MPI_INT64_T, 8},
        {MPI_UINT64_T, 8},
        {MPI_COUNT, sizeof(MPI_Count)},
        {MPI_DOUBLE, sizeof(double)},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].type == type)
            return sizes[i].bytes;
    return 0;
}

MPI_Datatype tool_type(void *real)
{
    struct handle *type = real ? handle_find(HANDLE_DATATYPE, real) : NULL;
    return type ? (MPI_Datatype)(void *)type : MPI_DATATYPE_NULL;
}

struct handle *tool_object(int bind, const void *obj_handle, void **real)
{
    if (bind == MPI_T_BIND_NO_OBJECT || !obj_handle)
        return NULL;
    struct handle *object = *(struct handle *const *)obj_handle;
    handle_retain(object);
    *real = api_real(object);
    return object;
}

void tool_object_drop(struct handle *object)
{
    handle_unref(object);
}

bool tool_object_is_gone(const struct handle *object)
{
    return object && !object->is_predefined && !object->held;
}

/* ---- enumerations ---- */

MPI_T_enum tool_enum(void *real, enum tool_space space, int index)
{
    struct enumeration *e = enumerations;
    while (e && e->real != real)
        e = e->next;
    if (!real || e)
        return (MPI_T_enum)(void *)e;
    e = arena_alloc(sizeof *e);
    if (!e)
        return MPI_T_ENUM_NULL;
    *e = (struct enumeration){.real = real, .space = space, .index = index, .next = enumerations};
    enumerations = e;
    return (MPI_T_enum)(void *)e;
}

static void restore_enumerations(void)
{
    for (struct enumeration *e = enumerations; e; e = e->next) {
        struct tool_info info;
        int real = tool_real_index(e->space, e->index);
        e->real = real >= 0 && tool_info_of(e->space, real, &info) == MPI_SUCCESS ? info.enumeration : NULL;
    }
}

static MPI_T_enum real_enum(MPI_T_enum ours)
{
    return ours ? ((const struct enumeration *)(void *)ours)->real : NULL;
}

static int enum_error(MPI_T_enum ours)
{
    return !inits ? MPI_T_ERR_NOT_INITIALIZED : real_enum(ours) ? MPI_SUCCESS : MPI_T_ERR_INVALID_HANDLE;
}

int PMPI_T_enum_get_info(MPI_T_enum enumtype, int *num, char *name, int *name_len)
{
    wrapper_enter_anytime();
    int code = enum_error(enumtype);
    if (code == MPI_SUCCESS)
        code = lower_MPI_T_enum_get_info(real_enum(enumtype), num, name, name_len);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_enum_get_info);

int PMPI_T_enum_get_item(MPI_T_enum enumtype, int index, int *value, char *name, int *name_len)
{
    wrapper_enter_anytime();
    int code = enum_error(enumtype);
    if (code == MPI_SUCCESS)
        code = lower_MPI_T_enum_get_item(real_enum(enumtype), index, value, name, name_len);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_enum_get_item);

/* ---- lines and restarts ---- */

bool tool_note(void)
{
    return !inits || (tool_note_indices() && tool_note_pvars());
}

/* Values that were written stay in force after MPI_T_finalize: hence one beginning at least. */
void tool_restore(void)
{
    int provided, level = level_of(VK->mpi_thread_level); /* what MPI_Query_thread tells afterwards */
    if (!inits && !tool_has_written())
        return;
    for (int i = 0; i < inits || i < 1; i++)
        lower_MPI_T_init_thread(level, &provided);
    if (inits) {
        tool_restore_indices();
        restore_enumerations();
    }
    tool_restore_cvars();
    tool_restore_pvars();
    if (!inits)
        lower_MPI_T_finalize();
}
