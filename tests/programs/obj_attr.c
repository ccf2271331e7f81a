/*
 * obj_attr - what hangs on objects: attributes with callbacks, info objects, error handlers, error classes
 * and codes. Made once and used in every step, and made anew in each.
 */
#include "tests/programs/obj_mpi1.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/program.h"

struct things {
    struct program program;
    MPI_Comm comm, quiet, left; /* quiet: errors return; left: its handler has been given up */
    MPI_Datatype type;
    int comm_key, old_key, dup_key, type_key;
    MPI_Info info;
    MPI_Errhandler handler;
    int class, codes[2];
    long step;
};

/* What callbacks have seen. */
static struct {
    int copies, deletes, errors, code, calls_mpi;
    MPI_Comm comm;
} seen;
static jmp_buf out_of_handler;

static void add(struct things *t, long number)
{
    digest_add_number(&t->program.digest, (uint64_t)number);
}

static void add_text(struct things *t, const char *text)
{
    digest_add(&t->program.digest, text, strlen(text));
}

/* ---- attributes: a value is a number in malloc'ed memory, a copy is one more ---- */

static int copy_number(void *from, void *copy, int *flag)
{
    long *number = malloc(sizeof *number);
    *number = *(long *)from + 1;
    *(void **)copy = number;
    *flag = 1;
    seen.copies++;
    return MPI_SUCCESS;
}

static int copy_on_comm(MPI_Comm comm, int key, void *extra, void *value, void *copy, int *flag)
{
    int size;
    (void)key, (void)extra;
    MPI_Comm_size(comm, &size);
    seen.calls_mpi += size;
    return copy_number(value, copy, flag);
}

static int delete_on_comm(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key;
    seen.deletes += (int)*(long *)extra;
    free(value);
    return MPI_SUCCESS;
}

static int copy_on_type(MPI_Datatype type, int key, void *extra, void *value, void *copy, int *flag)
{
    int size;
    (void)key, (void)extra;
    MPI_Type_size(type, &size);
    seen.calls_mpi += size;
    return copy_number(value, copy, flag);
}

static int delete_on_type(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type, (void)key;
    seen.deletes += (int)*(long *)extra;
    free(value);
    return MPI_SUCCESS;
}

static long *number_new(long number)
{
    long *made = malloc(sizeof *made);
    *made = number;
    return made;
}

static void make_attributes(struct things *t)
{
    static long ten = 10, hundred = 100;
    MPI_Comm_create_keyval(copy_on_comm, delete_on_comm, &t->comm_key, &ten);
    MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, &t->old_key, NULL);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &t->dup_key, NULL);
    MPI_Type_create_keyval(copy_on_type, delete_on_type, &t->type_key, &hundred);
    MPI_Comm_set_attr(t->comm, t->comm_key, number_new(1));
    MPI_Attr_put(t->comm, t->old_key, &ten);
    MPI_Comm_set_attr(t->comm, t->dup_key, &hundred);
    MPI_Type_set_attr(t->type, t->type_key, number_new(5));
    MPI_Type_set_attr(MPI_INT, t->type_key, number_new(7));
}

static void ask_comm_key(struct things *t, MPI_Comm comm, int key)
{
    long *value = NULL;
    int is_there = 0;
    MPI_Comm_get_attr(comm, key, &value, &is_there);
    add(t, is_there ? *value : -1);
}

static void use_comm_attributes(struct things *t)
{
    MPI_Comm copy;
    int key;
    long *value = NULL;
    int is_there = 0;
    MPI_Comm_dup(t->comm, &copy);
    ask_comm_key(t, copy, t->comm_key);
    ask_comm_key(t, copy, t->old_key);
    ask_comm_key(t, copy, t->dup_key);
    MPI_Attr_get(t->comm, t->old_key, &value, &is_there);
    add(t, is_there ? *value : -1);
    MPI_Comm_set_attr(copy, t->comm_key, number_new(t->step)); /* deletes the old one */
    MPI_Comm_delete_attr(copy, t->comm_key);
    MPI_Attr_delete(copy, t->dup_key);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_on_comm, &key, value);
    MPI_Comm_set_attr(copy, key, number_new(3));
    MPI_Comm_free_keyval(&key); /* still used */
    add(t, key == MPI_KEYVAL_INVALID);
    MPI_Comm_free(&copy);
}

/* Open MPI takes attributes over here, too: into the new communicator, and into that of the file. */
static void use_taken_attributes(struct things *t)
{
    MPI_Comm made;
    MPI_Group group;
    MPI_File file;
    MPI_Comm_group(t->comm, &group);
    MPI_Comm_create_group(t->comm, group, 1, &made);
    ask_comm_key(t, made, t->comm_key);
    ask_comm_key(t, made, t->old_key);
    MPI_File_open(made, "/dev/null", MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    add(t, seen.copies + 100L * seen.deletes);
    MPI_File_close(&file);
    add(t, seen.copies + 100L * seen.deletes);
    MPI_Comm_free(&made);
    MPI_Group_free(&group);
}

static void ask_type_key(struct things *t, MPI_Datatype type, int key)
{
    long *value = NULL;
    int is_there = 0;
    MPI_Type_get_attr(type, key, &value, &is_there);
    add(t, is_there ? *value : -1);
}

static void use_type_attributes(struct things *t)
{
    static long five = 5;
    MPI_Datatype copy;
    int keys[2];
    MPI_Type_dup(t->type, &copy);
    ask_type_key(t, copy, t->type_key);
    ask_type_key(t, MPI_INT, t->type_key);
    MPI_Type_delete_attr(copy, t->type_key);
    ask_type_key(t, copy, t->type_key);
    MPI_Type_set_attr(copy, t->type_key, number_new(t->step));
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &keys[0], NULL);
    MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &keys[1], NULL);
    MPI_Type_set_attr(copy, keys[0], &five);
    MPI_Type_set_attr(copy, keys[1], &five);
    MPI_Datatype second;
    MPI_Type_dup(copy, &second);
    ask_type_key(t, second, keys[0]);
    ask_type_key(t, second, keys[1]);
    MPI_Type_free(&copy);
    MPI_Type_free(&second);
    MPI_Type_free_keyval(&keys[0]);
    MPI_Type_free_keyval(&keys[1]);
}

/* The values of these are the launch's, whatever it is: they are there, and sensible. */
static void ask_predefined(struct things *t)
{
    const int keys[] = {MPI_TAG_UB, MPI_HOST, MPI_IO, MPI_WTIME_IS_GLOBAL, MPI_LASTUSEDCODE, MPI_APPNUM};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int *value = NULL, is_there = 0;
        MPI_Comm_get_attr(MPI_COMM_WORLD, keys[i], &value, &is_there);
        add(t, is_there ? *value : -2);
    }
    int *universe = NULL, is_there = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &is_there);
    add(t, is_there && *universe >= t->program.ranks);
}

/* ---- info objects ---- */

static void use_info(struct things *t)
{
    MPI_Info copy;
    char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    int count, length, is_there;
    snprintf(value, sizeof value, "step %ld", t->step);
    MPI_Info_set(t->info, "last step", value);
    MPI_Info_set(t->info, "gone soon", "x");
    MPI_Info_dup(t->info, &copy);
    MPI_Info_delete(t->info, "gone soon");
    MPI_Info_get_nkeys(t->info, &count);
    for (int i = 0; i < count; i++) {
        MPI_Info_get_nthkey(t->info, i, key);
        MPI_Info_get_valuelen(t->info, key, &length, &is_there);
        MPI_Info_get(t->info, key, length, value, &is_there);
        add_text(t, key);
        add_text(t, value);
    }
    MPI_Info_get_nkeys(copy, &count);
    MPI_Info_get(copy, "first", MPI_MAX_INFO_VAL, value, &is_there);
    add_text(t, value);
    add(t, count);
    MPI_Info_free(&copy);
}

/* ---- error handlers, classes and codes ---- */

static void on_error(MPI_Comm *comm, int *code, ...)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(*code, text, &length);
    seen.errors++;
    seen.code = *code;
    seen.comm = *comm;
}

static void jump_out(MPI_Comm *comm, int *code, ...)
{
    MPI_Barrier(*comm); /* a handler may communicate, if all ranks have the error */
    seen.code = *code;
    longjmp(out_of_handler, 1);
}

static void make_handlers(struct things *t)
{
    MPI_Errhandler given_up;
    MPI_Comm_create_errhandler(on_error, &t->handler);
    MPI_Comm_set_errhandler(t->comm, t->handler);
    MPI_Comm_dup(t->comm, &t->quiet);
    MPI_Comm_set_errhandler(t->quiet, MPI_ERRORS_RETURN);
    MPI_Comm_dup(t->comm, &t->left);
    MPI_Errhandler_create(on_error, &given_up);
    MPI_Errhandler_set(t->left, given_up);
    MPI_Errhandler_free(&given_up);
    MPI_Add_error_class(&t->class);
    MPI_Add_error_code(t->class, &t->codes[0]);
    MPI_Add_error_code(MPI_ERR_ARG, &t->codes[1]);
    MPI_Add_error_string(t->class, "a class of its own");
    MPI_Add_error_string(t->codes[0], "first of its class");
    MPI_Add_error_string(t->codes[1], "an argument of another kind");
}

/* One error, and what it led to. */
static void note_error(struct things *t, MPI_Comm comm, int code, int errors)
{
    int class;
    MPI_Error_class(code, &class);
    if (seen.errors != errors || (errors && (seen.comm != comm || seen.code != code)))
        fail(&t->program, "step %ld: %d errors, the last %d, not %d", t->step, seen.errors, seen.code, code);
    add(t, class + 1000L * seen.errors);
    memset(&seen, 0, sizeof seen);
}

static void use_handlers(struct things *t)
{
    int number = 0, ranks = t->program.ranks;
    memset(&seen, 0, sizeof seen);
    note_error(t, t->comm, MPI_Send(&number, 1, MPI_INT, ranks + 1, 0, t->comm), 1);
    note_error(t, t->left, MPI_Bcast(&number, -1, MPI_INT, 0, t->left), 1);
    note_error(t, t->quiet, MPI_Send(&number, 1, MPI_INT, ranks + 1, 0, t->quiet), 0);
    MPI_Comm_call_errhandler(t->comm, t->codes[0]);
    note_error(t, t->comm, t->codes[0], 1);
    note_error(t, t->comm, MPI_Comm_call_errhandler(t->quiet, t->class), 0);
}

static void use_truncation(struct things *t)
{
    int out[4] = {1, 2, 3, 4}, in[4], rank = t->program.rank, ranks = t->program.ranks;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Irecv(in, 2, MPI_INT, (rank + 1) % ranks, 0, t->quiet, &requests[0]);
    MPI_Isend(out, 4, MPI_INT, (rank + ranks - 1) % ranks, 0, t->quiet, &requests[1]);
    program_step(&t->program, t->step);
    int code = MPI_Waitall(2, requests, statuses), class;
    MPI_Error_class(statuses[0].MPI_ERROR, &class);
    add(t, code == MPI_ERR_IN_STATUS && class == MPI_ERR_TRUNCATE);
}

static void jump(struct things *t)
{
    MPI_Errhandler jumper, before;
    MPI_Comm comm;
    int number = 0;
    MPI_Comm_dup(t->comm, &comm);
    MPI_Comm_create_errhandler(jump_out, &jumper);
    MPI_Comm_set_errhandler(comm, jumper);
    MPI_Errhandler_free(&jumper);
    if (setjmp(out_of_handler) == 0) {
        MPI_Send(&number, 1, MPI_INT, t->program.ranks + 1, 0, comm);
        fail(&t->program, "step %ld: the handler has returned", t->step);
    }
    MPI_Comm_free(&comm);
    MPI_Comm_get_errhandler(t->comm, &before);
    add(t, before == t->handler);
    MPI_Errhandler_free(&before);
    MPI_Errhandler_get(t->left, &before);
    MPI_Comm_set_errhandler(t->left, before);
    MPI_Errhandler_free(&before);
    memset(&seen, 0, sizeof seen);
}

/* Calls of MPI-1, and new codes: made in every step, gone with it. */
static void make_again(struct things *t)
{
    struct things fresh = {.program = t->program};
    int is_there = 0;
    MPI_Comm_dup(MPI_COMM_SELF, &fresh.comm);
    MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, &fresh.old_key, NULL);
    MPI_Attr_put(fresh.comm, fresh.old_key, &is_there);
    MPI_Attr_delete(fresh.comm, fresh.old_key);
    MPI_Keyval_free(&fresh.old_key);
    MPI_Errhandler_create(on_error, &fresh.handler);
    MPI_Errhandler_set(fresh.comm, fresh.handler);
    MPI_Errhandler_free(&fresh.handler);
    MPI_Add_error_class(&fresh.class);
    MPI_Add_error_code(fresh.class, &fresh.codes[0]);
    MPI_Add_error_string(fresh.codes[0], "of one step");
    add(t, fresh.codes[0]);
    MPI_Comm_free(&fresh.comm);
}

static void use_codes(struct things *t)
{
    char text[MPI_MAX_ERROR_STRING];
    const int numbers[] = {t->class, t->codes[0], t->codes[1], MPI_ERR_TRUNCATE};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        int class, length;
        MPI_Error_class(numbers[i], &class);
        MPI_Error_string(numbers[i], text, &length);
        add(t, class);
        add_text(t, text);
    }
}

static void use_memory(struct things *t)
{
    long *memory = NULL;
    MPI_Alloc_mem(sizeof *memory * 100, t->info, &memory);
    memory[99] = t->step;
    add(t, memory[99]);
    MPI_Free_mem(memory);
}

static void use_all(struct things *t)
{
    use_comm_attributes(t);
    use_taken_attributes(t);
    use_type_attributes(t);
    add(t, seen.copies + 100L * seen.deletes + 10000L * seen.calls_mpi);
    ask_comm_key(t, t->comm, t->comm_key);
    ask_type_key(t, t->type, t->type_key);
    ask_predefined(t);
    use_info(t);
    use_handlers(t);
    use_truncation(t);
    jump(t);
    use_codes(t);
    use_memory(t);
    make_again(t);
}

static void free_all(struct things *t)
{
    MPI_Comm *comms[] = {&t->comm, &t->quiet, &t->left};
    for (int i = 0; i < 3; i++)
        MPI_Comm_free(comms[i]);
    MPI_Type_delete_attr(MPI_INT, t->type_key);
    MPI_Type_free(&t->type);
    MPI_Comm_free_keyval(&t->comm_key);
    MPI_Keyval_free(&t->old_key);
    MPI_Comm_free_keyval(&t->dup_key);
    MPI_Type_free_keyval(&t->type_key);
    MPI_Info_free(&t->info);
    MPI_Errhandler_free(&t->handler);
    add(t, seen.deletes);
}

int main(int argc, char **argv)
{
    struct things t = {.program = {.steps = 200}};
    MPI_Init(&argc, &argv);
    program_begin(&t.program, "obj_attr", argc, argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &t.comm);
    MPI_Type_contiguous(3, MPI_INT, &t.type);
    MPI_Info_create(&t.info);
    MPI_Info_set(t.info, "first", "a value");
    make_attributes(&t);
    make_handlers(&t);
    for (t.step = 1; t.step <= t.program.steps; t.step++)
        use_all(&t);
    free_all(&t);
    program_end(&t.program);
    MPI_Finalize();
    return 0;
}
