/* attr.c - see attr.h. */
#define OMPI_BUILDING 1 /* mpi.h declares MPI-1's names, too */
#include "mpi-layer/upper/attr.h"

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/table.h"

#define FIRST_KEYVAL 1024 /* above the predefined ones */

/* The callbacks of all kinds of objects differ in the type of the handle only. */
typedef int copy_f(void *object, int keyval, void *extra_state, void *value, void *copy, int *flag);
typedef int delete_f(void *object, int keyval, void *value, void *extra_state);

struct keyval {
    struct table_entry entry;
    int number;
    enum handle_kind kind; /* of the objects that it is for */
    int is_freed;          /* by the application; attributes may still use it */
    int references;        /* attributes */
    copy_f *copy;
    delete_f *delete;
    void *extra_state;
};

struct attribute {
    struct keyval *keyval;
    void *value;
    struct attribute *next; /* newest first */
};

static const int predefined_keys[] = {MPI_TAG_UB,        MPI_HOST,   MPI_IO,          MPI_WTIME_IS_GLOBAL,
                                      MPI_UNIVERSE_SIZE, MPI_APPNUM, MPI_LASTUSEDCODE};
#define PREDEFINED_KEYS (sizeof predefined_keys / sizeof predefined_keys[0])

static int predefined_values[PREDEFINED_KEYS];
static int predefined_present[PREDEFINED_KEYS];
static struct table keyvals;
static int next_keyval = FIRST_KEYVAL;

void attr_bind_predefined(void)
{
    for (size_t i = 0; i < PREDEFINED_KEYS; i++) {
        int *value = NULL;
        lower_MPI_Comm_get_attr(api_real(MPI_COMM_WORLD), predefined_keys[i], &value, &predefined_present[i]);
        if (predefined_present[i] && value)
            predefined_values[i] = *value;
    }
}

static struct keyval *find_keyval(enum handle_kind kind, int number)
{
    struct table_entry *e = table_first(&keyvals, table_hash(kind, number, 0));
    for (; e; e = table_next(e)) {
        struct keyval *k = TABLE_OWNER(e, struct keyval, entry);
        if (k->number == number && k->kind == kind)
            return k;
    }
    return NULL;
}

static void drop_keyval(struct keyval *keyval)
{
    if (!keyval->is_freed || keyval->references)
        return;
    table_remove(&keyvals, &keyval->entry);
    arena_free(keyval);
}

static struct attribute **find(struct handle *object, const struct keyval *keyval)
{
    struct attribute **link = &object->attributes;
    while (*link && (*link)->keyval != keyval)
        link = &(*link)->next;
    return link;
}

static void link_new(struct handle *object, struct attribute *a, struct keyval *keyval, void *value)
{
    *a = (struct attribute){keyval, value, object->attributes};
    object->attributes = a;
    keyval->references++;
}

static int add(struct handle *object, struct keyval *keyval, void *value)
{
    struct attribute *a = arena_alloc(sizeof *a);
    if (!a)
        return MPI_ERR_NO_MEM;
    link_new(object, a, keyval, value);
    return MPI_SUCCESS;
}

/* Callbacks run outside the wrapper: they may call MPI, and a line may come. */
static int remove_at(struct handle *object, struct attribute **link)
{
    struct attribute *a = *link;
    struct keyval *keyval = a->keyval;
    int code = MPI_SUCCESS;
    if (keyval->delete)
        code = keyval->delete (object, keyval->number, a->value, keyval->extra_state);
    if (code != MPI_SUCCESS)
        return code;
    link = find(object, keyval);
    if (*link) {
        a = *link;
        *link = a->next;
        arena_free(a);
        keyval->references--;
        drop_keyval(keyval);
    }
    return MPI_SUCCESS;
}

int attr_delete_all(void *handle)
{
    struct handle *object = handle;
    int code = MPI_SUCCESS;
    while (object->attributes && code == MPI_SUCCESS)
        code = remove_at(object, &object->attributes);
    return code;
}

static int copy_one(struct handle *from, struct handle *to, const struct attribute *a)
{
    struct keyval *k = a->keyval;
    void *value = NULL;
    int flag = 0;
    int code = k->copy ? k->copy(from, k->number, k->extra_state, a->value, &value, &flag) : MPI_SUCCESS;
    return code == MPI_SUCCESS && flag ? add(to, k, value) : code;
}

int attr_copy_all(void *from, void *to)
{
    const struct handle *object = from;
    int code = MPI_SUCCESS;
    for (const struct attribute *a = object->attributes; a && code == MPI_SUCCESS; a = a->next)
        code = copy_one(from, to, a);
    return code;
}

/* ---- the calls, for any kind of object; they return MPI codes ---- */

static int create_keyval(enum handle_kind kind, copy_f *copy, delete_f *delete, int *keyval,
                         void *extra_state)
{
    struct keyval *k = arena_alloc(sizeof *k);
    if (!k)
        return MPI_ERR_NO_MEM;
    *k = (struct keyval){{0}, next_keyval++, kind, 0, 0, copy, delete, extra_state};
    table_add(&keyvals, &k->entry, table_hash(kind, k->number, 0));
    *keyval = k->number;
    return MPI_SUCCESS;
}

static int free_keyval(enum handle_kind kind, int *keyval)
{
    struct keyval *k = find_keyval(kind, *keyval);
    if (!k || k->is_freed)
        return MPI_ERR_KEYVAL;
    k->is_freed = 1;
    drop_keyval(k);
    *keyval = MPI_KEYVAL_INVALID;
    return MPI_SUCCESS;
}

static int set_attr(struct handle *object, int keyval, void *value)
{
    struct keyval *k = find_keyval(object->kind, keyval);
    if (!k)
        return MPI_ERR_KEYVAL;
    struct attribute **link = find(object, k), *a = arena_alloc(sizeof *a);
    if (!a)
        return MPI_ERR_NO_MEM;
    k->references++; /* the old value's may be the last one of a keyval that is freed */
    int code = *link ? remove_at(object, link) : MPI_SUCCESS;
    if (code == MPI_SUCCESS)
        link_new(object, a, k, value);
    else
        arena_free(a);
    k->references--;
    drop_keyval(k);
    return code;
}

static int get_attr(struct handle *object, int keyval, void *value, int *flag)
{
    struct keyval *k = find_keyval(object->kind, keyval);
    if (!k)
        return MPI_ERR_KEYVAL;
    struct attribute *a = *find(object, k);
    *flag = a != NULL;
    if (a)
        *(void **)value = a->value;
    return MPI_SUCCESS;
}

static int delete_attr(struct handle *object, int keyval)
{
    struct keyval *k = find_keyval(object->kind, keyval);
    struct attribute **link = k ? find(object, k) : NULL;
    return link && *link ? remove_at(object, link) : MPI_ERR_KEYVAL;
}

static bool get_predefined(int keyval, void *value, int *flag)
{
    for (size_t i = 0; i < PREDEFINED_KEYS; i++)
        if (predefined_keys[i] == keyval) {
            *flag = predefined_present[i];
            if (*flag)
                *(void **)value = &predefined_values[i];
            return true;
        }
    return false;
}

/* ---- communicators ---- */

/* The end of all calls: an error goes to the handler of comm, NULL: of MPI_COMM_WORLD. */
static int ended(MPI_Comm comm, int code)
{
    return code == MPI_SUCCESS ? code : errors_raise(comm, code);
}

static struct handle *object_of(MPI_Comm comm)
{
    return comm_of(comm) ? comm_of(comm)->handle : NULL;
}

int PMPI_Comm_create_keyval(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *delete,
                            int *keyval, void *extra_state)
{
    return ended(NULL, create_keyval(HANDLE_COMM, (copy_f *)(void *)copy, (delete_f *)(void *)delete, keyval,
                                     extra_state));
}
API_EXPORT(MPI_Comm_create_keyval);

int PMPI_Comm_free_keyval(int *keyval)
{
    return ended(NULL, free_keyval(HANDLE_COMM, keyval));
}
API_EXPORT(MPI_Comm_free_keyval);

int PMPI_Comm_set_attr(MPI_Comm comm, int keyval, void *value)
{
    struct handle *object = object_of(comm);
    return ended(comm, object ? set_attr(object, keyval, value) : MPI_ERR_COMM);
}
API_EXPORT(MPI_Comm_set_attr);

int PMPI_Comm_get_attr(MPI_Comm comm, int keyval, void *value, int *flag)
{
    struct handle *object = object_of(comm);
    if (object && get_predefined(keyval, value, flag))
        return MPI_SUCCESS;
    return ended(comm, object ? get_attr(object, keyval, value, flag) : MPI_ERR_COMM);
}
API_EXPORT(MPI_Comm_get_attr);

int PMPI_Comm_delete_attr(MPI_Comm comm, int keyval)
{
    struct handle *object = object_of(comm);
    return ended(comm, object ? delete_attr(object, keyval) : MPI_ERR_COMM);
}
API_EXPORT(MPI_Comm_delete_attr);

/* ---- datatypes, predefined ones among them ---- */

static struct handle *type_object(MPI_Datatype type)
{
    return type == MPI_DATATYPE_NULL ? NULL : (struct handle *)(void *)type;
}

int PMPI_Type_create_keyval(MPI_Type_copy_attr_function *copy, MPI_Type_delete_attr_function *delete,
                            int *keyval, void *extra_state)
{
    return ended(NULL, create_keyval(HANDLE_DATATYPE, (copy_f *)(void *)copy, (delete_f *)(void *)delete,
                                     keyval, extra_state));
}
API_EXPORT(MPI_Type_create_keyval);

int PMPI_Type_free_keyval(int *keyval)
{
    return ended(NULL, free_keyval(HANDLE_DATATYPE, keyval));
}
API_EXPORT(MPI_Type_free_keyval);

int PMPI_Type_set_attr(MPI_Datatype type, int keyval, void *value)
{
    struct handle *object = type_object(type);
    return ended(NULL, object ? set_attr(object, keyval, value) : MPI_ERR_TYPE);
}
API_EXPORT(MPI_Type_set_attr);

int PMPI_Type_get_attr(MPI_Datatype type, int keyval, void *value, int *flag)
{
    struct handle *object = type_object(type);
    return ended(NULL, object ? get_attr(object, keyval, value, flag) : MPI_ERR_TYPE);
}
API_EXPORT(MPI_Type_get_attr);

int PMPI_Type_delete_attr(MPI_Datatype type, int keyval)
{
    struct handle *object = type_object(type);
    return ended(NULL, object ? delete_attr(object, keyval) : MPI_ERR_TYPE);
}
API_EXPORT(MPI_Type_delete_attr);

/* ---- MPI-1's names of the same ---- */

int PMPI_Keyval_create(MPI_Copy_function *copy, MPI_Delete_function *delete, int *keyval, void *extra_state)
{
    return PMPI_Comm_create_keyval(copy, delete, keyval, extra_state);
}
API_EXPORT(MPI_Keyval_create);

int PMPI_Keyval_free(int *keyval)
{
    return PMPI_Comm_free_keyval(keyval);
}
API_EXPORT(MPI_Keyval_free);

int PMPI_Attr_put(MPI_Comm comm, int keyval, void *value)
{
    return PMPI_Comm_set_attr(comm, keyval, value);
}
API_EXPORT(MPI_Attr_put);

int PMPI_Attr_get(MPI_Comm comm, int keyval, void *value, int *flag)
{
    return PMPI_Comm_get_attr(comm, keyval, value, flag);
}
API_EXPORT(MPI_Attr_get);

int PMPI_Attr_delete(MPI_Comm comm, int keyval)
{
    return PMPI_Comm_delete_attr(comm, keyval);
}
API_EXPORT(MPI_Attr_delete);
