/*
 * mem_unseen - memory that is written without its page table showing it: who only tracks pages misses it.
 *
 * --mode direct: a thread reads a file with O_DIRECT without end; each block says which of the file's it is.
 * The ranks open their files one after the other.
 * --mode others: at each step the rank to the left writes this one's memory by process_vm_writev.
 */
#define _GNU_SOURCE /* O_DIRECT */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define PAGE 4096ul
#define BLOCK_BYTES (1ul << 20)
#define BLOCKS 16ul
#define WORDS (BLOCK_BYTES / sizeof(uint64_t))

static volatile bool is_told_to_end;
static int file;
static char file_name[32];
static char *memory; /* BLOCKS blocks */

static uint64_t word_of(uint64_t block, uint64_t word)
{
    return mix_number(block, word / (PAGE / sizeof(uint64_t)), 1);
}

static void fill_block(uint64_t *words, uint64_t number)
{
    for (uint64_t i = 0; i < WORDS; i++)
        words[i] = word_of(number, i);
}

static bool is_block(const uint64_t *words, uint64_t number)
{
    for (uint64_t i = 0; i < WORDS; i++)
        if (words[i] != word_of(number, i))
            return false;
    return true;
}

static uint64_t *place(uint64_t block)
{
    return (uint64_t *)(void *)(memory + block * BLOCK_BYTES);
}

static void make_file(const struct program *program)
{
    snprintf(file_name, sizeof file_name, "mem_unseen-%d", program->rank);
    file = open(file_name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        fill_block(place(0), i);
        if (write(file, place(0), BLOCK_BYTES) != (ssize_t)BLOCK_BYTES)
            fail(program, "cannot write a file");
    }
    close(file);
    file = open(file_name, O_RDONLY | O_DIRECT);
    if (file < 0)
        fail(program, "this file system has no O_DIRECT");
}

/* Block i of the memory has block (round + i) of the file. */
static void *read_without_end(void *context)
{
    const struct program *program = context;
    for (uint64_t round = 1; !is_told_to_end; round++) {
        for (uint64_t i = 0; i < BLOCKS; i++) {
            uint64_t number = (round + i) % BLOCKS;
            if (round > 1 && !is_block(place(i), (number + BLOCKS - 1) % BLOCKS))
                fail(program, "round %llu: block %llu has changed", (unsigned long long)round,
                     (unsigned long long)i);
            if (pread(file, place(i), BLOCK_BYTES, (off_t)(number * BLOCK_BYTES)) != (ssize_t)BLOCK_BYTES)
                fail(program, "cannot read");
        }
    }
    return NULL;
}

/* Where the rank to the right has its memory; after a restart it is another process. */
struct target {
    long pid;
    char *memory;
};

static bool write_to(const struct target *target, uint64_t number)
{
    static uint64_t words[WORDS];
    struct iovec from = {words, BLOCK_BYTES};
    struct iovec to = {target->memory + number % BLOCKS * BLOCK_BYTES, BLOCK_BYTES};
    fill_block(words, number);
    return process_vm_writev((pid_t)target->pid, &from, 1, &to, 1, 0) == (ssize_t)BLOCK_BYTES;
}

/* Sixteen blocks arrive; if a restart came in between, once more. */
static void exchange(const struct program *program, long step)
{
    int ranks = program->ranks;
    int right = (program->rank + 1) % ranks, left = (program->rank + ranks - 1) % ranks;
    for (int is_done = 0; !is_done;) {
        struct target own = {getpid(), memory}, target;
        MPI_Sendrecv(&own, sizeof own, MPI_BYTE, left, 0, &target, sizeof target, MPI_BYTE, right, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        is_done = 1;
        for (uint64_t i = 0; i < BLOCKS; i++)
            is_done &= write_to(&target, (uint64_t)step * BLOCKS + i);
        if (!is_done && errno == EPERM)
            fail(program, "not permitted");
        MPI_Allreduce(MPI_IN_PLACE, &is_done, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    for (uint64_t i = 0; i < BLOCKS; i++)
        if (!is_block(place(i), (uint64_t)step * BLOCKS + i))
            fail(program, "step %ld: block %llu is not what was written", step, (unsigned long long)i);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void run(struct program *program, bool is_direct)
{
    pthread_t thread;
    if (is_direct) {
        usleep((useconds_t)program->rank * 100000);
        make_file(program);
        pthread_create(&thread, NULL, read_without_end, program);
    }
    for (long step = 1; step <= program->steps; step++) {
        uint64_t sum = (uint64_t)step;
        if (!is_direct)
            exchange(program, step);
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        digest_add_number(&program->digest, sum);
        program_step(program, step);
    }
    is_told_to_end = true;
    if (is_direct) {
        pthread_join(thread, NULL);
        unlink(file_name);
    }
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 200, .mode = "direct"};
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    program_begin(&program, "mem_unseen", argc, argv);
    memory = mmap(NULL, BLOCKS * BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail(&program, "no memory");
    run(&program, !strcmp(program.mode, "direct"));
    program_end(&program);
    MPI_Finalize();
    return 0;
}
