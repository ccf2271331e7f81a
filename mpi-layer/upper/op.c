/*
 * op.c - MPI_Op_create. The library calls the function from the lower half, with nothing that tells which
 * operation it is for. So each operation gets a few bytes of code of its own:
 *
 *     49 b8 ..    movabs $op, %r8        (the fifth argument)
 *     48 b8 ..    movabs $op_call, %rax
 *     ff e0       jmp *%rax
 *
 * They lie in saved memory, and a restart hands the same address to the new library.
 */
#include "mpi-layer/upper/op.h"

#include <string.h>
#include <sys/mman.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/errors.h"

#define CODE_BYTES 32
#define CODE_CHUNK 4096

struct op {
    MPI_User_function *function;
    int is_commutative;
    unsigned char *code;
};

static unsigned char *code_next, *code_end; /* executable memory not yet used */

/* Entered with the lower FS, by the library. */
static void op_call(void *in, void *inout, int *count, void **real_type, const struct op *op)
{
    unsigned long lower, upper = thread_self()->upper_fs;
    __asm__ volatile("rdfsbase %0\n\twrfsbase %1" : "=&r"(lower) : "r"(upper) : "memory");
    MPI_Datatype type = (MPI_Datatype)(void *)handle_find(HANDLE_DATATYPE, *real_type);
    op->function(in, inout, count, &type);
    __asm__ volatile("wrfsbase %0" : : "r"(lower) : "memory");
}

static unsigned char *make_code(const struct op *op)
{
    uint64_t target = (uint64_t)(uintptr_t)&op_call, record = (uint64_t)(uintptr_t)op;
    if (code_next + CODE_BYTES > code_end) {
        void *chunk =
            mmap(NULL, CODE_CHUNK, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (chunk == MAP_FAILED)
            return NULL;
        code_next = chunk;
        code_end = code_next + CODE_CHUNK;
    }
    unsigned char *code = code_next;
    code_next += CODE_BYTES;
    memcpy(code, "\x49\xb8", 2);
    memcpy(code + 2, &record, 8);
    memcpy(code + 10, "\x48\xb8", 2);
    memcpy(code + 12, &target, 8);
    memcpy(code + 20, "\xff\xe0", 2);
    return code;
}

static int create_real(const struct op *op, void **real)
{
    return lower_MPI_Op_create((MPI_User_function *)(void *)op->code, op->is_commutative, real);
}

void op_restore(struct handle *handle)
{
    struct op *op = handle->record;
    if (op)
        create_real(op, &handle->real);
}

int PMPI_Op_create(MPI_User_function *function, int commute, MPI_Op *op)
{
    void *real = NULL;
    int code = MPI_ERR_NO_MEM;
    wrapper_enter();
    struct op *record = arena_alloc(sizeof *record);
    if (record && (record->code = make_code(record))) {
        record->function = function;
        record->is_commutative = commute;
        code = create_real(record, &real);
    }
    if (code == MPI_SUCCESS) {
        struct handle *handle = handle_new(HANDLE_OP, real);
        if (handle) {
            handle->record = record;
            *op = (MPI_Op)(void *)handle;
        } else {
            code = MPI_ERR_NO_MEM;
        }
    }
    wrapper_leave();
    return code == MPI_ERR_NO_MEM ? errors_raise(NULL, code) : code;
}
API_EXPORT(MPI_Op_create);

int PMPI_Op_free(MPI_Op *op)
{
    wrapper_enter();
    void *real = api_real(*op);
    int code = lower_MPI_Op_free(&real);
    if (code == MPI_SUCCESS) {
        handle_release(HANDLE_OP, *op);
        *op = MPI_OP_NULL;
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Op_free);
