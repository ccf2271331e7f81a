/*
 * tool_pvar.c - performance variables; see tool.h.
 *
 * A new library counts from nothing. What a variable had counted at the line is kept and joined to what the
 * new one says: sums go on, marks stay marks. States and levels are what they are now.
 */
#include "mpi-layer/upper/tool.h"

#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"

struct pvar {               /* behind a handle */
    MPI_T_pvar_handle real; /* NULL: a restart has not found it again */
    int index;
    struct handle *object;
    struct tool_info info;
    int count;
    bool is_started;
    void *before; /* `count` values of libraries before this one; NULL: none */
    void *noted;  /* as the application would have read them at the last line; NULL: never */
    struct pvar *next;
};

struct session {
    MPI_T_pvar_session real;
    struct pvar *pvars;
    struct session *next;
};

static struct session *sessions;

static struct session *session_of(MPI_T_pvar_session session)
{
    return (struct session *)(void *)session;
}

static struct pvar *pvar_of(MPI_T_pvar_handle handle)
{
    return (struct pvar *)(void *)handle;
}

int PMPI_T_pvar_get_num(int *num_pvar)
{
    return tool_get_num(TOOL_PVAR, lower_MPI_T_pvar_get_num, num_pvar);
}
API_EXPORT(MPI_T_pvar_get_num);

int PMPI_T_pvar_get_info(int pvar_index, char *name, int *name_len, int *verbosity, int *var_class,
                         MPI_Datatype *datatype, MPI_T_enum *enumtype, char *desc, int *desc_len, int *bind,
                         int *readonly, int *continuous, int *atomic)
{
    void *type = NULL;
    MPI_T_enum enumeration = NULL;
    int code;
    wrapper_enter_anytime();
    int real = tool_find(TOOL_PVAR, pvar_index, &code);
    if (code == MPI_SUCCESS)
        code = lower_MPI_T_pvar_get_info(real, name, name_len, verbosity, var_class, datatype ? &type : NULL,
                                         enumtype ? &enumeration : NULL, desc, desc_len, bind, readonly,
                                         continuous, atomic);
    if (code == MPI_SUCCESS && datatype)
        *datatype = tool_type(type);
    if (code == MPI_SUCCESS && enumtype)
        *enumtype = tool_enum(enumeration, TOOL_PVAR, pvar_index);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_pvar_get_info);

int PMPI_T_pvar_get_index(const char *name, int var_class, int *pvar_index)
{
    int real = -1;
    wrapper_enter_anytime();
    int code = lower_MPI_T_pvar_get_index(name, var_class, pvar_index ? &real : NULL);
    if (code == MPI_SUCCESS)
        *pvar_index = tool_our_index(TOOL_PVAR, real);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_pvar_get_index);

/* ---- values of more than one library ---- */

#define JOIN(ctype)                                                                                          \
    do {                                                                                                     \
        ctype *values = value;                                                                               \
        const ctype *old = before;                                                                           \
        for (int i = 0; i < p->count; i++)                                                                   \
            values[i] = class == MPI_T_PVAR_CLASS_HIGHWATERMARK  ? (old[i] > values[i] ? old[i] : values[i]) \
                        : class == MPI_T_PVAR_CLASS_LOWWATERMARK ? (old[i] < values[i] ? old[i] : values[i]) \
                                                                 : old[i] + values[i];                       \
    } while (0)

static bool is_joined(const struct pvar *p)
{
    return p->info.class >= MPI_T_PVAR_CLASS_HIGHWATERMARK && p->info.class <= MPI_T_PVAR_CLASS_TIMER &&
           p->info.type != MPI_CHAR && tool_size_of(p->info.type) > 0;
}

static void join(const struct pvar *p, const void *before, void *value)
{
    int class = p->info.class;
    if (p->info.type == MPI_DOUBLE)
        JOIN(double);
    else if (tool_size_of(p->info.type) == sizeof(unsigned))
        JOIN(unsigned);
    else
        JOIN(unsigned long);
}

static size_t bytes_of(const struct pvar *p)
{
    return (size_t)p->count * tool_size_of(p->info.type);
}

/* As the application is to see it. Inside a wrapper. */
static int read_value(const struct session *s, const struct pvar *p, void *value)
{
    int code = lower_MPI_T_pvar_read(s->real, p->real, value);
    if (code == MPI_SUCCESS && p->before)
        join(p, p->before, value);
    return code;
}

static void forget_before(struct pvar *p)
{
    arena_free(p->before);
    p->before = NULL;
}

/* ---- sessions ---- */

int PMPI_T_pvar_session_create(MPI_T_pvar_session *session)
{
    wrapper_enter_anytime();
    struct session *s = arena_alloc(sizeof *s);
    int code = s ? lower_MPI_T_pvar_session_create(&s->real) : MPI_T_ERR_OUT_OF_SESSIONS;
    if (code == MPI_SUCCESS) {
        s->next = sessions;
        sessions = s;
        *session = (MPI_T_pvar_session)(void *)s;
    } else {
        arena_free(s);
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_pvar_session_create);

static void destroy_pvar(struct session *s, struct pvar *p)
{
    struct pvar **link = &s->pvars;
    while (*link != p)
        link = &(*link)->next;
    *link = p->next;
    tool_object_drop(p->object);
    arena_free(p->before);
    arena_free(p->noted);
    arena_free(p);
}

static void destroy_session(struct session *s)
{
    struct session **link = &sessions;
    while (s->pvars)
        destroy_pvar(s, s->pvars);
    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
    arena_free(s);
}

static int check_session(const struct session *s)
{
    return !tool_is_ready() ? MPI_T_ERR_NOT_INITIALIZED : s ? MPI_SUCCESS : MPI_T_ERR_INVALID_SESSION;
}

int PMPI_T_pvar_session_free(MPI_T_pvar_session *session)
{
    struct session *s = session ? session_of(*session) : NULL;
    wrapper_enter_anytime();
    int code = check_session(s);
    if (code == MPI_SUCCESS)
        code = lower_MPI_T_pvar_session_free(&s->real);
    if (code == MPI_SUCCESS) {
        destroy_session(s);
        *session = MPI_T_PVAR_SESSION_NULL;
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_pvar_session_free);

/* ---- handles ---- */

/* Inside a wrapper. */
static int alloc(const struct session *s, int real, struct pvar *p, const void *obj_handle)
{
    void *object = NULL;
    int code = tool_info_of(TOOL_PVAR, real, &p->info);
    if (code != MPI_SUCCESS)
        return code;
    p->object = tool_object(p->info.bind, obj_handle, &object);
    code = lower_MPI_T_pvar_handle_alloc(s->real, real, p->object ? &object : NULL, &p->real, &p->count);
    if (code != MPI_SUCCESS)
        tool_object_drop(p->object);
    return code;
}

int PMPI_T_pvar_handle_alloc(MPI_T_pvar_session session, int pvar_index, void *obj_handle,
                             MPI_T_pvar_handle *handle, int *count)
{
    struct session *s = session_of(session);
    int real = -1;
    wrapper_enter_anytime();
    int code = check_session(s);
    if (code == MPI_SUCCESS)
        real = tool_find(TOOL_PVAR, pvar_index, &code);
    struct pvar *p = code == MPI_SUCCESS ? arena_alloc(sizeof *p) : NULL;
    if (code == MPI_SUCCESS)
        code = p ? alloc(s, real, p, obj_handle) : MPI_T_ERR_OUT_OF_HANDLES;
    if (code == MPI_SUCCESS) {
        p->index = pvar_index;
        p->is_started = p->info.is_continuous;
        p->next = s->pvars;
        s->pvars = p;
        *handle = (MPI_T_pvar_handle)(void *)p;
        *count = p->count;
    } else {
        arena_free(p);
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_pvar_handle_alloc);

static bool is_in(const struct session *s, const struct pvar *p)
{
    for (const struct pvar *at = s->pvars; at; at = at->next)
        if (at == p)
            return true;
    return false;
}

/* All handles of a session are meant, or one of them that the library knows. */
static int check(const struct session *s, MPI_T_pvar_handle handle, bool may_be_all)
{
    const struct pvar *p = pvar_of(handle);
    int code = check_session(s);
    if (code != MPI_SUCCESS || (may_be_all && handle == MPI_T_PVAR_ALL_HANDLES))
        return code;
    return is_in(s, p) && p->real ? MPI_SUCCESS : MPI_T_ERR_INVALID_HANDLE;
}

int PMPI_T_pvar_handle_free(MPI_T_pvar_session session, MPI_T_pvar_handle *handle)
{
    struct session *s = session_of(session);
    struct pvar *p = handle ? pvar_of(*handle) : NULL;
    wrapper_enter_anytime();
    int code = check_session(s);
    if (code == MPI_SUCCESS && (!p || !is_in(s, p)))
        code = MPI_T_ERR_INVALID_HANDLE;
    if (code == MPI_SUCCESS && p->real)
        code = lower_MPI_T_pvar_handle_free(s->real, &p->real);
    if (code == MPI_SUCCESS) {
        destroy_pvar(s, p);
        *handle = MPI_T_PVAR_HANDLE_NULL;
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_pvar_handle_free);

static MPI_T_pvar_handle real_handle(MPI_T_pvar_handle handle)
{
    return handle == MPI_T_PVAR_ALL_HANDLES ? handle : pvar_of(handle)->real;
}

/* Of one handle, or of all of a session that this can be done to. */
static void set_started(struct session *s, MPI_T_pvar_handle handle, bool is_started)
{
    for (struct pvar *p = s->pvars; p; p = p->next)
        if ((handle == MPI_T_PVAR_ALL_HANDLES || p == pvar_of(handle)) && !p->info.is_continuous)
            p->is_started = is_started;
}

static int start_or_stop(int (*call)(MPI_T_pvar_session, MPI_T_pvar_handle), MPI_T_pvar_session session,
                         MPI_T_pvar_handle handle, bool is_started)
{
    struct session *s = session_of(session);
    wrapper_enter_anytime();
    int code = check(s, handle, true);
    if (code == MPI_SUCCESS)
        code = call(s->real, real_handle(handle));
    if (code == MPI_SUCCESS)
        set_started(s, handle, is_started);
    wrapper_leave();
    return code;
}

int PMPI_T_pvar_start(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    return start_or_stop(lower_MPI_T_pvar_start, session, handle, true);
}
API_EXPORT(MPI_T_pvar_start);

int PMPI_T_pvar_stop(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    return start_or_stop(lower_MPI_T_pvar_stop, session, handle, false);
}
API_EXPORT(MPI_T_pvar_stop);

int PMPI_T_pvar_read(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf)
{
    struct session *s = session_of(session);
    wrapper_enter_anytime();
    int code = check(s, handle, false);
    if (code == MPI_SUCCESS)
        code = read_value(s, pvar_of(handle), buf);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_pvar_read);

int PMPI_T_pvar_write(MPI_T_pvar_session session, MPI_T_pvar_handle handle, const void *buf)
{
    struct session *s = session_of(session);
    wrapper_enter_anytime();
    int code = check(s, handle, false);
    if (code == MPI_SUCCESS)
        code = lower_MPI_T_pvar_write(s->real, pvar_of(handle)->real, buf);
    if (code == MPI_SUCCESS)
        forget_before(pvar_of(handle));
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_pvar_write);

int PMPI_T_pvar_reset(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    struct session *s = session_of(session);
    wrapper_enter_anytime();
    int code = check(s, handle, true);
    if (code == MPI_SUCCESS)
        code = lower_MPI_T_pvar_reset(s->real, real_handle(handle));
    for (struct pvar *p = code == MPI_SUCCESS ? s->pvars : NULL; p; p = p->next)
        if (p == pvar_of(handle) || (handle == MPI_T_PVAR_ALL_HANDLES && !p->info.is_readonly))
            forget_before(p);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_pvar_reset);

int PMPI_T_pvar_readreset(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf)
{
    struct session *s = session_of(session);
    wrapper_enter_anytime();
    int code = check(s, handle, false);
    if (code == MPI_SUCCESS)
        code = lower_MPI_T_pvar_readreset(s->real, pvar_of(handle)->real, buf);
    if (code == MPI_SUCCESS && pvar_of(handle)->before)
        join(pvar_of(handle), pvar_of(handle)->before, buf);
    if (code == MPI_SUCCESS)
        forget_before(pvar_of(handle));
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_T_pvar_readreset);

/* ---- lines and restarts ---- */

bool tool_note_pvars(void)
{
    for (struct session *s = sessions; s; s = s->next)
        for (struct pvar *p = s->pvars; p; p = p->next) {
            if (!is_joined(p) || !p->real || tool_object_is_gone(p->object))
                continue;
            if (!p->noted)
                p->noted = arena_alloc(bytes_of(p));
            if (!p->noted)
                return false;
            read_value(s, p, p->noted);
        }
    return true;
}

static void restore_pvar(const struct session *s, struct pvar *p)
{
    int real = tool_real_index(TOOL_PVAR, p->index);
    void *object = p->object ? p->object->real : NULL;
    int count = p->count;
    p->real = NULL;
    if (p->noted) {
        forget_before(p);
        p->before = p->noted;
        p->noted = NULL;
    }
    if (real < 0 || tool_object_is_gone(p->object) ||
        lower_MPI_T_pvar_handle_alloc(s->real, real, p->object ? &object : NULL, &p->real, &p->count))
        p->real = NULL;
    else if (p->is_started && !p->info.is_continuous)
        lower_MPI_T_pvar_start(s->real, p->real);
    if (p->count != count)
        forget_before(p);
}

void tool_restore_pvars(void)
{
    for (struct session *s = sessions; s; s = s->next) {
        lower_MPI_T_pvar_session_create(&s->real);
        for (struct pvar *p = s->pvars; p; p = p->next)
            restore_pvar(s, p);
    }
}

void tool_forget_pvars(void)
{
    while (sessions)
        destroy_session(sessions);
}
