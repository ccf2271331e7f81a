/*
 * calls - a PMPI tool that tells of every function of MPI how often a rank has called it before and after a
 * restart, and of what has been pending meanwhile. It writes the file calls-RANK in the working directory, a
 * line each:
 *
 *     FUNCTION BEFORE AFTER PENDING
 *
 * Its counts are part of the rank's memory: those of the process that was lost are the calls until the line.
 * A program tells by MPI_Pcontrol(1, function) and MPI_Pcontrol(2, function) that something which it has
 * begun with that function has ended.
 */
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/programs/incarnation.h"

#define FUNCTION(number, name) #name,
static const char *const names[] = {
#include "tests/programs/calls.gen.h"
};
#undef FUNCTION

#define COUNT (sizeof names / sizeof names[0])

static struct {
    long before, after, pending;
    long begun; /* by this process */
} calls[COUNT];
static long first;

__attribute__((constructor)) static void note_process(void)
{
    first = incarnation();
}

void calls_note(int number);
void calls_note(int number)
{
    __atomic_add_fetch(incarnation() == first ? &calls[number].before : &calls[number].after, 1,
                       __ATOMIC_RELAXED);
}

/* The stubs know no prototypes: they keep the registers of integer arguments, all that MPI has, and go on. */
#define FUNCTION(number, name)                                                                               \
    __asm__(".globl " #name "\n"                                                                             \
            ".type " #name ", @function\n" #name ":\n"                                                       \
            "push %rdi\n push %rsi\n push %rdx\n push %rcx\n push %r8\n push %r9\n push %rax\n"              \
            "mov $" #number ", %edi\n call calls_note@PLT\n"                                                 \
            "pop %rax\n pop %r9\n pop %r8\n pop %rcx\n pop %rdx\n pop %rsi\n pop %rdi\n"                     \
            "jmp P" #name "@PLT\n");
#include "tests/programs/calls.gen.h"
#undef FUNCTION

static int find(const char *name)
{
    for (size_t i = 0; i < COUNT; i++)
        if (!strcmp(names[i], name))
            return (int)i;
    abort();
}

int MPI_Pcontrol(const int level, ...)
{
    va_list arguments;
    va_start(arguments, level);
    int number = level ? find(va_arg(arguments, const char *)) : 0;
    va_end(arguments);
    if (level == 1)
        calls[number].begun = incarnation();
    else if (level == 2 && calls[number].begun != incarnation())
        calls[number].pending++;
    return MPI_SUCCESS;
}

__attribute__((destructor)) static void write_counts(void)
{
    char path[64];
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    int is_initialized;
    PMPI_Initialized(&is_initialized);
    if (!rank || !is_initialized)
        return;
    snprintf(path, sizeof path, "calls-%s", rank);
    FILE *file = fopen(path, "w");
    for (size_t i = 0; file && i < COUNT; i++)
        fprintf(file, "%s %ld %ld %ld\n", names[i], calls[i].before, calls[i].after, calls[i].pending);
    if (file)
        fclose(file);
}
