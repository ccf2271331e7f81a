/* loader.h - map the application's executable and its ELF interpreter into the upper half, and start it. */
#ifndef BELAY_MPI_LAYER_LOWER_LOADER_H
#define BELAY_MPI_LAYER_LOWER_LOADER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/util/error.h"

struct loaded_elf {
    uint64_t bias, entry, phdr, phnum;
    bool has_executable_stack;
    bool is_library;        /* it has a name as one: the interpreter itself has */
    char interpreter[4096]; /* "" if it has none */
};

/*
 * Map the ELF file at `path`. Needs vk_create(). Returns 0, or -1 with err (not an x86-64 executable, its
 * addresses are taken, ...).
 */
int loader_map(const char *path, struct loaded_elf *elf, struct belay_error *err);

/* What a program finds on its stack. */
struct loader_start {
    const char *name; /* by which it was executed */
    const struct loaded_elf *program;
    uint64_t interpreter_base; /* 0: it has none */
    char *const *argv, *const *envp;
};

/*
 * Build the initial stack (arguments, environment, auxiliary vector) below UPPER_STACK_TOP; where they are is
 * noted in struct vk.
 * Returns the stack pointer, or 0 with err.
 */
uint64_t loader_build_stack(const struct loader_start *start, struct belay_error *err);

/* Jump into the upper half. Does not return. */
void loader_jump(uint64_t entry, uint64_t stack) __attribute__((noreturn));

#endif
