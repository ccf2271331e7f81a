/*
 * mem_race - memory that is written to in many ways at once, by threads that never stop, and that they check
 * all the time.
 *
 * Of --value MiB a rank, a quarter each is written to by two threads and filled by system calls (pread,
 * readv, recv, read of a pipe). A third thread maps, moves, shrinks, gives back and unmaps memory, a fourth
 * one forks children that write to their copies of all that. The main thread takes steps.
 *
 * --mode alone: nothing else.
 * --mode shared: one more thread writes in turn to memory of its own, and to memory that children and ranks
 * share: both are of the same moment.
 * --mode others: also, in bouts of a second, the rank to the left writes to the last quarter by
 * process_vm_writev.
 */
#define _GNU_SOURCE /* mremap, process_vm_writev */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define PAGE 4096ul
#define WORDS (PAGE / sizeof(uint64_t))
#define BLOCK_PAGES 16ul /* what a pipe holds */
#define BLOCK_BYTES (BLOCK_PAGES * PAGE)
#define FILE_BLOCKS 8ul
#define SHARED_PAGES 64ul
#define RANKS_MOST (PAGE / sizeof(struct seat))
#define PAUSE_US 300   /* after each round of a thread: there are more of them than processors */
#define BOUT_ROUNDS 64 /* of these, every other lot writes to the neighbour */

/* Where a rank is, for its neighbour; after a restart it is another process. */
struct seat {
    long pid;
    char *memory;
};

static struct program program = {.steps = 200, .value = 16, .mode = "alone"};
static volatile bool is_told_to_end;
static char *memory;
static size_t quarter;      /* of it, in bytes */
static struct seat *common; /* of each rank, in a file that all have mapped; NULL: it is not asked for */
static uint64_t *family;    /* shared with children */

static uint64_t *page_at(char *from, size_t page)
{
    return (uint64_t *)(void *)(from + page * PAGE);
}

static void stamp(uint64_t *page, uint64_t value)
{
    page[0] = value;
    page[value % (WORDS - 2) + 1] = ~value;
    page[WORDS - 1] = value;
}

static bool is_stamped(const uint64_t *page, uint64_t value)
{
    return page[0] == value && page[WORDS - 1] == value;
}

static void rest(void)
{
    usleep(PAUSE_US);
}

/* Each round writes its number to each page, which has that of the round before. */
static void *write_pages(void *area)
{
    for (uint64_t round = 1; !is_told_to_end; round++) {
        for (size_t i = 0; i < quarter / PAGE; i++) {
            uint64_t *page = page_at(area, i);
            if (!is_stamped(page, round - 1))
                fail(&program, "round %llu: page %zu has %llu", (unsigned long long)round, i,
                     (unsigned long long)page[0]);
            stamp(page, round);
        }
        rest();
    }
    return NULL;
}

/* ---- system calls that write to pages ---- */

static uint64_t of_file(uint64_t block, size_t page)
{
    return mix_number(block, page, 3);
}

static void fill_block(char *block, uint64_t number)
{
    for (size_t i = 0; i < BLOCK_PAGES; i++)
        stamp(page_at(block, i), of_file(number, i));
}

static void check_block(char *block, uint64_t number, const char *what)
{
    for (size_t i = 0; i < BLOCK_PAGES; i++)
        if (!is_stamped(page_at(block, i), of_file(number, i)))
            fail(&program, "page %zu of block %llu is wrong %s", i, (unsigned long long)number, what);
}

static int make_file(void)
{
    char name[32], *block = calloc(1, BLOCK_BYTES);
    snprintf(name, sizeof name, "mem_race-%d", program.rank);
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (uint64_t i = 0; i < FILE_BLOCKS; i++) {
        fill_block(block, i);
        if (write(file, block, BLOCK_BYTES) != (ssize_t)BLOCK_BYTES)
            fail(&program, "cannot write a file");
    }
    free(block);
    return file;
}

struct sources {
    int file, pipe[2], sockets[2];
    char *block; /* sent */
};

/* By one of the calls that read to memory. */
static bool read_block(const struct sources *from, int way, uint64_t number, char *to)
{
    const struct iovec halves[] = {{to, BLOCK_BYTES / 2}, {to + BLOCK_BYTES / 2, BLOCK_BYTES / 2}};
    ssize_t got;
    fill_block(from->block, number);
    if (way == 0)
        got = pread(from->file, to, BLOCK_BYTES, (off_t)(number * BLOCK_BYTES));
    else if (way == 1)
        got = preadv(from->file, halves, 2, (off_t)(number * BLOCK_BYTES));
    else if (way == 2)
        got = write(from->pipe[1], from->block, BLOCK_BYTES) == (ssize_t)BLOCK_BYTES
                  ? read(from->pipe[0], to, BLOCK_BYTES)
                  : -1;
    else
        got = send(from->sockets[1], from->block, BLOCK_BYTES, 0) == (ssize_t)BLOCK_BYTES
                  ? recv(from->sockets[0], to, BLOCK_BYTES, MSG_WAITALL)
                  : -1;
    return got == (ssize_t)BLOCK_BYTES;
}

static void *read_pages(void *area)
{
    struct sources from = {.file = make_file(), .block = calloc(1, BLOCK_BYTES)};
    if (pipe(from.pipe) || socketpair(AF_UNIX, SOCK_STREAM, 0, from.sockets))
        fail(&program, "no pipe");
    for (uint64_t round = 1; !is_told_to_end; round++) {
        for (uint64_t i = 0; i < quarter / BLOCK_BYTES; i++) {
            char *block = (char *)area + i * BLOCK_BYTES;
            uint64_t number = (round + i) % FILE_BLOCKS;
            if (round > 1)
                check_block(block, (number + FILE_BLOCKS - 1) % FILE_BLOCKS, "before it is read");
            if (!read_block(&from, (int)((round + i / 2) % 4), number, block))
                fail(&program, "cannot read block %llu", (unsigned long long)number);
            check_block(block, number, "after it was read");
        }
        rest();
    }
    return NULL;
}

/* ---- memory that comes and goes ---- */

static void fill(char *from, size_t first, size_t end, uint64_t round)
{
    for (size_t i = first; i < end; i++)
        stamp(page_at(from, i), round + i);
}

static void check(char *from, size_t first, size_t end, uint64_t round, bool is_empty)
{
    for (size_t i = first; i < end; i++)
        if (!is_stamped(page_at(from, i), is_empty ? 0 : round + i))
            fail(&program, "round %llu: page %zu of what comes and goes has %llu", (unsigned long long)round,
                 i, (unsigned long long)page_at(from, i)[0]);
}

static char *map(char *at, size_t pages)
{
    char *made = mmap(at, pages * PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
    if (made == MAP_FAILED)
        fail(&program, "no memory");
    return made;
}

/* What is mapped for a round grows elsewhere, loses pages in all ways, is protected, and is moved before it
 * goes. */
static void come_and_go(size_t part, uint64_t round)
{
    char *made = map(NULL, 2 * part);
    fill(made, 0, 2 * part, round);
    made = mremap(made, 2 * part * PAGE, 4 * part * PAGE, MREMAP_MAYMOVE);
    if (made == MAP_FAILED)
        fail(&program, "no memory");
    fill(made, 2 * part, 4 * part, round);
    rest();
    madvise(made + part * PAGE, part * PAGE / 2, MADV_DONTNEED);
    map(made + 2 * part * PAGE, part / 2);
    munmap(made + 3 * part * PAGE, part * PAGE);
    madvise(made + (2 * part + part / 2) * PAGE, (part - part / 2) * PAGE, MADV_FREE);
    fill(made, 2 * part + part / 2, 3 * part, round);
    rest();
    mprotect(made, part * PAGE, PROT_READ);
    check(made, 0, part, round, false);
    check(made, part, part + part / 2, round, true);
    check(made, part + part / 2, 2 * part, round, false);
    check(made, 2 * part, 2 * part + part / 2, round, true);
    check(made, 2 * part + part / 2, 3 * part, round, false);
    char *place = map(NULL, part);
    if (mremap(made + (part + part / 2) * PAGE, part / 2 * PAGE, part / 2 * PAGE,
               MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED)
        fail(&program, "a part cannot be moved");
    rest();
    check(place - (part + part / 2) * PAGE, part + part / 2, 2 * part, round, false);
    munmap(place, part * PAGE);
    munmap(made, 3 * part * PAGE);
}

static void *change_mappings(void *unused)
{
    (void)unused;
    for (uint64_t round = 1; !is_told_to_end; round++)
        come_and_go(quarter / PAGE / 4, round);
    return NULL;
}

/* Children write to their copies of everything, and to nothing that is the rank's. */
static void *fork_children(void *unused)
{
    (void)unused;
    while (!is_told_to_end) {
        pid_t child = fork();
        if (child == 0) {
            for (size_t i = 0; i < 4 * quarter / PAGE; i++)
                page_at(memory, i)[0] = UINT64_MAX;
            if (family)
                __atomic_add_fetch(&family[SHARED_PAGES * WORDS], 1, __ATOMIC_RELAXED);
            _exit(0);
        }
        if (child > 0) /* after a restart there is none */
            waitpid(child, NULL, 0);
        for (int i = 0; i < 10; i++)
            rest();
    }
    return NULL;
}

/* ---- memory that others write to as well ---- */

static void map_shared(void)
{
    int file = open("mem_race-common", O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, (off_t)PAGE))
        fail(&program, "cannot make a file");
    common = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    family = mmap(NULL, (SHARED_PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (common == MAP_FAILED || family == MAP_FAILED || (size_t)program.ranks > RANKS_MOST)
        fail(&program, "no shared memory");
    close(file);
}

/* The rank's own number of each shared page is as old as the page. */
static void *write_shared(void *unused)
{
    static uint64_t own[SHARED_PAGES * WORDS];
    (void)unused;
    for (uint64_t round = 1; !is_told_to_end; round++) {
        for (size_t i = 0; i < SHARED_PAGES; i++) {
            uint64_t *seen = &own[i * WORDS], *shared = &family[i * WORDS];
            if (*seen != round - 1 || *shared != round - 1)
                fail(&program, "round %llu: the rank has %llu of a page, and what it shares %llu",
                     (unsigned long long)round, (unsigned long long)*seen, (unsigned long long)*shared);
            *seen = round;
            *shared = round;
        }
        common[program.rank] = (struct seat){getpid(), memory + 3 * quarter};
        rest();
    }
    return NULL;
}

/* A block of the neighbour's: what it has, and what is to be there. */
static bool exchange_block(const struct seat *seat, size_t block, uint64_t round, char *room)
{
    struct iovec here = {room, BLOCK_BYTES}, there = {seat->memory + block * BLOCK_BYTES, BLOCK_BYTES};
    if (process_vm_readv((pid_t)seat->pid, &here, 1, &there, 1, 0) != (ssize_t)BLOCK_BYTES)
        return false;
    for (size_t i = 0; i < BLOCK_PAGES; i++) {
        uint64_t *page = page_at(room, i);
        if (!is_stamped(page, round - 1))
            fail(&program, "round %llu: page %zu of the neighbour's block %zu has %llu",
                 (unsigned long long)round, i, block, (unsigned long long)page[0]);
        stamp(page, round);
    }
    return process_vm_writev((pid_t)seat->pid, &here, 1, &there, 1, 0) == (ssize_t)BLOCK_BYTES;
}

/* A round that a restart has come into is taken up where it was. */
static void *write_to_neighbour(void *unused)
{
    char *room = map(NULL, BLOCK_PAGES);
    (void)unused;
    for (uint64_t round = 1; !is_told_to_end; round++) {
        const volatile struct seat *place = &common[(program.rank + 1) % program.ranks];
        for (size_t i = 0; i < quarter / BLOCK_BYTES && !is_told_to_end;) {
            const struct seat seat = {place->pid, place->memory};
            if (seat.pid && exchange_block(&seat, i, round, room))
                i++;
            else
                rest();
        }
        for (int i = 0; i < 1000 && round % BOUT_ROUNDS == 0; i++)
            rest();
        rest();
    }
    return NULL;
}

/* ---- all of it ---- */

static void remove_files(void)
{
    char name[32];
    snprintf(name, sizeof name, "mem_race-%d", program.rank);
    unlink(name);
    MPI_Barrier(MPI_COMM_WORLD);
    if (program.rank == 0)
        unlink("mem_race-common");
}

static void take_steps(void)
{
    for (long step = 1; step <= program.steps; step++) {
        uint64_t sum = (uint64_t)step;
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        digest_add_number(&program.digest, sum);
        program_step(&program, step);
    }
}

int main(int argc, char **argv)
{
    pthread_t threads[8];
    size_t count = 0;
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    program_begin(&program, "mem_race", argc, argv);
    bool is_others = !strcmp(program.mode, "others"),
         is_shared = is_others || !strcmp(program.mode, "shared");
    quarter = ((size_t)program.value << 20) / 4;
    memory = map(NULL, 4 * quarter / PAGE);
    if (is_shared)
        map_shared();
    MPI_Barrier(MPI_COMM_WORLD);
    pthread_create(&threads[count++], NULL, write_pages, memory);
    pthread_create(&threads[count++], NULL, write_pages, memory + quarter);
    pthread_create(&threads[count++], NULL, read_pages, memory + 2 * quarter);
    pthread_create(&threads[count++], NULL, change_mappings, NULL);
    pthread_create(&threads[count++], NULL, fork_children, NULL);
    if (is_shared)
        pthread_create(&threads[count++], NULL, write_shared, NULL);
    if (is_others)
        pthread_create(&threads[count++], NULL, write_to_neighbour, NULL);
    take_steps();
    is_told_to_end = true;
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    remove_files();
    program_end(&program);
    MPI_Finalize();
    return 0;
}
