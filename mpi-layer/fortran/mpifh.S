/*
 * mpifh.S - libmpi_mpifh.so.40 of a rank: the names of the routines in bindings.h, and nothing else. Each goes on in our
 * libmpi, with its arguments as they are.
 */
#include "mpi-layer/fortran/bindings.h"

#define VK 0x160000000000

    .text
    .set number, 0

.macro alias name, routine
    .weak \name
    .type \name, @function
    .set \name, \routine
.endm

.macro routine routine, low, low1, low2, high, plow, plow1, plow2, phigh
    .globl \routine
    .type \routine, @function
    .p2align 4
\routine:
    .cfi_startproc
    movabs $VK + BINDINGS_OFFSET, %r11
    mov (%r11), %r11
    jmp *8 * number(%r11)
    .cfi_endproc
    .size \routine, . - \routine
    .set number, number + 1
    alias \low, \routine
    alias \low1, \routine
    alias \low2, \routine
    alias \high, \routine
    alias \plow, \routine
    alias \plow1, \routine
    alias \plow2, \routine
    alias \phigh, \routine
.endm

#define ROUTINE(name, NAME) routine ompi_##name##_f, mpi_##name, mpi_##name##_, mpi_##name##__, MPI_##NAME, \
    pmpi_##name, pmpi_##name##_, pmpi_##name##__, PMPI_##NAME;
    FORTRAN_ROUTINES

    .section .note.GNU-stack, "", @progbits
