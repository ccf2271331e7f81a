/*
 * touch - touches memory after a restart: how long until a part of it, and all of it, has been written to.
 *
 * usage: mpirun -n 1 touch MIB PERCENT GO
 *
 * It fills MIB and prints what the way of a restart that reads its image first takes: reading as much from a
 * file in memory to fresh memory, and then touching PERCENT of the pages, evenly spread: a byte of each is
 * changed. Then it says "ready" and waits until the file GO is there: made after the process was killed, it
 * is seen only by the restarted one, which touches its memory and prints how long that took. Times are in ns.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ul
#define BLOCK (4ul << 20)

static double now_ns(void)
{
    return MPI_Wtime() * 1e9;
}

static void touch(char *memory, size_t bytes, unsigned percent)
{
    size_t pages = bytes / PAGE, touched = pages * percent / 100;
    for (size_t i = 0; i < touched; i++)
        ++*(volatile char *)(memory + i * pages / touched * PAGE);
}

static void fill(char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += sizeof i)
        memcpy(memory + i, &i, sizeof i);
}

static char *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* -1: no memory. */
static int make_file(const char *memory, size_t bytes)
{
    int file = memfd_create("touch", MFD_CLOEXEC);
    for (size_t done = 0; file >= 0 && done < bytes; done += BLOCK)
        if (pwrite(file, memory + done, BLOCK, (off_t)done) != (ssize_t)BLOCK)
            return -1;
    return file;
}

/* Read first, then touch. Negative: no memory. */
static double baseline_ns(int file, size_t bytes, unsigned percent)
{
    char *memory = map(bytes);
    if (!memory)
        return -1;
    double begin = now_ns();
    for (size_t done = 0; done < bytes; done += BLOCK)
        if (pread(file, memory + done, BLOCK, (off_t)done) != (ssize_t)BLOCK)
            return -1;
    touch(memory, bytes, percent);
    double took = now_ns() - begin;
    munmap(memory, bytes);
    return took;
}

/* Twice: the first time the machine may have to find the memory. */
static int print_baseline(const char *memory, size_t bytes, unsigned percent)
{
    int file = make_file(memory, bytes);
    double took = file < 0 ? -1 : baseline_ns(file, bytes, percent);
    if (took >= 0)
        took = baseline_ns(file, bytes, percent);
    if (file >= 0)
        close(file);
    printf("%.0f\n", took);
    return took < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    size_t bytes = argc > 3 ? (size_t)atol(argv[1]) << 20 : 0;
    unsigned percent = argc > 3 ? (unsigned)atoi(argv[2]) : 0;
    char *memory = bytes && percent ? map(bytes) : NULL;
    if (!memory) {
        fprintf(stderr, "usage: mpirun -n 1 touch MIB PERCENT GO (MIB: a multiple of 4)\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    fill(memory, bytes);
    if (print_baseline(memory, bytes, percent) < 0) {
        perror("touch");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    printf("ready\n");
    fflush(stdout);
    while (access(argv[3], F_OK) < 0)
        usleep(1000);
    double begin = now_ns();
    touch(memory, bytes, percent);
    printf("%.0f\n", now_ns() - begin);
    MPI_Finalize();
    return 0;
}
