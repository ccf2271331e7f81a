/*
 * mapped - mappings of files without a name: memfds and deleted files, their descriptors open or closed,
 * shared and private. What lies behind a file's end cannot be read; two mappings of one file are one memory.
 *
 * One more has a name, is mapped privately, and becomes shorter and longer: the pages behind its end are gone
 * with what was written to them.
 *
 * Rank 0 tells in the end which pages there are.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define PAGE 4096ul
#define FILE_BYTES (2 * PAGE + PAGE / 2)
#define PAGES 5 /* of a mapping */
#define COUNT 8

static struct program program = {.steps = 20};

static struct file {
    bool is_memfd, is_closed, is_private;
    int fd;
    char *at[2]; /* two mappings, the second one from page 1 on, not writable at first */
} files[COUNT];

static void expect(int is_true, const char *what, int which)
{
    if (!is_true)
        fail(&program, "file %d: %s", which, what);
}

static char *map(const struct file *f, int prot, off_t from, int which)
{
    char *at = mmap(NULL, PAGES * PAGE, prot, f->is_private ? MAP_PRIVATE : MAP_SHARED, f->fd, from);
    expect(at != MAP_FAILED, "mmap", which);
    return at;
}

static void make(struct file *f, int which)
{
    char name[] = "mapped-XXXXXX", content[FILE_BYTES];
    f->is_memfd = which & 1;
    f->is_closed = which & 2;
    f->is_private = which & 4;
    f->fd = f->is_memfd ? memfd_create("mapped", MFD_CLOEXEC) : mkstemp(name);
    if (!f->is_memfd)
        unlink(name);
    memset(content, 'a' + which, sizeof content);
    expect(f->fd >= 0 && write(f->fd, content, sizeof content) == sizeof content, "write", which);
    f->at[0] = map(f, PROT_READ | PROT_WRITE, 0, which);
    f->at[1] = map(f, PROT_READ, PAGE, which);
    if (f->is_closed)
        close(f->fd);
}

/* Can the page be read? Asked of the kernel, since a look would be a signal. */
static bool is_there(const char *at)
{
    char content[PAGE];
    struct iovec mine = {content, PAGE}, there = {(void *)(uintptr_t)at, PAGE};
    return process_vm_readv(getpid(), &mine, 1, &there, 1, 0) == (ssize_t)PAGE;
}

static void look(const struct file *f, long step, int which)
{
    bool has_grown = !f->is_closed && !f->is_private && step > program.steps / 2;
    for (size_t i = 0; i < PAGES; i++) {
        bool is_wanted = has_grown || i * PAGE < FILE_BYTES;
        bool is_next_wanted = has_grown || (i + 1) * PAGE < FILE_BYTES;
        expect(is_there(f->at[0] + i * PAGE) == is_wanted, "a page behind the end, or none in front of it",
               which);
        expect(is_there(f->at[1] + i * PAGE) == is_next_wanted, "the same of the second mapping", which);
        digest_add_number(&program.digest, is_wanted);
    }
}

/* Each step writes a byte by the first mapping, which the second has if they are shared. */
static void use(struct file *f, long step, int which)
{
    char was = (char)('a' + which);
    char *byte = f->at[0] + PAGE + step;
    expect(*byte == was && f->at[1][step] == was, "another content", which);
    *byte = (char)step;
    expect(f->at[1][step] == (f->is_private ? was : (char)step), "two mappings are two memories, or one",
           which);
    for (long i = 1; i <= step; i++)
        expect(f->at[0][PAGE + i] == (char)i, "lost content", which);
    if (f->is_private) /* whether such a mapping shows what the file gets later is left open */
        return;
    if (!f->is_closed) {
        char now = (char)(step + 1);
        expect(pwrite(f->fd, &now, 1, 7) == 1 && f->at[0][7] == now, "what the file has got", which);
    }
    if (!f->is_closed && step == program.steps / 2)
        expect(ftruncate(f->fd, (PAGES + 1) * PAGE) == 0, "ftruncate", which);
}

/* ---- a file that becomes shorter ---- */

static struct {
    int fd;
    char *at;
} cut;

static void make_cut(void)
{
    char name[32];
    snprintf(name, sizeof name, "mapped-cut-%d", program.rank);
    cut.fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    expect(cut.fd >= 0 && ftruncate(cut.fd, PAGES * PAGE) == 0, name, COUNT);
    cut.at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, cut.fd, 0);
    expect(cut.at != MAP_FAILED, "mmap", COUNT);
}

/* Pages 1 and 3 are written to; then page 3 goes for three steps. */
static void use_cut(long step)
{
    long part = step % 6;
    if (part == 1)
        cut.at[PAGE] = cut.at[3 * PAGE] = (char)step;
    if (part == 2)
        expect(ftruncate(cut.fd, 2 * PAGE) == 0, "ftruncate", COUNT);
    if (part == 5)
        expect(ftruncate(cut.fd, PAGES * PAGE) == 0, "ftruncate", COUNT);
    if (part == 5)
        expect(cut.at[3 * PAGE] == 0, "the file's own page behind what was its end", COUNT);
    expect(is_there(cut.at + PAGE) && is_there(cut.at + 3 * PAGE) == (part < 2 || part == 5),
           "a page behind the end of a shorter file, or none in front of it", COUNT);
    digest_add(&program.digest, cut.at + PAGE, 1);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    program_begin(&program, "mapped", argc, argv);
    for (int i = 0; i < COUNT; i++)
        make(&files[i], i);
    make_cut();
    for (long step = 1; step <= program.steps; step++) {
        for (int i = 0; i < COUNT; i++) {
            look(&files[i], step, i);
            use(&files[i], step, i);
        }
        use_cut(step);
        MPI_Barrier(MPI_COMM_WORLD);
        program_step(&program, step);
    }
    program_end(&program);
    MPI_Finalize();
    return 0;
}
