/*
 * mem_raw - a program that is not position independent and makes its system calls itself, as Go's run-time
 * does: memory, files and descriptors that the C library knows nothing of.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tests/programs/program.h"

#define BYTES (1ul << 20)

/* The number is in the instruction, so that it can be seen in the text. */
#define RAW_CALL(nr, a, b, c, d, e, f)                                                                       \
    ({                                                                                                       \
        long result;                                                                                         \
        register long r10 __asm__("r10") = (long)(d);                                                        \
        register long r8 __asm__("r8") = (long)(e);                                                          \
        register long r9 __asm__("r9") = (long)(f);                                                          \
        __asm__ volatile("mov %1, %%eax\n\tsyscall"                                                          \
                         : "=&a"(result)                                                                     \
                         : "i"(nr), "D"((long)(a)), "S"((long)(b)), "d"((long)(c)), "r"(r10), "r"(r8),       \
                           "r"(r9)                                                                           \
                         : "rcx", "r11", "memory");                                                          \
        result;                                                                                              \
    })

int main(int argc, char **argv)
{
    struct program program = {.steps = 20};
    char text[64];
    MPI_Init(&argc, &argv);
    program_begin(&program, "mem_raw", argc, argv);
    long at = RAW_CALL(SYS_mmap, 0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long fd = RAW_CALL(SYS_openat, AT_FDCWD, "/proc/self/exe", O_RDONLY, 0, 0, 0);
    unsigned char *memory = (unsigned char *)at;
    if (at < 0 || fd < 0)
        fail(&program, "mmap %ld, openat %ld", at, fd);
    for (long step = 1; step <= program.steps; step++) {
        memory[step] = (unsigned char)(memory[step - 1] + step);
        if (RAW_CALL(SYS_pread64, fd, text, 4, 0, 0, 0) != 4 || memcmp(text, "\177ELF", 4))
            fail(&program, "step %ld: the file cannot be read", step);
        digest_add(&program.digest, memory, (size_t)step + 1);
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&program, step);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
