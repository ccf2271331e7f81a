/*
 * files - what programs do with files; each step changes those of --mode, whose contents depend on all steps:
 *   append    opens with O_APPEND for every step, and fprintf to one that stays open
 *   rewrite   reads, adds to and writes back numbers anywhere in a file of --value KiB (default 1024)
 *   truncate  cuts a file, and lets it grow again; also by opening with O_TRUNC
 *   rename    writes a new file and renames it over the old one; links; folders
 *   remove    removes a file and creates it again, with O_EXCL
 *   shared    all ranks write to one file, over one another's old numbers and behind its end
 *   turns     in each step all ranks in turn write over the same numbers, append to and rename the same files
 *   mapped    adds to numbers of a file and of POSIX shared memory, through shared mappings
 *   numbers   writes to several files in turn by one descriptor number: opened again, or put there by dup2
 *   ways      writes by writev, pwritev, fallocate, copy_file_range and sendfile
 *   raw       makes and removes names of all kinds relative to AT_FDCWD as compilers pass it:
 * 0x00000000ffffff9c; writes by descriptors with something in the upper half of the register
 */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define NAME_BYTES 64
#define MAPPED_NUMBERS 5000

struct files {
    struct program program;
    char name[NAME_BYTES];
    FILE *stream;
    int fd;
    uint64_t *numbers, *shared_numbers; /* of a file, of shared memory */
    char shared_name[NAME_BYTES];
};

static void check(const struct files *f, const char *what, bool is_fine)
{
    if (!is_fine)
        fail(&f->program, "%s: %s", what, strerror(errno));
}

static int open_file(const struct files *f, const char *name, int flags)
{
    int fd = open(name, flags, 0644);
    check(f, name, fd >= 0);
    return fd;
}

static void write_all(const struct files *f, int fd, const void *data, size_t bytes)
{
    check(f, "write", write(fd, data, bytes) == (ssize_t)bytes);
}

/* ---- the modes ---- */

static void append(struct files *f, long step)
{
    char line[64];
    int length = snprintf(line, sizeof line, "step %ld of rank %d\n", step, f->program.rank);
    int fd = open_file(f, f->name, O_WRONLY | O_APPEND | O_CREAT);
    write_all(f, fd, line, (size_t)length);
    close(fd);
    fprintf(f->stream, "step %ld\n", step);
}

static void rewrite(struct files *f, long step)
{
    uint64_t random = (uint64_t)step * 1000 + (uint64_t)f->program.rank, sum = 0;
    for (int i = 0; i < 20; i++) {
        uint64_t number = 0;
        off_t offset = (off_t)(random_next(&random) % ((uint64_t)f->program.value * 128)) * 8;
        check(f, "pread", pread(f->fd, &number, sizeof number, offset) == sizeof number);
        sum += number;
        number = number * 3 + (uint64_t)step;
        check(f, "pwrite", pwrite(f->fd, &number, sizeof number, offset) == sizeof number);
    }
    digest_add_number(&f->program.digest, sum);
}

static void truncate_and_grow(struct files *f, long step)
{
    struct stat st;
    char text[200];
    memset(text, 'a' + (int)(step % 26), sizeof text);
    check(f, "fstat", fstat(f->fd, &st) == 0);
    digest_add_number(&f->program.digest, (uint64_t)st.st_size);
    if (step % 7 == 0)
        check(f, "ftruncate", ftruncate(f->fd, st.st_size / 3) == 0);
    if (step % 31 == 0)
        check(f, "truncate", truncate(f->name, 5) == 0);
    check(f, "lseek", lseek(f->fd, 0, SEEK_END) >= 0);
    write_all(f, f->fd, text, (size_t)(step % 200));
    if (step % 53 == 0)
        close(open_file(f, f->name, O_WRONLY | O_TRUNC));
}

static long read_number(const struct files *f, const char *name)
{
    long number = -1;
    FILE *stream = fopen(name, "r");
    check(f, name, stream && fscanf(stream, "%ld", &number) == 1);
    fclose(stream);
    return number;
}

static void rename_over(struct files *f, long step)
{
    char fresh[NAME_BYTES + 8], link_name[NAME_BYTES + 8], folder[NAME_BYTES + 8], inside[NAME_BYTES + 16];
    snprintf(fresh, sizeof fresh, "%s.new", f->name);
    snprintf(link_name, sizeof link_name, "%s.link", f->name);
    snprintf(folder, sizeof folder, "folder-%d-%ld", f->program.rank, step);
    snprintf(inside, sizeof inside, "%s/number", folder);
    if (read_number(f, f->name) != step - 1 || read_number(f, link_name) != step - 1)
        fail(&f->program, "step %ld: another step's file", step);
    FILE *stream = fopen(fresh, "wx");
    check(f, fresh, stream && fprintf(stream, "%ld\n", step) > 0 && fclose(stream) == 0);
    check(f, "unlink", unlink(link_name) == 0);
    check(f, "mkdir", mkdir(folder, 0755) == 0);
    check(f, "link", link(fresh, inside) == 0);
    check(f, "rename", rename(fresh, f->name) == 0);
    check(f, "symlink", symlink(f->name, link_name) == 0);
    check(f, "unlink", unlink(inside) == 0);
    check(f, "rmdir", rmdir(folder) == 0);
}

static void remove_and_create(struct files *f, long step)
{
    char text[32];
    if (read_number(f, f->name) != step - 1)
        fail(&f->program, "step %ld: another step's file", step);
    check(f, "unlink", unlink(f->name) == 0);
    int fd = open_file(f, f->name, O_WRONLY | O_CREAT | O_EXCL);
    write_all(f, fd, text, (size_t)snprintf(text, sizeof text, "%ld\n", step));
    close(fd);
}

static void share(struct files *f, long step)
{
    uint64_t number = 0;
    int ranks = f->program.ranks;
    long place = (step + f->program.rank) % ranks + (step % 50) * ranks; /* another rank's, one step before */
    off_t offset = place * (off_t)sizeof number;
    check(f, "pread", pread(f->fd, &number, sizeof number, offset) >= 0);
    number = number * 5 + (uint64_t)step;
    check(f, "pwrite", pwrite(f->fd, &number, sizeof number, offset) == sizeof number);
    offset = (1000 + step * ranks + f->program.rank) * (off_t)sizeof number;
    check(f, "pwrite", pwrite(f->fd, &number, sizeof number, offset) == sizeof number);
    digest_add_number(&f->program.digest, number);
}

/* What one rank leaves, the next one takes up. */
static void take_turn(struct files *f, long step)
{
    char old[NAME_BYTES], new[NAME_BYTES];
    uint64_t number = 0;
    long turn = (step + f->program.rank) % f->program.ranks, count = (step - 1) * f->program.ranks + turn;
    off_t offset = step % 8 * (off_t)sizeof number;
    snprintf(old, sizeof old, "data-name-%ld", count);
    snprintf(new, sizeof new, "data-name-%ld", count + 1);
    check(f, "pread", pread(f->fd, &number, sizeof number, offset) >= 0);
    number = number * 7 + (uint64_t)count;
    check(f, "pwrite", pwrite(f->fd, &number, sizeof number, offset) == sizeof number);
    int fd = open_file(f, "data-turns.log", O_WRONLY | O_APPEND | O_CREAT);
    check(f, "lseek", lseek(fd, 0, SEEK_END) == count * (off_t)sizeof number);
    write_all(f, fd, &number, sizeof number);
    close(fd);
    check(f, old,
          count == 0 ? close(open_file(f, new, O_CREAT | O_EXCL | O_WRONLY)) == 0 : rename(old, new) == 0);
    digest_add_number(&f->program.digest, number);
}

static void take_turns(struct files *f, long step)
{
    for (long turn = 0; turn < f->program.ranks; turn++) {
        if (turn == (step + f->program.rank) % f->program.ranks)
            take_turn(f, step);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static uint64_t *map_numbers(const struct files *f, int fd)
{
    check(f, "ftruncate", ftruncate(fd, MAPPED_NUMBERS * sizeof(uint64_t)) == 0);
    void *at = mmap(NULL, MAPPED_NUMBERS * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    check(f, "mmap", at != MAP_FAILED);
    return at;
}

static void add_in_mappings(struct files *f, long step)
{
    long place = step * 7 % MAPPED_NUMBERS;
    f->numbers[place] = f->numbers[place] * 3 + (uint64_t)step;
    f->shared_numbers[place] = f->shared_numbers[place] * 5 + (uint64_t)step;
    digest_add_number(&f->program.digest, f->numbers[place] ^ f->shared_numbers[place]);
}

/* Both files are mapped all the time; that of shared memory has no name in the end. */
static void begin_mapped(struct files *f)
{
    snprintf(f->shared_name, sizeof f->shared_name, "/belay-files-%ld-%d", (long)getppid(), f->program.rank);
    int fd = shm_open(f->shared_name, O_RDWR | O_CREAT | O_EXCL, 0600);
    check(f, f->shared_name, fd >= 0);
    f->numbers = map_numbers(f, f->fd);
    f->shared_numbers = map_numbers(f, fd);
    close(fd);
}

static void write_in_all_ways(struct files *f, long step)
{
    char text[3][32];
    struct iovec parts[3];
    struct stat st;
    off_t from = 0, to = 96 * (step % 5), head = 48;
    for (int i = 0; i < 3; i++) {
        memset(text[i], 'a' + (int)((step + i) % 26), sizeof text[i]);
        parts[i] = (struct iovec){text[i], sizeof text[i]};
    }
    check(f, "lseek", lseek(f->fd, 96 * (step % 4), SEEK_SET) >= 0);
    check(f, "writev", writev(f->fd, parts, 3) == 96);
    check(f, "pwritev", pwritev(f->fd, parts, 2, 64 * (step % 9)) == 64);
    int hole = fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 32 * (step % 3), 32);
    check(f, "fallocate", hole == 0 || errno == EOPNOTSUPP);
    check(f, "copy_file_range", copy_file_range(f->fd, &from, f->fd, &(off_t){1000 + to}, 96, 0) == 96);
    check(f, "lseek", lseek(f->fd, 2000 + 16 * (step % 6), SEEK_SET) >= 0);
    check(f, "sendfile", sendfile(f->fd, f->fd, &head, 16) == 16);
    check(f, "fstat", fstat(f->fd, &st) == 0);
    digest_add_number(&f->program.digest, (uint64_t)st.st_size);
}

/* Adds to the number at the beginning of the file that a descriptor stands for. */
static void add_at_start(struct files *f, int fd, long step)
{
    uint64_t number = 0;
    check(f, "pread", pread(fd, &number, sizeof number, 0) >= 0);
    number = number * 3 + (uint64_t)step;
    check(f, "lseek", lseek(fd, 0, SEEK_SET) == 0);
    write_all(f, fd, &number, sizeof number);
    digest_add_number(&f->program.digest, number);
}

static void write_in_turn(struct files *f, long step)
{
    char name[3][NAME_BYTES + 8];
    int number = -1;
    for (int i = 0; i < 3; i++)
        snprintf(name[i], sizeof name[i], "%s.%d", f->name, i);
    for (int i = 0; i < 2; i++) {
        int fd = open_file(f, name[i], O_RDWR | O_CREAT);
        check(f, "the same number", number < 0 || fd == number);
        number = fd;
        add_at_start(f, fd, step);
        close(fd);
    }
    int fd = open_file(f, name[1], O_RDWR), other = open_file(f, name[2], O_RDWR | O_CREAT);
    add_at_start(f, fd, step);
    check(f, "dup2", dup2(other, fd) == fd);
    close(other);
    add_at_start(f, fd, step);
    close(fd);
}

static long raw(const struct files *f, const char *what, long nr, long a, long b, long c, long d, long e)
{
    long result = syscall(nr, a, b, c, d, e, 0);
    check(f, what, result >= 0);
    return result;
}

/* Each step makes its own names and removes those of the step before, which a restart has to bring back. */
static void change_raw(struct files *f, long step)
{
    long upper = step % 2 ? 0 : 0x5a5a5a5al << 32, here = upper | 0xffffff9c;
    char old[6][NAME_BYTES + 32], new[6][NAME_BYTES + 32], text[32];
    for (int i = 0; i < 6; i++) {
        snprintf(old[i], sizeof old[i], "raw-%d.%d-%ld", f->program.rank, i, step - 1);
        snprintf(new[i], sizeof new[i], "raw-%d.%d-%ld", f->program.rank, i, step);
    }
    close((int)raw(f, "openat", SYS_openat, here, (long)new[0], upper | O_CREAT | O_EXCL | O_WRONLY,
                   upper | 0600, 0));
    raw(f, "linkat", SYS_linkat, here, (long)new[0], here, (long)new[1], upper);
    raw(f, "symlinkat", SYS_symlinkat, (long)new[0], here, (long)new[2], 0, 0);
    raw(f, "mkdirat", SYS_mkdirat, here, (long)new[3], upper | 0700, 0, 0);
    raw(f, "mknodat", SYS_mknodat, here, (long)new[4], upper | S_IFIFO | 0600, upper, 0);
    if (step > 1) {
        raw(f, "renameat", SYS_renameat, here, (long)old[0], here, (long)new[5], 0);
        raw(f, "renameat2", SYS_renameat2, here, (long)new[5], here, (long)new[1], upper | RENAME_EXCHANGE);
        for (int i = 1; i < 5; i++)
            raw(f, old[i], SYS_unlinkat, here, (long)old[i], upper | (i == 3 ? AT_REMOVEDIR : 0), 0, 0);
        raw(f, "unlinkat", SYS_unlinkat, here, (long)new[5], upper, 0, 0);
    }
    int length = snprintf(text, sizeof text, "step %ld\n", step);
    raw(f, "pwrite64", SYS_pwrite64, upper | f->fd, (long)text, length, step * 3, 0);
    raw(f, "ftruncate", SYS_ftruncate, upper | f->fd, 400 - step % 400, 0, 0, 0);
    struct stat st;
    check(f, "fstat", fstat(f->fd, &st) == 0);
    digest_add_number(&f->program.digest, (uint64_t)st.st_size);
}

static const struct mode {
    const char *name;
    void (*step)(struct files *f, long step);
} modes[] = {
    {"append", append},         {"rewrite", rewrite},          {"truncate", truncate_and_grow},
    {"rename", rename_over},    {"remove", remove_and_create}, {"shared", share},
    {"turns", take_turns},      {"mapped", add_in_mappings},   {"ways", write_in_all_ways},
    {"numbers", write_in_turn}, {"raw", change_raw},
};

static const struct mode *find_mode(const struct files *f)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(modes[i].name, f->program.mode))
            return &modes[i];
    fail(&f->program, "there is no mode %s", f->program.mode);
    return NULL;
}

static void begin(struct files *f)
{
    char other[NAME_BYTES + 8];
    bool is_shared = !strcmp(f->program.mode, "shared") || !strcmp(f->program.mode, "turns");
    bool is_called_deleted = !strcmp(f->program.mode, "mapped") && f->program.rank % 2; /* it is not */
    snprintf(f->name, sizeof f->name, "data-%d%s", is_shared ? 0 : f->program.rank,
             is_called_deleted ? " (deleted)" : "");
    f->fd = open_file(f, f->name, O_RDWR | O_CREAT | (is_shared ? 0 : O_TRUNC));
    if (!strcmp(f->program.mode, "rewrite"))
        check(f, "ftruncate", ftruncate(f->fd, f->program.value * 1024) == 0);
    if (!strcmp(f->program.mode, "rename") || !strcmp(f->program.mode, "remove"))
        write_all(f, f->fd, "0\n", 2);
    if (!strcmp(f->program.mode, "mapped"))
        begin_mapped(f);
    snprintf(other, sizeof other, "%s.link", f->name);
    if (!strcmp(f->program.mode, "rename"))
        check(f, "symlink", symlink(f->name, other) == 0);
    snprintf(other, sizeof other, "%s.log", f->name);
    f->stream = fopen(other, "w");
    check(f, other, f->stream);
}

int main(int argc, char **argv)
{
    struct files f = {.program = {.steps = 200, .value = 1024, .mode = "append"}};
    MPI_Init(&argc, &argv);
    program_begin(&f.program, "files", argc, argv);
    const struct mode *mode = find_mode(&f);
    begin(&f);
    for (long step = 1; step <= f.program.steps; step++) {
        MPI_Barrier(MPI_COMM_WORLD);
        mode->step(&f, step);
        program_step(&f.program, step);
    }
    if (f.shared_name[0])
        shm_unlink(f.shared_name);
    fclose(f.stream);
    close(f.fd);
    program_end(&f.program);
    MPI_Finalize();
    return 0;
}
