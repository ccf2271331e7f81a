/*
 * io_calls - functions of MPI-IO on files that stay open all the time. --mode says which; the file is
 * "io-MODE.dat" in the working directory. What is read goes into the digest.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/program.h"

#define WORDS 96 /* of a block */
#define BLOCK_BYTES ((MPI_Offset)(WORDS * sizeof(uint64_t)))

struct work {
    struct program program;
    MPI_File file;
    char path[64];
    uint64_t out[WORDS], in[WORDS], in2[WORDS];
};

struct mode {
    const char *name;
    int amode;
    void (*open)(struct work *work); /* after the file has been opened, NULL: nothing to do */
    void (*step)(struct work *work, long step);
};

static void expect(const struct work *work, int is_true, const char *what)
{
    if (!is_true)
        fail(&work->program, "%s", what);
}

#define CHECK(call) check_mpi(&work->program, call, #call)

static void fill(struct work *work, long step, int salt)
{
    for (int i = 0; i < WORDS; i++)
        work->out[i] =
            mix_number((uint64_t)step * 16 + (uint64_t)salt, (uint64_t)work->program.rank, (uint64_t)i);
}

static void take(struct work *work, const uint64_t *data, const MPI_Status *status, const char *what)
{
    int count = 0;
    MPI_Get_count(status, MPI_UINT64_T, &count);
    if (count != WORDS)
        fail(&work->program, "%s: %d words, not %d", what, count, WORDS);
    digest_add(&work->program.digest, data, sizeof work->in);
}

/* The number of this rank's block in round `round`, if each round writes one of each rank. */
static MPI_Offset block(const struct work *work, long round)
{
    return ((MPI_Offset)round * work->program.ranks + work->program.rank) * BLOCK_BYTES;
}

/* ---- explicit offsets ---- */

static void step_offsets(struct work *work, long step)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Offset offset;
    fill(work, step, 0);
    CHECK(MPI_File_write_at(work->file, block(work, 2 * step), work->out, WORDS, MPI_UINT64_T, &statuses[0]));
    CHECK(MPI_File_iwrite_at(work->file, block(work, 2 * step + 1), work->out, WORDS, MPI_UINT64_T,
                             &requests[0]));
    CHECK(MPI_File_iread_at(work->file, block(work, 2 * step), work->in, WORDS, MPI_UINT64_T, &requests[1]));
    program_step(&work->program, step); /* a line may find both pending */
    CHECK(MPI_Waitall(2, requests, statuses));
    take(work, work->in, &statuses[1], "MPI_File_iread_at");
    CHECK(
        MPI_File_read_at(work->file, block(work, 2 * step + 1), work->in, WORDS, MPI_UINT64_T, &statuses[0]));
    take(work, work->in, &statuses[0], "MPI_File_read_at");
    CHECK(MPI_File_get_byte_offset(work->file, 17, &offset));
    digest_add_number(&work->program.digest, (uint64_t)offset);
}

/* ---- individual pointers; the view of each rank is its blocks ---- */

static void set_block_view(struct work *work)
{
    MPI_Datatype blocks, view;
    char representation[] = "native";
    MPI_Type_contiguous(WORDS, MPI_UINT64_T, &blocks);
    MPI_Type_create_resized(blocks, 0, work->program.ranks * BLOCK_BYTES, &view);
    MPI_Type_commit(&view);
    CHECK(MPI_File_set_view(work->file, work->program.rank * BLOCK_BYTES, MPI_UINT64_T, view, representation,
                            MPI_INFO_NULL));
    MPI_Type_free(&view);
    MPI_Type_free(&blocks);
}

static void step_pointers(struct work *work, long step)
{
    MPI_Request request;
    MPI_Status status;
    MPI_Offset position;
    fill(work, step, 1);
    CHECK(MPI_File_write(work->file, work->out, WORDS / 2, MPI_UINT64_T, &status));
    program_step(&work->program, step); /* a line finds the pointer in the middle of a block */
    CHECK(MPI_File_iwrite(work->file, work->out + WORDS / 2, WORDS / 2, MPI_UINT64_T, &request));
    CHECK(MPI_Wait(&request, &status));
    CHECK(MPI_File_get_position(work->file, &position));
    digest_add_number(&work->program.digest, (uint64_t)position);
    CHECK(MPI_File_seek(work->file, -WORDS, MPI_SEEK_CUR));
    CHECK(MPI_File_iread(work->file, work->in, WORDS, MPI_UINT64_T, &request));
    CHECK(MPI_Wait(&request, &status));
    take(work, work->in, &status, "MPI_File_iread");
    CHECK(MPI_File_seek(work->file, (position / WORDS / 2) * WORDS, MPI_SEEK_SET));
    CHECK(MPI_File_read(work->file, work->in, WORDS, MPI_UINT64_T, &status));
    take(work, work->in, &status, "MPI_File_read");
    CHECK(MPI_File_seek(work->file, position, MPI_SEEK_SET));
}

/* ---- collectives, on a view of interleaved words ---- */

static void set_word_view(struct work *work)
{
    int sizes[2] = {WORDS, work->program.ranks}, parts[2] = {WORDS, 1}, starts[2] = {0, work->program.rank};
    MPI_Datatype view;
    char representation[] = "native";
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_UINT64_T, &view);
    MPI_Type_commit(&view);
    CHECK(MPI_File_set_view(work->file, 8, MPI_UINT64_T, view, representation, MPI_INFO_NULL));
    MPI_Type_free(&view);
}

static void step_collective(struct work *work, long step)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Offset at = 4 * step * WORDS;
    fill(work, step, 2);
    CHECK(MPI_File_write_at_all(work->file, at, work->out, WORDS, MPI_UINT64_T, &statuses[0]));
    CHECK(MPI_File_seek(work->file, at + WORDS, MPI_SEEK_SET));
    CHECK(MPI_File_write_all(work->file, work->out, WORDS, MPI_UINT64_T, &statuses[0]));
    CHECK(MPI_File_iwrite_all(work->file, work->out, WORDS, MPI_UINT64_T, &requests[0]));
    CHECK(MPI_File_iwrite_at_all(work->file, at + 3 * WORDS, work->out, WORDS, MPI_UINT64_T, &requests[1]));
    program_step(&work->program, step);
    CHECK(MPI_Waitall(2, requests, statuses));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_seek(work->file, at, MPI_SEEK_SET));
    CHECK(MPI_File_read_all(work->file, work->in, WORDS, MPI_UINT64_T, &statuses[0]));
    take(work, work->in, &statuses[0], "MPI_File_read_all");
    CHECK(MPI_File_iread_all(work->file, work->in, WORDS, MPI_UINT64_T, &requests[0]));
    CHECK(MPI_File_iread_at_all(work->file, at + 2 * WORDS, work->in2, WORDS, MPI_UINT64_T, &requests[1]));
    CHECK(MPI_Waitall(2, requests, statuses));
    take(work, work->in, &statuses[0], "MPI_File_iread_all");
    take(work, work->in2, &statuses[1], "MPI_File_iread_at_all");
    CHECK(MPI_File_read_at_all(work->file, at + 3 * WORDS, work->in, WORDS, MPI_UINT64_T, &statuses[0]));
    take(work, work->in, &statuses[0], "MPI_File_read_at_all");
}

/* ---- split collectives: every one is active while a line may come ---- */

static void step_split(struct work *work, long step)
{
    MPI_Status status;
    MPI_File f = work->file;
    MPI_Offset at = 2 * step * WORDS;
    fill(work, step, 3);
    CHECK(MPI_File_write_at_all_begin(f, at, work->out, WORDS, MPI_UINT64_T));
    program_step(&work->program, step);
    CHECK(MPI_File_write_at_all_end(f, work->out, &status));
    CHECK(MPI_File_seek(f, at + WORDS, MPI_SEEK_SET));
    CHECK(MPI_File_write_all_begin(f, work->out, WORDS, MPI_UINT64_T));
    program_step(&work->program, step);
    CHECK(MPI_File_write_all_end(f, work->out, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_read_at_all_begin(f, at, work->in, WORDS, MPI_UINT64_T));
    program_step(&work->program, step);
    CHECK(MPI_File_read_at_all_end(f, work->in, &status));
    take(work, work->in, &status, "MPI_File_read_at_all_end");
    CHECK(MPI_File_seek(f, at + WORDS, MPI_SEEK_SET));
    CHECK(MPI_File_read_all_begin(f, work->in, WORDS, MPI_UINT64_T));
    program_step(&work->program, step);
    CHECK(MPI_File_read_all_end(f, work->in, &status));
    take(work, work->in, &status, "MPI_File_read_all_end");
}

/* ---- the shared pointer; ranks take turns where order would matter ---- */

static void step_shared(struct work *work, long step)
{
    MPI_Status status;
    MPI_Request request;
    MPI_File f = work->file;
    MPI_Offset position;
    fill(work, step, 4);
    CHECK(MPI_File_get_position_shared(f, &position));
    digest_add_number(&work->program.digest, (uint64_t)position);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_write_ordered(f, work->out, WORDS, MPI_UINT64_T, &status));
    CHECK(MPI_File_write_ordered_begin(f, work->out, WORDS, MPI_UINT64_T));
    program_step(&work->program, step);
    CHECK(MPI_File_write_ordered_end(f, work->out, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int rank = 0; rank < work->program.ranks; rank++) {
        if (rank == work->program.rank) {
            CHECK(MPI_File_write_shared(f, work->out, WORDS / 2, MPI_UINT64_T, &status));
            CHECK(MPI_File_iwrite_shared(f, work->out, WORDS / 2, MPI_UINT64_T, &request));
            CHECK(MPI_Wait(&request, &status));
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    CHECK(MPI_File_seek_shared(f, position, MPI_SEEK_SET));
    CHECK(MPI_File_read_ordered(f, work->in, WORDS, MPI_UINT64_T, &status));
    take(work, work->in, &status, "MPI_File_read_ordered");
    CHECK(MPI_File_read_ordered_begin(f, work->in, WORDS, MPI_UINT64_T));
    program_step(&work->program, step);
    CHECK(MPI_File_read_ordered_end(f, work->in, &status));
    take(work, work->in, &status, "MPI_File_read_ordered_end");
    MPI_Barrier(MPI_COMM_WORLD);
    for (int rank = 0; rank < work->program.ranks; rank++) {
        if (rank == work->program.rank) {
            CHECK(MPI_File_read_shared(f, work->in, WORDS / 2, MPI_UINT64_T, &status));
            CHECK(MPI_File_iread_shared(f, work->in + WORDS / 2, WORDS / 2, MPI_UINT64_T, &request));
            CHECK(MPI_Wait(&request, &status));
            digest_add(&work->program.digest, work->in, sizeof work->in);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static const struct mode modes[] = {
    {"offsets", MPI_MODE_RDWR, NULL, step_offsets},
    {"pointers", MPI_MODE_RDWR, set_block_view, step_pointers},
    {"collective", MPI_MODE_RDWR, set_word_view, step_collective},
    {"split", MPI_MODE_RDWR, set_word_view, step_split},
    {"shared", MPI_MODE_RDWR, NULL, step_shared},
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
    struct work w = {.program = {.steps = 100, .seconds = 2, .mode = "offsets"}}, *work = &w;
    MPI_Init(&argc, &argv);
    program_begin(&work->program, "io_calls", argc, argv);
    const struct mode *mode = find_mode(&work->program);
    strcpy(work->path, "io-");
    strcat(strncat(work->path, mode->name, 32), ".dat");
    CHECK(MPI_File_open(MPI_COMM_WORLD, work->path, mode->amode | MPI_MODE_CREATE | MPI_MODE_EXCL,
                        MPI_INFO_NULL, &work->file));
    if (mode->open)
        mode->open(work);
    for (long step = 1; step <= work->program.steps; step++)
        mode->step(work, step);
    CHECK(MPI_File_close(&work->file));
    expect(work, work->file == MPI_FILE_NULL, "the handle of a closed file is not null");
    program_end(&work->program);
    MPI_Finalize();
    return 0;
}
