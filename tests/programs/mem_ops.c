/*
 * mem_ops - everything that a program does to its memory, in a random order, each page checked all the time.
 *
 * Blocks of memory are mapped, written, grown, moved, protected, advised on, given back and unmapped; each
 * page is known to hold the stamp that was written last, what its file has there, or zeros. Beside that the
 * heap grows and shrinks, a thread writes without end, a forked child holds a copy of everything, messages of
 * megabytes and pieces of a file arrive in the blocks, and ranks read what others write to a file that all
 * have mapped.
 */
#define _GNU_SOURCE /* mremap */
#include <fcntl.h>
#include <malloc.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define PAGE 4096ul
#define WORDS (PAGE / sizeof(uint64_t))
#define BLOCKS 24
#define PAGES_MAX 1200 /* of a block: more than two page tables map */
#define MESSAGE_PAGES 512
#define WRITER_PAGES 64
#define FILE_PAGES 16
#define HEAP_BLOCKS 16
#define HUGE_BYTES (2ul << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum kind { KIND_ANONYMOUS = 0, KIND_FILE, KIND_SHARED };

struct block {
    char *memory; /* NULL: not mapped */
    enum kind kind;
    int pages;
    int protection;
    uint64_t stamps[PAGES_MAX]; /* 0: the page is zeros */
};

struct mem_ops {
    struct program program;
    uint64_t random;
    struct block blocks[BLOCKS];
    struct block heap[HEAP_BLOCKS]; /* of malloc() */
    char *message;                  /* sent; what arrives goes to a block */
    uint64_t *common;               /* a page of each rank, in a file that all have mapped */
    char *elsewhere;                /* room for a block */
    int file;
    pid_t child;
};

/* Shared with the writing thread. */
static volatile bool is_writer_told_to_end;
static volatile bool is_writer_wrong;
static uint64_t *writer_pages;

static int pick(struct mem_ops *ops, int below)
{
    return (int)(random_next(&ops->random) % (uint64_t)below);
}

static uint64_t *page_of(const struct block *block, int page)
{
    return (uint64_t *)(void *)(block->memory + (size_t)page * PAGE);
}

static void stamp_page(uint64_t *page, uint64_t stamp)
{
    page[0] = stamp;
    page[stamp % (WORDS - 2) + 1] = ~stamp;
    page[WORDS - 1] = stamp + 1;
}

static bool has_stamp(const uint64_t *page, uint64_t stamp)
{
    if (stamp == 0)
        return page[0] == 0 && page[WORDS / 2] == 0 && page[WORDS - 1] == 0;
    return page[0] == stamp && page[stamp % (WORDS - 2) + 1] == ~stamp && page[WORDS - 1] == stamp + 1;
}

static void check_block(struct mem_ops *ops, const struct block *block)
{
    if (!block->memory || block->protection == PROT_NONE)
        return;
    for (int i = 0; i < block->pages; i++) {
        if (!has_stamp(page_of(block, i), block->stamps[i]))
            fail(&ops->program, "block %d, page %d of %d at %p: %llx instead of %llx",
                 (int)(block - ops->blocks), i, block->pages, (void *)page_of(block, i),
                 (unsigned long long)page_of(block, i)[0], (unsigned long long)block->stamps[i]);
        digest_add_number(&ops->program.digest, block->stamps[i]);
    }
}

static void protect(struct block *block, int protection)
{
    mprotect(block->memory, (size_t)block->pages * PAGE, protection);
    block->protection = protection;
}

static void write_pages(struct mem_ops *ops, struct block *block, int first, int count)
{
    protect(block, PROT_READ | PROT_WRITE);
    for (int i = first; i < first + count; i++) {
        block->stamps[i] = random_next(&ops->random) | 1;
        memset(page_of(block, i), 0, PAGE);
        stamp_page(page_of(block, i), block->stamps[i]);
    }
}

static uint64_t stamp_of_file(int page)
{
    return mix_number(1, (uint64_t)page, 2) | 1;
}

/* A private mapping of a file, or memory shared with children. */
static void map_special(struct mem_ops *ops, struct block *block, enum kind kind)
{
    int flags = kind == KIND_FILE ? MAP_PRIVATE : MAP_SHARED | MAP_ANONYMOUS;
    block->kind = kind;
    block->pages = FILE_PAGES;
    block->protection = PROT_READ | PROT_WRITE;
    block->memory =
        mmap(NULL, FILE_PAGES * PAGE, block->protection, flags, kind == KIND_FILE ? ops->file : -1, 0);
    if (block->memory == MAP_FAILED)
        fail(&ops->program, "no memory");
    memset(block->stamps, 0, sizeof block->stamps);
    for (int i = 0; kind == KIND_FILE && i < FILE_PAGES; i++)
        block->stamps[i] = stamp_of_file(i);
}

static void map_block(struct mem_ops *ops, struct block *block)
{
    block->kind = KIND_ANONYMOUS;
    block->pages = pick(ops, 4) ? 1 + pick(ops, 60) : MESSAGE_PAGES + pick(ops, PAGES_MAX - MESSAGE_PAGES);
    block->memory = mmap(NULL, (size_t)block->pages * PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | (pick(ops, 2) ? MAP_NORESERVE : 0), -1, 0);
    if (block->memory == MAP_FAILED)
        fail(&ops->program, "no memory");
    block->protection = PROT_READ | PROT_WRITE;
    memset(block->stamps, 0, sizeof block->stamps);
    if (pick(ops, 4) == 0)
        madvise(block->memory, (size_t)block->pages * PAGE, MADV_HUGEPAGE);
}

static void unmap_block(struct block *block)
{
    munmap(block->memory, (size_t)block->pages * PAGE);
    block->memory = NULL;
}

static void empty_pages(struct block *block, int first, int count, bool by_mapping)
{
    char *from = block->memory + (size_t)first * PAGE;
    if (by_mapping)
        mmap(from, (size_t)count * PAGE, block->protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    else
        madvise(from, (size_t)count * PAGE, MADV_DONTNEED);
    for (int i = first; i < first + count; i++)
        block->stamps[i] = block->kind == KIND_FILE ? stamp_of_file(i) : 0;
}

/* Advice that leaves what the memory holds as it is. */
static void advise(struct mem_ops *ops, struct block *block, int first, int count)
{
    static const int advices[] = {MADV_HUGEPAGE, MADV_NOHUGEPAGE,     MADV_WIPEONFORK, MADV_KEEPONFORK,
                                  MADV_COLLAPSE, MADV_POPULATE_WRITE, MADV_PAGEOUT,    MADV_COLD};
    int advice = advices[pick(ops, sizeof advices / sizeof advices[0])];
    if (advice == MADV_COLLAPSE)
        madvise(block->memory, HUGE_BYTES, advice);
    else
        madvise(block->memory + (size_t)first * PAGE, (size_t)count * PAGE, advice);
}

/* What is freed is as it was, or zeros, until it is written again. */
static void free_pages(struct mem_ops *ops, struct block *block, int first, int count)
{
    madvise(block->memory + (size_t)first * PAGE, (size_t)count * PAGE, MADV_FREE);
    write_pages(ops, block, first, count);
}

#define MOVES (MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP) /* so that nobody else gets the place */

/* Room for a part of a block: where it was, once there was some. */
static void reserve_elsewhere(struct mem_ops *ops, size_t bytes)
{
    void *place = mmap(ops->elsewhere, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED || (ops->elsewhere && place != ops->elsewhere))
        fail(&ops->program, "no room for a part of a block");
    ops->elsewhere = place;
}

/* A part of a block goes elsewhere (and later comes back): the kernel merges it with its neighbours again. */
static bool move_away(struct mem_ops *ops, struct block *block, int first, int count)
{
    size_t bytes = (size_t)count * PAGE;
    if (!block->memory || block->kind != KIND_ANONYMOUS)
        return false;
    if (mremap(block->memory + (size_t)first * PAGE, bytes, bytes, MOVES, ops->elsewhere) != MAP_FAILED)
        return true;
    /* Kernels before 6.17 do not move several mappings, and find that out after clearing the place. */
    if (msync(ops->elsewhere, bytes, MS_ASYNC))
        reserve_elsewhere(ops, bytes);
    return false;
}

static void move_back(struct mem_ops *ops, struct block *block, int first, int count)
{
    size_t bytes = (size_t)count * PAGE;
    if (mremap(ops->elsewhere, bytes, bytes, MOVES, block->memory + (size_t)first * PAGE) == MAP_FAILED)
        fail(&ops->program, "a part of a block cannot come back");
}

/* The heap's end moves up and down. */
static void use_heap(struct mem_ops *ops)
{
    struct block *block = &ops->heap[pick(ops, HEAP_BLOCKS)];
    if (block->memory) {
        check_block(ops, block);
        free(block->memory);
        block->memory = NULL;
        return;
    }
    block->pages = 1 + pick(ops, 60);
    block->protection = PROT_READ | PROT_WRITE;
    block->memory = malloc((size_t)block->pages * PAGE);
    if (!block->memory)
        fail(&ops->program, "no memory");
    for (int i = 0; i < block->pages; i++) {
        block->stamps[i] = random_next(&ops->random) | 1;
        stamp_page(page_of(block, i), block->stamps[i]);
    }
}

static void resize_block(struct mem_ops *ops, struct block *block)
{
    int pages = 1 + pick(ops, PAGES_MAX);
    if (block->kind != KIND_ANONYMOUS)
        return;
    protect(block, PROT_READ | PROT_WRITE);
    void *memory = mremap(block->memory, (size_t)block->pages * PAGE, (size_t)pages * PAGE, MREMAP_MAYMOVE);
    if (memory == MAP_FAILED) { /* of several mappings: the kernel moves only one */
        size_t kept = (size_t)(pages < block->pages ? pages : block->pages) * PAGE;
        memory = mmap(NULL, (size_t)pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(memory, block->memory, kept);
        munmap(block->memory, (size_t)block->pages * PAGE);
    }
    if (pages < block->pages)
        memset(block->stamps + pages, 0, (size_t)(block->pages - pages) * sizeof *block->stamps);
    block->memory = memory;
    block->pages = pages;
}

static void read_file(struct mem_ops *ops, struct block *block)
{
    int count = block->pages < FILE_PAGES ? block->pages : FILE_PAGES;
    protect(block, PROT_READ | PROT_WRITE);
    if (pread(ops->file, block->memory, (size_t)count * PAGE, 0) != (ssize_t)((size_t)count * PAGE))
        fail(&ops->program, "the file is short");
    for (int i = 0; i < count; i++)
        block->stamps[i] = stamp_of_file(i);
}

/* After a restart there is none, and its number may be somebody else's. */
static void end_child(struct mem_ops *ops)
{
    if (ops->child > 0 && waitpid(ops->child, NULL, WNOHANG) == 0) {
        kill(ops->child, SIGKILL);
        waitpid(ops->child, NULL, 0);
    }
}

/* A child keeps what it was forked with, and writes to it. */
static void replace_child(struct mem_ops *ops)
{
    end_child(ops);
    ops->child = fork();
    if (ops->child != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < BLOCKS; i++)
        if (ops->blocks[i].memory && ops->blocks[i].kind != KIND_SHARED &&
            ops->blocks[i].protection == (PROT_READ | PROT_WRITE))
            memset(ops->blocks[i].memory, 0xee, (size_t)ops->blocks[i].pages * PAGE);
    for (;;)
        pause();
}

static void do_operation(struct mem_ops *ops)
{
    static const int protections[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
    struct block *block = &ops->blocks[pick(ops, BLOCKS)];
    if (!block->memory && pick(ops, 4) == 0 && block != ops->blocks) {
        map_special(ops, block, pick(ops, 2) ? KIND_FILE : KIND_SHARED);
        return;
    }
    if (!block->memory) {
        map_block(ops, block);
        return;
    }
    int what = pick(ops, 30), first = pick(ops, block->pages);
    int count = pick(ops, 3) ? 1 + pick(ops, block->pages - first) / 8 : block->pages - first;
    if (count > block->pages - first)
        count = block->pages - first;
    if (what == 0)
        unmap_block(block);
    else if (what <= 3)
        resize_block(ops, block);
    else if (what <= 7 && block->kind == KIND_SHARED)
        check_block(ops, block);
    else if (what <= 7)
        empty_pages(block, first, count, what == 7 && block->kind == KIND_ANONYMOUS);
    else if (what <= 10)
        protect(block, protections[what - 8]);
    else if (what == 11)
        read_file(ops, block);
    else if (what == 12)
        check_block(ops, block);
    else if (what <= 15)
        advise(ops, block, first, count);
    else if (what <= 17 && block->kind == KIND_ANONYMOUS)
        free_pages(ops, block, first, count);
    else if (what <= 20)
        use_heap(ops);
    else
        write_pages(ops, block, first, count);
}

/* Megabytes from the left, straight into a block; its own go to the right. */
static void exchange(struct mem_ops *ops, long step)
{
    struct block *block = &ops->blocks[0];
    int ranks = ops->program.ranks, left = (ops->program.rank + ranks - 1) % ranks;
    if (!block->memory || block->pages < MESSAGE_PAGES) {
        if (block->memory)
            unmap_block(block);
        do
            map_block(ops, block);
        while (block->pages < MESSAGE_PAGES && (unmap_block(block), true));
    }
    protect(block, PROT_READ | PROT_WRITE);
    __atomic_store_n(&ops->common[(size_t)ops->program.rank * WORDS], (uint64_t)step, __ATOMIC_RELEASE);
    for (int i = 0; i < MESSAGE_PAGES; i++)
        stamp_page((uint64_t *)(void *)(ops->message + (size_t)i * PAGE),
                   mix_number((uint64_t)ops->program.rank, (uint64_t)step, (uint64_t)i) | 1);
    /* Synchronous: the left one's next message is not over before we ask for it, whatever is sent eagerly
     * here. */
    MPI_Request requests[2];
    MPI_Irecv(block->memory, MESSAGE_PAGES * (int)PAGE, MPI_BYTE, left, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Issend(ops->message, MESSAGE_PAGES * (int)PAGE, MPI_BYTE, (ops->program.rank + 1) % ranks, 0,
               MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    memset(ops->message, 0, MESSAGE_PAGES * PAGE);
    for (int i = 0; i < MESSAGE_PAGES; i++)
        block->stamps[i] = mix_number((uint64_t)left, (uint64_t)step, (uint64_t)i) | 1;
    check_block(ops, block);
    uint64_t written = __atomic_load_n(&ops->common[(size_t)left * WORDS], __ATOMIC_ACQUIRE);
    if (written != (uint64_t)step && written != (uint64_t)step + 1)
        fail(&ops->program, "step %ld: the left one's page is of step %llu", step,
             (unsigned long long)written);
}

/* Each round it writes one number to all its pages; a page may be one round behind the one before it. */
static void *write_without_end(void *unused)
{
    (void)unused;
    for (uint64_t round = 1; !is_writer_told_to_end; round++) {
        for (int i = 0; i < WRITER_PAGES; i++) {
            volatile uint64_t *word = &writer_pages[(size_t)i * WORDS + round % WORDS];
            volatile uint64_t *count = &writer_pages[(size_t)i * WORDS];
            if (*count != round - 1)
                is_writer_wrong = true;
            *word = round;
            *count = round;
        }
        if (round % 64 == 0)
            sched_yield();
    }
    return NULL;
}

static void make_file(struct mem_ops *ops)
{
    char name[32];
    uint64_t page[WORDS];
    snprintf(name, sizeof name, "mem_ops-%d", ops->program.rank);
    ops->file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (int i = 0; i < FILE_PAGES; i++) {
        memset(page, 0, sizeof page);
        stamp_page(page, stamp_of_file(i));
        if (write(ops->file, page, sizeof page) != (ssize_t)sizeof page)
            fail(&ops->program, "cannot write a file");
    }
}

static void map_common(struct mem_ops *ops)
{
    size_t bytes = (size_t)ops->program.ranks * PAGE;
    int file = open("mem_ops-common", O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, (off_t)bytes))
        fail(&ops->program, "cannot make a file");
    ops->common = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (ops->common == MAP_FAILED)
        fail(&ops->program, "no memory");
    close(file);
}

static void remove_files(struct mem_ops *ops)
{
    char name[32];
    snprintf(name, sizeof name, "mem_ops-%d", ops->program.rank);
    unlink(name);
    MPI_Barrier(MPI_COMM_WORLD);
    if (ops->program.rank == 0)
        unlink("mem_ops-common");
}

static void run(struct mem_ops *ops)
{
    for (long step = 1; step <= ops->program.steps; step++) {
        struct block *block = &ops->blocks[1 + pick(ops, BLOCKS - 1)];
        for (int i = 0; i < 12; i++)
            do_operation(ops);
        int first = block->memory ? pick(ops, block->pages) : 0;
        int count = block->memory ? 1 + pick(ops, block->pages - first) : 0;
        bool is_away = count > 0 && move_away(ops, block, first, count);
        exchange(ops, step);
        if (is_away)
            move_back(ops, block, first, count);
        if (step % 20 == 0)
            for (int i = 0; i < BLOCKS; i++)
                check_block(ops, &ops->blocks[i]);
        if (step % 25 == 0)
            replace_child(ops);
        if (is_writer_wrong)
            fail(&ops->program, "a page of the thread's went back");
        program_step(&ops->program, step);
    }
}

int main(int argc, char **argv)
{
    static struct mem_ops ops = {.program = {.steps = 300}};
    pthread_t writer;
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    program_begin(&ops.program, "mem_ops", argc, argv);
    ops.random = mix_number(ops.program.seed, (uint64_t)ops.program.rank, 5);
    ops.message = calloc(MESSAGE_PAGES, PAGE);
    writer_pages = calloc(WRITER_PAGES, PAGE);
    reserve_elsewhere(&ops, PAGES_MAX * PAGE);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 10);
    make_file(&ops);
    map_common(&ops);
    MPI_Barrier(MPI_COMM_WORLD);
    pthread_create(&writer, NULL, write_without_end, NULL);
    run(&ops);
    is_writer_told_to_end = true;
    pthread_join(writer, NULL);
    end_child(&ops);
    remove_files(&ops);
    program_end(&ops.program);
    MPI_Finalize();
    return 0;
}
