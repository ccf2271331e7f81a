/*
 * io_update - MPI-IO that changes what a file is: in place, its length, its existence, what is known of it. A
 * step done twice, or on a file that was not put back, would show. --mode says which.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/program.h"

#define WORDS 64 /* of a block */
#define BLOCK_BYTES ((MPI_Offset)(WORDS * sizeof(uint64_t)))

struct work {
    struct program program;
    MPI_File file, own; /* open all the time; own: of this rank alone, in some modes */
    uint64_t data[WORDS];
};

struct mode {
    const char *name;
    int amode;
    void (*open)(struct work *work); /* after the file has been opened, NULL: nothing to do */
    void (*step)(struct work *work, long step);
};

#define CHECK(call) check_mpi(&work->program, call, #call)

static void take_number(struct work *work, long long number)
{
    digest_add_number(&work->program.digest, (uint64_t)number);
}

static MPI_Offset block(const struct work *work, long round)
{
    return ((MPI_Offset)round * work->program.ranks + work->program.rank) * BLOCK_BYTES;
}

/* Read this rank's block of a round, as far as there is one, and write it again, counted up. */
static void count_up(struct work *work, MPI_File file, long round, long step)
{
    MPI_Status status;
    int count = 0;
    memset(work->data, 0, sizeof work->data);
    CHECK(MPI_File_read_at(file, block(work, round), work->data, WORDS, MPI_UINT64_T, &status));
    MPI_Get_count(&status, MPI_UINT64_T, &count);
    take_number(work, count);
    digest_add(&work->program.digest, work->data, sizeof work->data);
    MPI_Barrier(MPI_COMM_WORLD); /* a block that is read must not be lengthened by another's */
    for (int i = 0; i < WORDS; i++)
        work->data[i] += (uint64_t)(step * (i + 1));
    CHECK(MPI_File_write_at(file, block(work, round), work->data, WORDS, MPI_UINT64_T, &status));
    MPI_Barrier(MPI_COMM_WORLD);
}

static void take_size(struct work *work)
{
    MPI_Offset size;
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_get_size(work->file, &size));
    take_number(work, size);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- in place; every few steps the file is cut ---- */

static void step_place(struct work *work, long step)
{
    count_up(work, work->file, 0, step);
    program_step(&work->program, step);
    count_up(work, work->file, 1 + step % 5, step);
    take_size(work);
    if (step % 7 == 0)
        CHECK(MPI_File_set_size(work->file, work->program.ranks * BLOCK_BYTES));
    take_size(work);
}

/* ---- growing: at the end, and by preallocation, which Open MPI gets right on one rank only ---- */

static void open_grow(struct work *work)
{
    char path[] = "io-own-x.dat";
    path[strlen(path) - 5] = (char)('0' + work->program.rank % 10);
    CHECK(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, MPI_INFO_NULL,
                        &work->own));
}

static void step_grow(struct work *work, long step)
{
    MPI_Offset size;
    MPI_Status status;
    CHECK(MPI_File_get_size(work->file, &size));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_seek(work->file, size + work->program.rank * BLOCK_BYTES, MPI_SEEK_SET));
    memset(work->data, (int)step, sizeof work->data);
    CHECK(MPI_File_write(work->file, work->data, WORDS, MPI_UINT64_T, &status));
    take_size(work);
    program_step(&work->program, step);
    if (step % 5 == 0)
        CHECK(MPI_File_preallocate(work->own, step * BLOCK_BYTES));
    CHECK(MPI_File_get_size(work->own, &size));
    take_number(work, size);
}

/* ---- files that come and go ---- */

static void open_other(struct work *work, int amode, MPI_File *file)
{
    CHECK(MPI_File_open(MPI_COMM_WORLD, "io-other.dat", amode | MPI_MODE_RDWR, MPI_INFO_NULL, file));
}

static void step_names(struct work *work, long step)
{
    MPI_File other;
    int is_last = step % 4 == 3;
    open_other(work, step % 4 ? 0 : MPI_MODE_CREATE | MPI_MODE_EXCL, &other);
    count_up(work, other, step % 3, step);
    program_step(&work->program, step);
    CHECK(MPI_File_close(&other));
    if (is_last && step % 8 == 3) {
        open_other(work, MPI_MODE_DELETE_ON_CLOSE, &other);
        program_step(&work->program, step);
        CHECK(MPI_File_close(&other));
    } else if (is_last && work->program.rank == 0) {
        CHECK(MPI_File_delete("io-other.dat", MPI_INFO_NULL));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_last && MPI_File_delete("io-other.dat", MPI_INFO_NULL) == MPI_SUCCESS)
        fail(&work->program, "a deleted file is there");
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- what is known of an open file ---- */

static void open_facts(struct work *work)
{
    MPI_Info info;
    MPI_Datatype view;
    char representation[] = "external32";
    MPI_Info_create(&info);
    MPI_Info_set(info, "access_style", "write_once");
    MPI_Type_vector(3, 2, 5, MPI_INT, &view);
    MPI_Type_commit(&view);
    CHECK(MPI_File_set_view(work->file, 24, MPI_INT, view, representation, info));
    CHECK(MPI_File_set_info(work->file, info));
    MPI_Type_free(&view);
    MPI_Info_free(&info);
}

static void take_view(struct work *work)
{
    MPI_Offset displacement;
    MPI_Datatype etype, filetype;
    MPI_Aint lower_bound, extent;
    int size;
    char representation[MPI_MAX_DATAREP_STRING];
    CHECK(MPI_File_get_view(work->file, &displacement, &etype, &filetype, representation));
    take_number(work, displacement);
    take_number(work, etype == MPI_INT);
    MPI_Type_size(filetype, &size);
    MPI_Type_get_extent(filetype, &lower_bound, &extent);
    take_number(work, size);
    take_number(work, extent);
    MPI_Type_free(&filetype);
    digest_add(&work->program.digest, representation, strlen(representation));
}

static void take_hints(struct work *work)
{
    MPI_Info info;
    char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    int keys, is_there;
    CHECK(MPI_File_get_info(work->file, &info));
    MPI_Info_get_nkeys(info, &keys);
    for (int i = 0; i < keys; i++) {
        MPI_Info_get_nthkey(info, i, key);
        MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &is_there);
        digest_add(&work->program.digest, key, strlen(key));
        digest_add(&work->program.digest, value, strlen(value));
    }
    MPI_Info_free(&info);
}

static void take_group(struct work *work)
{
    MPI_Group group, world;
    int result;
    CHECK(MPI_File_get_group(work->file, &group));
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(group, world, &result);
    take_number(work, result == MPI_IDENT);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
}

static void step_facts(struct work *work, long step)
{
    int amode, atomicity;
    MPI_Aint extent;
    MPI_Offset offset;
    CHECK(MPI_File_set_atomicity(work->file, step % 3 == 0));
    program_step(&work->program, step);
    CHECK(MPI_File_get_atomicity(work->file, &atomicity));
    take_number(work, atomicity);
    CHECK(MPI_File_get_amode(work->file, &amode));
    take_number(work, amode);
    CHECK(MPI_File_get_type_extent(work->file, MPI_DOUBLE, &extent));
    take_number(work, extent);
    CHECK(MPI_File_get_byte_offset(work->file, step, &offset));
    take_number(work, offset);
    CHECK(MPI_File_sync(work->file));
    open_facts(work); /* the same view and hints again */
    take_view(work);
    take_hints(work);
    take_group(work);
}

/* ---- a sequence: nothing but the shared pointer ---- */

static void step_sequence(struct work *work, long step)
{
    MPI_Status status;
    memset(work->data, (int)step + work->program.rank, sizeof work->data);
    CHECK(MPI_File_write_ordered(work->file, work->data, WORDS, MPI_UINT64_T, &status));
    program_step(&work->program, step);
}

/* ---- error handlers ---- */

static long errors_seen[2]; /* on the open file; without a file */

static void on_error(MPI_File *file, int *code, ...)
{
    int class;
    MPI_Error_class(*code, &class);
    errors_seen[*file == MPI_FILE_NULL] += class;
}

static void open_errors(struct work *work)
{
    MPI_Errhandler handler;
    CHECK(MPI_File_create_errhandler(on_error, &handler));
    CHECK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
    CHECK(MPI_File_set_errhandler(work->file, handler));
    MPI_Errhandler_free(&handler);
}

static void step_errors(struct work *work, long step)
{
    MPI_File missing;
    MPI_Errhandler handler, standard;
    MPI_Status status;
    CHECK(MPI_File_get_errhandler(work->file, &handler));
    program_step(&work->program, step);
    MPI_File_read_at(work->file, 0, work->data, 1, MPI_UINT64_T, &status); /* it is not open for reading */
    MPI_File_open(MPI_COMM_SELF, "missing.dat", MPI_MODE_RDONLY, MPI_INFO_NULL, &missing);
    CHECK(MPI_File_set_errhandler(work->file, MPI_ERRORS_RETURN));
    CHECK(MPI_File_get_errhandler(work->file, &standard));
    take_number(work, standard == MPI_ERRORS_RETURN);
    take_number(work, MPI_File_read_at(work->file, 0, work->data, 1, MPI_UINT64_T, &status) != MPI_SUCCESS);
    CHECK(MPI_File_set_errhandler(work->file, handler));
    CHECK(MPI_File_call_errhandler(work->file, MPI_ERR_QUOTA));
    MPI_Errhandler_free(&handler);
    CHECK(MPI_File_create_errhandler(on_error, &handler));
    MPI_Errhandler_free(&handler);
    take_number(work, errors_seen[0]);
    take_number(work, errors_seen[1]);
}

static const struct mode modes[] = {
    {"place", MPI_MODE_RDWR, NULL, step_place},
    {"grow", MPI_MODE_RDWR | MPI_MODE_APPEND, open_grow, step_grow},
    {"names", MPI_MODE_RDWR, NULL, step_names},
    {"facts", MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, open_facts, step_facts},
    {"errors", MPI_MODE_WRONLY, open_errors, step_errors},
    {"sequence", MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, NULL, step_sequence},
};

static const struct mode *find_mode(const struct program *program)
{
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (!strcmp(modes[i].name, program->mode))
            return &modes[i];
    fail(program, "no mode %s", program->mode);
}

int main(int argc, char **argv)
{
    struct work w = {.program = {.steps = 100, .seconds = 2, .mode = "place"}}, *work = &w;
    work->own = MPI_FILE_NULL;
    MPI_Init(&argc, &argv);
    program_begin(&work->program, "io_update", argc, argv);
    const struct mode *mode = find_mode(&work->program);
    CHECK(MPI_File_open(MPI_COMM_WORLD, "io-update.dat", mode->amode | MPI_MODE_CREATE | MPI_MODE_EXCL,
                        MPI_INFO_NULL, &work->file));
    if (mode->open)
        mode->open(work);
    for (long step = 0; step < work->program.steps; step++)
        mode->step(work, step);
    CHECK(MPI_File_close(&work->file));
    if (work->own != MPI_FILE_NULL)
        CHECK(MPI_File_close(&work->own));
    program_end(&work->program);
    MPI_Finalize();
    return 0;
}
