/* closure.c - see closure.h. */
#include "mpi-layer/upper/closure.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "mpi-layer/lower/rawsys.h"

#define PAGE_BYTES 4096
#define CLOSURES (PAGE_BYTES / sizeof(union code))

union code {
    unsigned char bytes[16];
};

/* What a closure's code reads. */
struct cell {
    const void *bound; /* of a free one: the next free cell */
    closure_f *target;
};

_Static_assert(sizeof(struct cell) == sizeof(union code), "a cell lies a page behind its code");

static struct cell *free_cells;

static union code *code_of(const struct cell *cell)
{
    return (union code *)((uintptr_t)cell - PAGE_BYTES);
}

/* Distances count from the end of each instruction. */
static void write_code(union code *code)
{
    const uint32_t to_bound = PAGE_BYTES - 7, to_target = PAGE_BYTES + offsetof(struct cell, target) - 13;
    memcpy(code->bytes, "\x4c\x8b\x05", 3);
    memcpy(code->bytes + 3, &to_bound, 4);
    memcpy(code->bytes + 7, "\xff\x25", 2);
    memcpy(code->bytes + 9, &to_target, 4);
}

/* A page of code, which is not writable once it is executable, and its page of cells. */
static void add_page(void)
{
    long at =
        raw_syscall(SYS_mmap, 0, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at < 0 && at > -4096)
        return;
    unsigned char *page = (unsigned char *)at;
    union code *code = (union code *)page;
    struct cell *cells = (struct cell *)(void *)(page + PAGE_BYTES);
    for (size_t i = 0; i < CLOSURES; i++)
        write_code(&code[i]);
    if (raw3(SYS_mprotect, page, PAGE_BYTES, PROT_READ | PROT_EXEC)) {
        raw2(SYS_munmap, page, 2 * PAGE_BYTES);
        return;
    }
    for (size_t i = 0; i < CLOSURES; i++) {
        cells[i].bound = free_cells;
        free_cells = &cells[i];
    }
}

closure_f *closure_new(closure_f *target, const void *bound)
{
    if (!free_cells)
        add_page();
    struct cell *cell = free_cells;
    if (!cell)
        return NULL;
    free_cells = (struct cell *)(uintptr_t)cell->bound;
    *cell = (struct cell){bound, target};
    return (closure_f *)(uintptr_t)code_of(cell);
}

void closure_free(closure_f *closure)
{
    if (!closure)
        return;
    struct cell *cell = (struct cell *)((uintptr_t)closure + PAGE_BYTES);
    cell->bound = free_cells;
    free_cells = cell;
}
