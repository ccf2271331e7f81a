/* attr.c - see attr.h. */
#define OMPI_BUILDING 1 /* mpi.h declares MPI-1's names, too */
#include "mpi-layer/upper/attr.h"

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/errors.h"

#define FIRST_KEYVAL 1024 /* above the predefined ones */

struct keyval {
    int number;
    int is_freed;   /* by the application; attributes may still use it */
    int references; /* attributes */
    MPI_Comm_copy_attr_function *copy;
    MPI_Comm_delete_attr_function *delete;
    void *extra_state;
    struct keyval *next;
};

struct attribute {
    struct keyval *keyval;
    void *value;
    struct attribute *next; /* newest first */
};

static const int predefined_keys[] = {MPI_TAG_UB, MPI_HOST, MPI_IO, MPI_WTIME_IS_GLOBAL, MPI_UNIVERSE_SIZE,
                                      MPI_APPNUM, MPI_LASTUSEDCODE};
#define PREDEFINED_KEYS (sizeof predefined_keys / sizeof predefined_keys[0])

static int predefined_values[PREDEFINED_KEYS];
static int predefined_present[PREDEFINED_KEYS];
static struct keyval *keyvals;
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

static struct keyval *find_keyval(int number)
{
    struct keyval *k = keyvals;
    while (k && k->number != number)
        k = k->next;
    return k;
}

static void drop_keyval(struct keyval *keyval)
{
    struct keyval **link = &keyvals;
    if (!keyval->is_freed || keyval->references)
        return;
    while (*link != keyval)
        link = &(*link)->next;
    *link = keyval->next;
    arena_free(keyval);
}

static struct attribute **find(struct comm *c, const struct keyval *keyval)
{
    struct attribute **link = &c->attributes;
    while (*link && (*link)->keyval != keyval)
        link = &(*link)->next;
    return link;
}

static int add(struct comm *c, struct keyval *keyval, void *value)
{
    struct attribute *a = arena_alloc(sizeof *a);
    if (!a)
        return MPI_ERR_NO_MEM;
    *a = (struct attribute){keyval, value, c->attributes};
    c->attributes = a;
    keyval->references++;
    return MPI_SUCCESS;
}

/* Callbacks run outside the wrapper: they may call MPI, and a line may come. */
static int remove_at(MPI_Comm comm, struct attribute **link)
{
    struct attribute *a = *link;
    struct keyval *keyval = a->keyval;
    int code = MPI_SUCCESS;
    if (keyval->delete)
        code = keyval->delete(comm, keyval->number, a->value, keyval->extra_state);
    if (code != MPI_SUCCESS)
        return code;
    link = find(comm_of(comm), keyval);
    if (*link) {
        a = *link;
        *link = a->next;
        arena_free(a);
        keyval->references--;
        drop_keyval(keyval);
    }
    return MPI_SUCCESS;
}

int attr_delete_all(MPI_Comm comm)
{
    struct comm *c = comm_of(comm);
    int code = MPI_SUCCESS;
    while (c && c->attributes && code == MPI_SUCCESS)
        code = remove_at(comm, &c->attributes);
    return code;
}

static int copy_one(MPI_Comm from, MPI_Comm to, const struct attribute *a)
{
    struct keyval *k = a->keyval;
    void *value = NULL;
    int flag = 0;
    int code = k->copy ? k->copy(from, k->number, k->extra_state, a->value, &value, &flag) : MPI_SUCCESS;
    return code == MPI_SUCCESS && flag ? add(comm_of(to), k, value) : code;
}

int attr_copy_all(MPI_Comm from, MPI_Comm to)
{
    int code = MPI_SUCCESS;
    for (const struct attribute *a = comm_of(from)->attributes; a && code == MPI_SUCCESS; a = a->next)
        code = copy_one(from, to, a);
    return code;
}

int PMPI_Comm_create_keyval(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *delete,
                            int *keyval, void *extra_state)
{
    struct keyval *k = arena_alloc(sizeof *k);
    if (!k)
        return errors_raise(NULL, MPI_ERR_NO_MEM);
    *k = (struct keyval){next_keyval++, 0, 0, copy, delete, extra_state, keyvals};
    keyvals = k;
    *keyval = k->number;
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Comm_create_keyval);

int PMPI_Comm_free_keyval(int *keyval)
{
    struct keyval *k = find_keyval(*keyval);
    if (!k || k->is_freed)
        return errors_raise(NULL, MPI_ERR_KEYVAL);
    k->is_freed = 1;
    drop_keyval(k);
    *keyval = MPI_KEYVAL_INVALID;
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Comm_free_keyval);

int PMPI_Comm_set_attr(MPI_Comm comm, int keyval, void *value)
{
    struct keyval *k = find_keyval(keyval);
    struct comm *c = comm_of(comm);
    if (!c)
        return errors_raise(comm, MPI_ERR_COMM);
    if (!k)
        return errors_raise(comm, MPI_ERR_KEYVAL);
    struct attribute **link = find(c, k);
    int code = *link ? remove_at(comm, link) : MPI_SUCCESS;
    if (code == MPI_SUCCESS)
        code = add(c, k, value);
    return code == MPI_SUCCESS ? code : errors_raise(comm, code);
}
API_EXPORT(MPI_Comm_set_attr);

static int get_predefined(int keyval, void *value, int *flag)
{
    for (size_t i = 0; i < PREDEFINED_KEYS; i++)
        if (predefined_keys[i] == keyval) {
            *flag = predefined_present[i];
            if (*flag)
                *(void **)value = &predefined_values[i];
            return 1;
        }
    return 0;
}

int PMPI_Comm_get_attr(MPI_Comm comm, int keyval, void *value, int *flag)
{
    struct comm *c = comm_of(comm);
    if (!c)
        return errors_raise(comm, MPI_ERR_COMM);
    if (get_predefined(keyval, value, flag))
        return MPI_SUCCESS;
    struct keyval *k = find_keyval(keyval);
    if (!k)
        return errors_raise(comm, MPI_ERR_KEYVAL);
    struct attribute *a = *find(c, k);
    *flag = a != NULL;
    if (a)
        *(void **)value = a->value;
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Comm_get_attr);

int PMPI_Comm_delete_attr(MPI_Comm comm, int keyval)
{
    struct keyval *k = find_keyval(keyval);
    struct comm *c = comm_of(comm);
    if (!c || !k)
        return errors_raise(comm, c ? MPI_ERR_KEYVAL : MPI_ERR_COMM);
    struct attribute **link = find(c, k);
    int code = *link ? remove_at(comm, link) : MPI_ERR_KEYVAL;
    return code == MPI_SUCCESS ? code : errors_raise(comm, code);
}
API_EXPORT(MPI_Comm_delete_attr);

/* MPI-1's names of the same. */

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
