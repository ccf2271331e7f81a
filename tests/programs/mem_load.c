/*
 * mem_load - --value MiB of memory in each rank, whose contents follow from how often each page was written:
 * each step checks some pages in ways that the mode names, and writes a few.
 *
 * --mode touch: reads 16 pages. threads: 4 threads read pages at random. calls: the kernel reads and writes
 * pages (write, read, readv, writev into and out of pages that nobody has touched). waits: recv, a futex,
 * process_vm_readv, mlock and MADV_POPULATE_WRITE do. fork: a child checks all pages. maps: parts are given
 * back, moved, unmapped and mapped again. sizes: mappings grow and shrink, and are protected and opened
 * again. huge: the memory is advised to have huge pages, and collapsed into them. Each mode does what `touch`
 * does, too, but for again: each step writes the same twentieth of the memory, a page of each 64 KiB of it.
 */
#define _GNU_SOURCE /* mremap */
#include <errno.h>
#include <linux/futex.h>
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define PAGE 4096ul
#define THREADS 4
#define TOUCHED 16
#define PART 64ul /* pages that are given back, moved or unmapped at a time */

struct mem_load {
    struct program program;
    char *memory;
    size_t pages;
    uint32_t *written; /* of each page how often; 0: it is zeros */
    long step;
};

/* Four words of a page, which is all that is in it. */
static void fill_page(const struct mem_load *load, char *page, size_t number)
{
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t word = mix_number((uint64_t)load->program.rank, number * 4 + i, load->written[number]);
        memcpy(page + i * 1000, &word, sizeof word);
    }
}

static void check_page(const struct mem_load *load, const char *page, size_t number)
{
    static const char zeros[PAGE];
    char wanted[PAGE] = {0};
    if (load->written[number])
        fill_page(load, wanted, number);
    if (memcmp(page, load->written[number] ? wanted : zeros, PAGE))
        fail(&load->program, "step %ld: page %zu, written %u times, is wrong", load->step, number,
             load->written[number]);
}

static char *page_at(const struct mem_load *load, size_t number)
{
    return load->memory + number * PAGE;
}

static size_t choose(const struct mem_load *load, uint64_t what)
{
    return mix_number((uint64_t)load->program.rank + 1000, (uint64_t)load->step, what) % load->pages;
}

static void write_page(struct mem_load *load, size_t number)
{
    load->written[number]++;
    memset(page_at(load, number), 0, PAGE);
    fill_page(load, page_at(load, number), number);
}

static void touch(struct mem_load *load)
{
    for (uint64_t i = 0; i < TOUCHED; i++) {
        size_t number = choose(load, i);
        check_page(load, page_at(load, number), number);
        if (i % 4 == 0)
            write_page(load, number);
    }
}

/* The same units of 16 pages in each step, far from one another. */
static void reuse(struct mem_load *load)
{
    for (size_t unit = 0; unit < load->pages / 16; unit += 20) {
        check_page(load, page_at(load, unit * 16 + 8), unit * 16 + 8);
        write_page(load, unit * 16 + 8);
    }
}

static void *read_at_random(void *argument)
{
    const struct mem_load *load = argument;
    uint64_t state = (uint64_t)load->step + (uint64_t)(uintptr_t)pthread_self();
    for (int i = 0; i < 64; i++) {
        size_t number = random_next(&state) % load->pages;
        check_page(load, page_at(load, number), number);
    }
    return NULL;
}

static void read_by_threads(struct mem_load *load)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, read_at_random, load))
            fail(&load->program, "no thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* Through a pipe: out of one page that nobody has touched, into a part of another one. */
static void call_kernel(struct mem_load *load)
{
    int ends[2];
    char got[PAGE];
    size_t from = choose(load, 100), to = choose(load, 101), last = choose(load, 102);
    if (pipe(ends))
        fail(&load->program, "no pipe");
    struct iovec out[2] = {{page_at(load, from), PAGE}, {page_at(load, last), PAGE}};
    if (write(ends[1], page_at(load, from), PAGE) != (ssize_t)PAGE ||
        read(ends[0], got, PAGE) != (ssize_t)PAGE)
        fail(&load->program, "step %ld: a page cannot be written", load->step);
    check_page(load, got, from);
    load->written[to]++;
    memset(got, 0, PAGE);
    fill_page(load, got, to);
    struct iovec in[2] = {{page_at(load, to), PAGE / 2}, {page_at(load, to) + PAGE / 2, PAGE / 2}};
    if (write(ends[1], got, PAGE) != (ssize_t)PAGE || readv(ends[0], in, 2) != (ssize_t)PAGE)
        fail(&load->program, "step %ld: a page cannot be read", load->step);
    check_page(load, page_at(load, to), to);
    if (writev(ends[1], out, 2) != (ssize_t)(2 * PAGE) || read(ends[0], got, PAGE) != (ssize_t)PAGE)
        fail(&load->program, "step %ld: pages cannot be written", load->step);
    check_page(load, got, from);
    close(ends[0]);
    close(ends[1]);
}

/* Into the page `to`, as it is after one more write. */
static void receive(struct mem_load *load, size_t to)
{
    int ends[2];
    char page[PAGE] = {0};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        fail(&load->program, "no pair of sockets");
    load->written[to]++;
    fill_page(load, page, to);
    if (send(ends[0], page, PAGE, 0) != (ssize_t)PAGE ||
        recv(ends[1], page_at(load, to), PAGE, MSG_WAITALL) != (ssize_t)PAGE)
        fail(&load->program, "step %ld: a page cannot be received", load->step);
    check_page(load, page_at(load, to), to);
    close(ends[0]);
    close(ends[1]);
}

/* The kernel compares a word of a page with what it holds, and waits or does not. */
static void wait_at(const struct mem_load *load, size_t at)
{
    char wanted[PAGE] = {0};
    uint32_t word;
    const struct timespec at_once = {0, 1000};
    fill_page(load, wanted, at);
    memcpy(&word, wanted, sizeof word);
    if (syscall(SYS_futex, page_at(load, at), FUTEX_WAIT, word, &at_once, NULL, 0) != -1 ||
        errno != ETIMEDOUT)
        fail(&load->program, "step %ld: a futex of page %zu holds another word", load->step, at);
    if (syscall(SYS_futex, page_at(load, at), FUTEX_WAIT, word + 1, &at_once, NULL, 0) != -1 ||
        errno != EAGAIN)
        fail(&load->program, "step %ld: a futex of page %zu waits for another word", load->step, at);
}

static void wait_in_kernel(struct mem_load *load)
{
    char got[PAGE];
    size_t read_at = choose(load, 301), locked = choose(load, 302), written = choose(load, 303);
    struct iovec to = {got, PAGE}, from = {page_at(load, read_at), PAGE};
    receive(load, choose(load, 300));
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)PAGE)
        fail(&load->program, "step %ld: a page cannot be read from outside", load->step);
    check_page(load, got, read_at);
    wait_at(load, choose(load, 304));
    if (mlock(page_at(load, locked), PAGE) == 0) { /* the limit may be none */
        check_page(load, page_at(load, locked), locked);
        munlock(page_at(load, locked), PAGE);
    }
#ifdef MADV_POPULATE_WRITE
    madvise(page_at(load, written), PAGE, MADV_POPULATE_WRITE);
#endif
    check_page(load, page_at(load, written), written);
}

static void check_all(const struct mem_load *load)
{
    for (size_t i = 0; i < load->pages; i++)
        check_page(load, page_at(load, i), i);
}

static void check_in_child(struct mem_load *load)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        for (size_t i = 0; i < load->pages; i++) {
            char wanted[PAGE] = {0};
            if (load->written[i])
                fill_page(load, wanted, i);
            if (memcmp(page_at(load, i), wanted, PAGE))
                _exit(1);
        }
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fail(&load->program, "step %ld: a child finds other memory: %#x", load->step, (unsigned)status);
}

/* Where `number` of a part begins. */
static size_t part_at(const struct mem_load *load, uint64_t what)
{
    return choose(load, what) % (load->pages / PART) * PART;
}

static void change_maps(struct mem_load *load)
{
    size_t gone = part_at(load, 200), moved = part_at(load, 201), again = part_at(load, 202);
    char *elsewhere = mmap(NULL, PART * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (elsewhere == MAP_FAILED || madvise(page_at(load, gone), PART * PAGE, MADV_DONTNEED))
        fail(&load->program, "no memory");
    memset(load->written + gone, 0, PART * sizeof *load->written);
    if (mremap(page_at(load, moved), PART * PAGE, PART * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) !=
        elsewhere)
        fail(&load->program, "memory cannot be moved");
    for (size_t i = 0; i < PART; i += 7)
        check_page(load, elsewhere + i * PAGE, moved + i);
    if (mremap(elsewhere, PART * PAGE, PART * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page_at(load, moved)) !=
        page_at(load, moved))
        fail(&load->program, "memory cannot be moved back");
    check_page(load, page_at(load, moved), moved);
    munmap(page_at(load, again), PART * PAGE);
    if (mmap(page_at(load, again), PART * PAGE, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        fail(&load->program, "memory cannot be mapped again");
    memset(load->written + again, 0, PART * sizeof *load->written);
    for (size_t i = 0; i < PART; i += 5)
        check_page(load, page_at(load, again + i), again + i);
    write_page(load, again);
}

/* The first half of a part is one mapping always: it moves and grows, and shrinks and moves back. */
static void grow(struct mem_load *load, size_t at)
{
    const size_t half = PART / 2;
    char *elsewhere = mmap(NULL, PART * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (elsewhere == MAP_FAILED || mremap(page_at(load, at), half * PAGE, PART * PAGE,
                                          MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) != elsewhere)
        fail(&load->program, "step %ld: memory cannot grow", load->step);
    for (size_t i = 0; i < half; i += 9) {
        check_page(load, elsewhere + i * PAGE, at + i);
        if (elsewhere[(half + i) * PAGE])
            fail(&load->program, "step %ld: memory that is new is not zeros", load->step);
        elsewhere[(half + i) * PAGE] = 1;
    }
    if (mremap(elsewhere, PART * PAGE, half * PAGE, 0) != elsewhere ||
        mremap(elsewhere, half * PAGE, half * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page_at(load, at)) !=
            page_at(load, at))
        fail(&load->program, "step %ld: memory cannot move back", load->step);
    for (size_t i = 0; i < half; i += 7)
        check_page(load, page_at(load, at + i), at + i);
}

static void change_sizes(struct mem_load *load)
{
    size_t shrunk = part_at(load, 401) + PART / 2, shut = part_at(load, 402), rest = PART / 4;
    grow(load, part_at(load, 400));
    if (mremap(page_at(load, shrunk), PART / 2 * PAGE, rest * PAGE, 0) != page_at(load, shrunk) ||
        mmap(page_at(load, shrunk + rest), rest * PAGE, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        fail(&load->program, "step %ld: memory cannot shrink", load->step);
    memset(load->written + shrunk + rest, 0, rest * sizeof *load->written);
    for (size_t i = 0; i < PART / 2; i += 5)
        check_page(load, page_at(load, shrunk + i), shrunk + i);
    if (mprotect(page_at(load, shut), PART * PAGE, PROT_NONE) ||
        mprotect(page_at(load, shut), PART * PAGE, PROT_READ | PROT_WRITE))
        fail(&load->program, "step %ld: memory cannot be protected", load->step);
    check_page(load, page_at(load, shut + 1), shut + 1);
}

/* Advice is no promise: nothing has to become of it but the same contents. */
static void collapse(struct mem_load *load)
{
#ifdef MADV_COLLAPSE
    size_t at = choose(load, 500);
    uintptr_t huge = (uintptr_t)page_at(load, at) & ~((2ul << 20) - 1);
    if (huge >= (uintptr_t)load->memory && huge + (2ul << 20) <= (uintptr_t)page_at(load, load->pages))
        madvise((void *)huge, 2ul << 20, MADV_COLLAPSE);
    check_page(load, page_at(load, at), at);
#endif
    if (load->step % 4 == 0)
        check_page(load, page_at(load, choose(load, 501)), choose(load, 501));
}

static void begin_memory(struct mem_load *load)
{
    load->pages = ((size_t)load->program.value << 20) / PAGE;
    load->written = calloc(load->pages, sizeof *load->written);
    load->memory = mmap(NULL, load->pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!load->written || load->memory == MAP_FAILED)
        fail(&load->program, "no memory");
    if (!strcmp(load->program.mode, "huge"))
        madvise(load->memory, load->pages * PAGE, MADV_HUGEPAGE);
    for (size_t i = 0; i < load->pages; i++)
        write_page(load, i);
}

static void act(struct mem_load *load)
{
    static const struct {
        const char *mode;
        void (*act)(struct mem_load *load);
        int every; /* so many steps */
    } ways[] = {{"threads", read_by_threads, 1},
                {"calls", call_kernel, 1},
                {"waits", wait_in_kernel, 1},
                {"fork", check_in_child, 8},
                {"maps", change_maps, 1},
                {"sizes", change_sizes, 1},
                {"huge", collapse, 1}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (!strcmp(load->program.mode, ways[i].mode) && load->step % ways[i].every == 0)
            ways[i].act(load);
}

int main(int argc, char **argv)
{
    struct mem_load load = {.program = {.steps = 200, .value = 16}};
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    program_begin(&load.program, "mem_load", argc, argv);
    begin_memory(&load);
    for (load.step = 1; load.step <= load.program.steps; load.step++) {
        uint64_t sum = (uint64_t)load.step;
        if (!strcmp(load.program.mode, "again"))
            reuse(&load);
        else
            touch(&load);
        act(&load);
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        digest_add_number(&load.program.digest, sum);
        program_step(&load.program, load.step);
    }
    check_all(&load);
    for (size_t i = 0; i < load.pages; i++)
        digest_add_number(&load.program.digest, load.written[i]);
    program_end(&load.program);
    MPI_Finalize();
    return 0;
}
