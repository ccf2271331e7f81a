/*
 * files_local - has files open that lie in the temporary folder (TMPDIR, else /tmp) of its rank's host, and
 * uses them in every step; at the end it copies each to data-KIND-RANK and removes it. --value: KiB (default
 * 256).
 * --mode: kinds of files, with a + in between:
 *   append   a line at the end, by a descriptor that cannot read
 *   update   numbers somewhere in it; the file is only the user's and the group's, and open twice
 *   deep     the same, in folders of its own
 *   input    reads on; it was written before
 *   scratch  update, after its name was removed
 *   unnamed  update, made without a name
 *   moved    update, under another name in another folder than the one that it was opened by
 *   common   append, and all ranks of the host to one file; each looks for its own lines only
 */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define PATH_BYTES 400
#define PIECE 4096
#define KINDS 8

static struct program program;

struct local {
    char kind[16];
    char folder[PATH_BYTES - 80], path[PATH_BYTES];
    int fd, again;
    off_t bytes;
};

static void check(const struct local *local, bool is_fine, const char *what)
{
    if (!is_fine)
        fail(&program, "%s %s: %s", what, local->path, strerror(errno));
}

static bool is(const struct local *local, const char *kind)
{
    return !strcmp(local->kind, kind);
}

static void name_file(struct local *local)
{
    const char *temporary = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    snprintf(local->folder, sizeof local->folder, "%s", temporary);
    if (is(local, "deep") || is(local, "moved")) {
        snprintf(local->folder, sizeof local->folder, "%.200s/local-%.15s-%d", temporary, local->kind,
                 program.rank);
        check(local, mkdir(local->folder, 0750) == 0, "mkdir");
    }
    if (is(local, "common"))
        snprintf(local->path, sizeof local->path, "%.300s/local-common", local->folder);
    else
        snprintf(local->path, sizeof local->path, "%.300s/local-%.15s-%d", local->folder, local->kind,
                 program.rank);
}

static void fill(struct local *local)
{
    char piece[PIECE];
    uint64_t state = program.seed + (uint64_t)program.rank;
    for (off_t at = 0; at < local->bytes; at += PIECE) {
        for (size_t i = 0; i < sizeof piece; i += sizeof state) {
            uint64_t number = random_next(&state);
            memcpy(piece + i, &number, sizeof number);
        }
        check(local, pwrite(local->fd, piece, sizeof piece, at) == sizeof piece, "pwrite");
    }
}

static void make(struct local *local)
{
    bool appends = is(local, "append") || is(local, "common");
    int flags = appends ? O_WRONLY | O_APPEND | O_CREAT : O_RDWR | O_CREAT | O_EXCL;
    local->fd =
        is(local, "unnamed") ? open(local->folder, O_TMPFILE | O_RDWR, 0640) : open(local->path, flags, 0640);
    check(local, local->fd >= 0, "open");
    local->again = -1;
    if (!appends)
        fill(local);
}

static void prepare(struct local *local)
{
    char link[64], other[PATH_BYTES];
    if (is(local, "scratch"))
        check(local, unlink(local->path) == 0, "unlink");
    if (is(local, "moved")) {
        snprintf(other, sizeof other, "%s.moved", local->folder);
        check(local, linkat(AT_FDCWD, local->path, AT_FDCWD, other, 0) == 0, "link");
        check(local, unlink(local->path) == 0, "unlink");
        memcpy(local->path, other, sizeof other);
    }
    if (is(local, "input")) {
        check(local, close(local->fd) == 0 && (local->fd = open(local->path, O_RDONLY)) >= 0, "open");
    } else if (!is(local, "append") && !is(local, "common")) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", local->fd);
        check(local, (local->again = open(link, O_RDONLY)) >= 0, "open");
    }
}

static void append(struct local *local, long step)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%d %ld\n", program.rank, step);
    check(local, write(local->fd, line, (size_t)length) == length, "write");
}

static void update(struct local *local, long step)
{
    uint64_t state = (uint64_t)step * 977 + (uint64_t)program.rank, number, seen;
    for (int i = 0; i < 5; i++) {
        off_t at = (off_t)(random_next(&state) % (uint64_t)(local->bytes / 8)) * 8;
        check(local, pread(local->again, &number, sizeof number, at) == sizeof number, "pread");
        digest_add_number(&program.digest, number);
        number = number * 3 + (uint64_t)step;
        check(local, pwrite(local->fd, &number, sizeof number, at) == sizeof number, "pwrite");
        check(local, pread(local->again, &seen, sizeof seen, at) == sizeof seen && seen == number, "reread");
    }
}

static void read_on(struct local *local)
{
    uint64_t numbers[8];
    ssize_t got = read(local->fd, numbers, sizeof numbers);
    check(local, got >= 0, "read");
    if (got == 0)
        check(local, lseek(local->fd, 0, SEEK_SET) == 0, "lseek");
    digest_add(&program.digest, numbers, (size_t)got);
}

static void use(struct local *local, long step)
{
    if (is(local, "append") || is(local, "common"))
        append(local, step);
    else if (is(local, "input"))
        read_on(local);
    else
        update(local, step);
}

/* Of a file that ranks share, the lines of this one; else all. */
static void copy_out(struct local *local)
{
    char name[64], line[PIECE];
    int rank;
    long step;
    size_t got;
    bool has_name = !is(local, "scratch") && !is(local, "unnamed");
    snprintf(name, sizeof name, "data-%s-%d", local->kind, program.rank);
    FILE *to = fopen(name, "w"), *from = has_name ? fopen(local->path, "r") : fdopen(dup(local->fd), "r");
    check(local, to && from && fseek(from, 0, SEEK_SET) == 0, "copy");
    while (is(local, "common") && fgets(line, sizeof line, from))
        if (sscanf(line, "%d %ld", &rank, &step) == 2 && rank == program.rank)
            fputs(line, to);
    while (!is(local, "common") && (got = fread(line, 1, sizeof line, from)) > 0)
        fwrite(line, 1, got, to);
    struct stat st;
    check(local, fstat(local->fd, &st) == 0, "fstat");
    fprintf(to, "mode %o\n", (unsigned)st.st_mode & 07777u);
    check(local, fclose(to) == 0 && fclose(from) == 0, "copy");
}

static void clean(const struct local *local)
{
    unlink(local->path);
    if (is(local, "deep") || is(local, "moved"))
        rmdir(local->folder);
}

/* Returns how many kinds there are. */
static int begin(struct local locals[KINDS])
{
    char kinds[200], *rest = NULL;
    int count = 0;
    snprintf(kinds, sizeof kinds, "%s", program.mode);
    for (char *kind = strtok_r(kinds, "+", &rest); kind && count < KINDS; kind = strtok_r(NULL, "+", &rest)) {
        struct local *local = &locals[count++];
        snprintf(local->kind, sizeof local->kind, "%s", kind);
        local->bytes = program.value << 10;
        name_file(local);
        make(local);
        prepare(local);
    }
    return count;
}

int main(int argc, char **argv)
{
    static struct local locals[KINDS];
    program = (struct program){.steps = 20, .value = 256, .mode = "update"};
    MPI_Init(&argc, &argv);
    program_begin(&program, "files_local", argc, argv);
    umask(022);
    int count = begin(locals);
    for (long step = 0; step < program.steps; step++) {
        uint64_t sum = 0;
        for (int i = 0; i < count; i++)
            use(&locals[i], step);
        MPI_Allreduce(&program.digest, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        digest_add_number(&program.digest, sum);
        program_step(&program, step);
    }
    for (int i = 0; i < count; i++)
        copy_out(&locals[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        clean(&locals[i]);
    program_end(&program);
    MPI_Finalize();
    return 0;
}
