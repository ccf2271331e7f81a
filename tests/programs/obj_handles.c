/*
 * obj_handles - handles of all kinds as integers of Fortran, which a program may keep for as long as it
 * likes; and what is asked of the library itself: names, versions, clocks, levels.
 */
#include <mpi.h>
#include <string.h>

#include "tests/programs/program.h"

struct handles {
    struct program program;
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Group group;
    MPI_Op op;
    MPI_Info info;
    MPI_Errhandler errhandler;
    MPI_File file;
    MPI_Request request;
    MPI_Message message;
    MPI_Fint comm_number, type_number, group_number, op_number, info_number, errhandler_number, file_number,
        request_number, message_number;
    int in[2];
};

static void demand(const struct handles *h, int fact, const char *what)
{
    if (!fact)
        fail(&h->program, "%s", what);
}

static void keep_smaller(void *in, void *out, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        if (((int *)in)[i] < ((int *)out)[i])
            ((int *)out)[i] = ((int *)in)[i];
}

static void ignore_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
}

static void make(struct handles *h)
{
    MPI_Comm_dup(MPI_COMM_WORLD, &h->comm);
    MPI_Type_contiguous(3, MPI_INT, &h->type);
    MPI_Comm_group(h->comm, &h->group);
    MPI_Op_create(keep_smaller, 1, &h->op);
    MPI_Info_create(&h->info);
    MPI_Comm_create_errhandler(ignore_error, &h->errhandler);
    MPI_File_open(h->comm, "io-handles.dat", MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &h->file);
    h->comm_number = MPI_Comm_c2f(h->comm);
    h->type_number = MPI_Type_c2f(h->type);
    h->group_number = MPI_Group_c2f(h->group);
    h->op_number = MPI_Op_c2f(h->op);
    h->info_number = MPI_Info_c2f(h->info);
    h->errhandler_number = MPI_Errhandler_c2f(h->errhandler);
    h->file_number = MPI_File_c2f(h->file);
}

static void use_kept(struct handles *h)
{
    demand(h, MPI_Comm_f2c(h->comm_number) == h->comm && MPI_Comm_c2f(h->comm) == h->comm_number,
           "communicator");
    demand(h, MPI_Type_f2c(h->type_number) == h->type && MPI_Type_c2f(h->type) == h->type_number, "datatype");
    demand(h, MPI_Group_f2c(h->group_number) == h->group && MPI_Group_c2f(h->group) == h->group_number,
           "group");
    demand(h, MPI_Op_f2c(h->op_number) == h->op && MPI_Op_c2f(h->op) == h->op_number, "operation");
    demand(h, MPI_Info_f2c(h->info_number) == h->info && MPI_Info_c2f(h->info) == h->info_number,
           "info object");
    demand(h,
           MPI_Errhandler_f2c(h->errhandler_number) == h->errhandler &&
               MPI_Errhandler_c2f(h->errhandler) == h->errhandler_number,
           "error handler");
    demand(h, MPI_File_f2c(h->file_number) == h->file && MPI_File_c2f(h->file) == h->file_number, "file");
    demand(h, MPI_Win_f2c(MPI_Win_c2f(MPI_WIN_NULL)) == MPI_WIN_NULL, "window");
}

/* A request and a matched message are pending, known by their integers alone. */
static void exchange(struct handles *h, long step)
{
    int right = (h->program.rank + 1) % h->program.ranks, out[2] = {(int)step, h->program.rank}, flag, level;
    MPI_Status status, copy;
    MPI_Fint words[sizeof status / sizeof(MPI_Fint) + 8];
    MPI_Request sends[2];
    MPI_Irecv(&h->in[0], 1, MPI_INT, MPI_ANY_SOURCE, 0, h->comm, &h->request);
    h->request_number = MPI_Request_c2f(h->request);
    MPI_Isend(&out[1], 1, MPI_INT, right, 1, h->comm, &sends[1]);
    MPI_Mprobe(MPI_ANY_SOURCE, 1, h->comm, &h->message, MPI_STATUS_IGNORE);
    h->message_number = MPI_Message_c2f(h->message);
    program_step(&h->program, step);
    MPI_Isend(&out[0], 1, MPI_INT, right, 0, h->comm, &sends[0]);
    h->request = MPI_Request_f2c(h->request_number);
    h->message = MPI_Message_f2c(h->message_number);
    MPI_Mrecv(&h->in[1], 1, MPI_INT, &h->message, &status);
    MPI_Status_c2f(&status, words);
    MPI_Status_f2c(words, &copy);
    demand(h, copy.MPI_SOURCE == status.MPI_SOURCE && copy.MPI_TAG == 1, "status");
    MPI_Status_set_cancelled(&copy, 1);
    MPI_Test_cancelled(&copy, &flag);
    MPI_Status_set_elements(&copy, MPI_INT, 5);
    MPI_Status_set_elements_x(&copy, MPI_INT, 6);
    MPI_Get_count(&copy, MPI_INT, &level);
    demand(h, flag && level == 6, "status");
    MPI_Wait(&h->request, MPI_STATUS_IGNORE);
    MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
    digest_add(&h->program.digest, h->in, sizeof h->in);
}

static void ask(struct handles *h)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, is_initialized, is_finalized, is_main, level, version, subversion, parts[2] = {0, 0};
    static double last;
    MPI_Comm parent;
    double now = MPI_Wtime();
    demand(h, now >= last && MPI_Wtick() > 0, "clock");
    last = now;
    MPI_Get_library_version(text, &length);
    MPI_Get_version(&version, &subversion);
    MPI_Get_processor_name(text, &length);
    MPI_Initialized(&is_initialized);
    MPI_Finalized(&is_finalized);
    MPI_Is_thread_main(&is_main);
    MPI_Query_thread(&level);
    MPI_Comm_get_parent(&parent);
    MPI_Dims_create(6, 2, parts);
    demand(h,
           version == 3 && is_initialized && !is_finalized && is_main && level == MPI_THREAD_FUNNELED &&
               parent == MPI_COMM_NULL && parts[0] == 3,
           "facts");
}

static void free_all(struct handles *h)
{
    MPI_File_close(&h->file);
    MPI_Comm_free(&h->comm);
    MPI_Type_free(&h->type);
    MPI_Group_free(&h->group);
    MPI_Op_free(&h->op);
    MPI_Info_free(&h->info);
    MPI_Errhandler_free(&h->errhandler);
}

int main(int argc, char **argv)
{
    struct handles h = {.program = {.steps = 100}}, copy;
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    program_begin(&h.program, "obj_handles", argc, argv);
    make(&h);
    for (long step = 1; step <= h.program.steps; step++) {
        exchange(&h, step);
        use_kept(&h);
        ask(&h);
        copy.program = h.program;
        make(&copy);
        free_all(&copy);
    }
    free_all(&h);
    program_end(&h.program);
    MPI_Finalize();
    return 0;
}
