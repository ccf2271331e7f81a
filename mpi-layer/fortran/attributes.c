/*
 * attributes.c - keyvals and attributes as Fortran sees them (MPI-3.1, 17.2.7).
 *
 * A value that Fortran sets is an integer. The attribute points to a cell with it, so that C gets the
 * address of an integer, as the standard wants; Fortran gets the integer back, and the address itself of
 * what C has set. Callbacks of Fortran are called by ours, which know them from the extra state.
 */
#define OMPI_BUILDING 1 /* mpi.h declares MPI-1's names, too */
#include <stdbool.h>

#include "mpi-layer/api/api.h"
#include "mpi-layer/fortran/names.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/table.h"

typedef void copy_f(MPI_Fint *handle, MPI_Fint *keyval, void *extra_state, void *in, void *out,
                    MPI_Fint *flag, MPI_Fint *code);
typedef void delete_f(MPI_Fint *handle, MPI_Fint *keyval, void *value, void *extra_state, MPI_Fint *code);

struct callbacks {
    copy_f *copy;
    delete_f *delete;
    MPI_Aint extra_state; /* little endian: also what a routine of MPI-1 reads as an INTEGER */
    bool is_short;        /* MPI-1: values are INTEGER, else INTEGER(MPI_ADDRESS_KIND) */
};

struct cell {
    MPI_Aint value; /* the attribute is its address */
    struct table_entry entry;
};

static struct table cells; /* by their addresses: what C has set is none of them */

static struct cell *find_cell(const void *value)
{
    struct table_entry *e = table_first(&cells, table_mix((uintptr_t)value));
    for (; e; e = table_next(e))
        if ((void *)TABLE_OWNER(e, struct cell, entry) == value)
            return TABLE_OWNER(e, struct cell, entry);
    return NULL;
}

static void *new_cell(MPI_Aint value)
{
    struct cell *cell = arena_alloc(sizeof *cell);
    if (!cell)
        return NULL;
    cell->value = value;
    table_add(&cells, &cell->entry, table_mix((uintptr_t)cell));
    return cell;
}

static void free_cell(const void *value)
{
    struct cell *cell = find_cell(value);
    if (!cell)
        return;
    table_remove(&cells, &cell->entry);
    arena_free(cell);
}

static MPI_Aint integer_of(void *value)
{
    const struct cell *cell = find_cell(value);
    return cell ? cell->value : (MPI_Aint)value;
}

static bool is_predefined_int(int keyval)
{
    return keyval == MPI_TAG_UB || keyval == MPI_HOST || keyval == MPI_IO || keyval == MPI_WTIME_IS_GLOBAL ||
           keyval == MPI_UNIVERSE_SIZE || keyval == MPI_APPNUM || keyval == MPI_LASTUSEDCODE ||
           keyval == MPI_WIN_DISP_UNIT || keyval == MPI_WIN_CREATE_FLAVOR || keyval == MPI_WIN_MODEL;
}

static MPI_Aint value_for_fortran(int keyval, void *value)
{
    if (is_predefined_int(keyval))
        return *(const int *)value;
    return keyval == MPI_WIN_SIZE ? *(const MPI_Aint *)value : integer_of(value);
}

/* ---- callbacks ---- */

static int call_copy(MPI_Fint handle, int keyval, struct callbacks *c, void *in, void *out, int *flag)
{
    MPI_Fint code = MPI_SUCCESS;
    MPI_Aint old = integer_of(in), new = 0;
    int short_old = (int)old, short_new = 0;
    void *from = c->is_short ? (void *)&short_old : &old, *to = c->is_short ? (void *)&short_new : &new;
    c->copy(&handle, &keyval, &c->extra_state, from, to, flag, &code);
    if (code != MPI_SUCCESS || !*flag)
        return code;
    void *cell = new_cell(c->is_short ? short_new : new);
    *(void **)out = cell;
    return cell ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

static int call_delete(MPI_Fint handle, int keyval, void *value, struct callbacks *c)
{
    MPI_Fint code = MPI_SUCCESS;
    MPI_Aint old = integer_of(value);
    int short_old = (int)old;
    c->delete (&handle, &keyval, c->is_short ? (void *)&short_old : &old, &c->extra_state, &code);
    if (code == MPI_SUCCESS)
        free_cell(value);
    return code;
}

static struct callbacks *new_callbacks(copy_f *copy, delete_f *delete, MPI_Aint extra_state, bool is_short)
{
    struct callbacks *c = arena_alloc(sizeof *c);
    if (c)
        *c = (struct callbacks){copy, delete, extra_state, is_short};
    return c;
}

/* ---- routines, the same for each class of objects ---- */

#define ATTRIBUTES(type, name, lower)                                                                        \
    static int copy_##lower(type handle, int keyval, void *extra, void *in, void *out, int *flag)            \
    {                                                                                                        \
        return call_copy(P##name##_c2f(handle), keyval, extra, in, out, flag);                               \
    }                                                                                                        \
    static int delete_##lower(type handle, int keyval, void *value, void *extra)                             \
    {                                                                                                        \
        return call_delete(P##name##_c2f(handle), keyval, value, extra);                                     \
    }                                                                                                        \
    static int create_##lower(copy_f *copy, delete_f *delete, MPI_Fint *keyval, MPI_Aint extra, bool is_old) \
    {                                                                                                        \
        struct callbacks *c = new_callbacks(copy, delete, extra, is_old);                                    \
        return c ? P##name##_create_keyval(copy_##lower, delete_##lower, keyval, c) : MPI_ERR_NO_MEM;        \
    }                                                                                                        \
    static int get_##lower(MPI_Fint number, int keyval, MPI_Aint *value, MPI_Fint *flag)                     \
    {                                                                                                        \
        void *pointer = NULL;                                                                                \
        int code = P##name##_get_attr(P##name##_f2c(number), keyval, &pointer, flag);                        \
        if (code == MPI_SUCCESS && *flag)                                                                    \
            *value = value_for_fortran(keyval, pointer);                                                     \
        return code;                                                                                         \
    }                                                                                                        \
    static int set_##lower(MPI_Fint number, int keyval, MPI_Aint value)                                      \
    {                                                                                                        \
        void *cell = new_cell(value);                                                                        \
        int code = cell ? P##name##_set_attr(P##name##_f2c(number), keyval, cell) : MPI_ERR_NO_MEM;          \
        if (code != MPI_SUCCESS)                                                                             \
            free_cell(cell);                                                                                 \
        return code;                                                                                         \
    }                                                                                                        \
    void ompi_##lower##_create_keyval_f(copy_f *copy, delete_f *delete, MPI_Fint *keyval, MPI_Aint *extra,   \
                                        MPI_Fint *code)                                                      \
    {                                                                                                        \
        int c = create_##lower(copy, delete, keyval, *extra, false);                                         \
        if (code)                                                                                            \
            *code = c;                                                                                       \
    }                                                                                                        \
    void ompi_##lower##_get_attr_f(MPI_Fint *number, MPI_Fint *keyval, MPI_Aint *value, MPI_Fint *flag,      \
                                   MPI_Fint *code)                                                           \
    {                                                                                                        \
        int c = get_##lower(*number, *keyval, value, flag);                                                  \
        if (code)                                                                                            \
            *code = c;                                                                                       \
    }                                                                                                        \
    void ompi_##lower##_set_attr_f(MPI_Fint *number, MPI_Fint *keyval, MPI_Aint *value, MPI_Fint *code)      \
    {                                                                                                        \
        int c = set_##lower(*number, *keyval, *value);                                                       \
        if (code)                                                                                            \
            *code = c;                                                                                       \
    }

ATTRIBUTES(MPI_Comm, MPI_Comm, comm)
ATTRIBUTES(MPI_Datatype, MPI_Type, type)
ATTRIBUTES(MPI_Win, MPI_Win, win)

/* ---- MPI-1's routines for communicators ---- */

void ompi_keyval_create_f(copy_f *copy, delete_f *delete, MPI_Fint *keyval, MPI_Fint *extra, MPI_Fint *code)
{
    int c = create_comm(copy, delete, keyval, *extra, true);
    if (code)
        *code = c;
}

void ompi_attr_get_f(MPI_Fint *comm, MPI_Fint *keyval, MPI_Fint *value, MPI_Fint *flag, MPI_Fint *code)
{
    MPI_Aint whole = 0;
    int c = get_comm(*comm, *keyval, &whole, flag);
    if (c == MPI_SUCCESS && *flag)
        *value = (MPI_Fint)whole;
    if (code)
        *code = c;
}

void ompi_attr_put_f(MPI_Fint *comm, MPI_Fint *keyval, MPI_Fint *value, MPI_Fint *code)
{
    int c = set_comm(*comm, *keyval, *value);
    if (code)
        *code = c;
}
