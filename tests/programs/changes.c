/*
 * changes - each rank makes one system call that changes a file or a name again and again, another one each;
 * the last rank only reads. It does not end: its test ends it. --mode names the calls, one line on standard
 * output, and ends.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/program.h"

static int fd, from, pipes[2]; /* a file of the rank's; another one; a pipe */
static char name[32], other[32];
static char byte[1];
static struct iovec part = {byte, 1};

/* What each call leaves is taken away by calls that would be refused as well, or by none. */
static void do_write(void)
{
    lseek(fd, 0, SEEK_SET);
    write(fd, byte, 1);
}
static void do_writev(void)
{
    lseek(fd, 0, SEEK_SET);
    writev(fd, &part, 1);
}
static void do_pwrite(void)
{
    pwrite(fd, byte, 1, 0);
}
static void do_pwritev(void)
{
    pwritev(fd, &part, 1, 0);
}
static void do_ftruncate(void)
{
    ftruncate(fd, 8);
}
static void do_truncate(void)
{
    truncate(name, 8);
}
static void do_fallocate(void)
{
    fallocate(fd, 0, 0, 8);
}
static void do_copy(void)
{
    copy_file_range(from, &(off_t){0}, fd, &(off_t){0}, 1, 0);
}
static void do_sendfile(void)
{
    lseek(fd, 0, SEEK_SET);
    sendfile(fd, from, &(off_t){0}, 1);
}
static void do_pipe(void)
{
    write(pipes[1], byte, 1);
    read(pipes[0], byte, 1);
}
static void do_create(void)
{
    close(open(name, O_WRONLY | O_CREAT, 0600));
}
static void do_cut(void)
{
    close(open(name, O_WRONLY | O_TRUNC));
}
static void do_unlink(void)
{
    unlink(other);
}
static void do_rename(void)
{
    rename(name, other);
}
static void do_link(void)
{
    link(name, other);
}
static void do_symlink(void)
{
    symlink(name, other);
}
static void do_mkdir(void)
{
    mkdir(other, 0700);
}
static void do_mknod(void)
{
    mkfifo(other, 0600);
}
static void do_chmod(void)
{
    chmod(name, 0600);
}
static void do_utimes(void)
{
    futimens(fd, NULL);
}
static void do_setxattr(void)
{
    fsetxattr(fd, "user.a", byte, 1, 0);
}
static void do_mmap(void)
{
    munmap(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0), 4096);
}
static void do_read(void)
{
    pread(fd, byte, 1, 0);
}

typedef void call_f(void);

static const struct {
    const char *name;
    call_f *call;
} calls[] = {
    {"write", do_write},         {"writev", do_writev},
    {"pwrite", do_pwrite},       {"pwritev", do_pwritev},
    {"ftruncate", do_ftruncate}, {"truncate", do_truncate},
    {"fallocate", do_fallocate}, {"copy_file_range", do_copy},
    {"sendfile", do_sendfile},   {"pipe", do_pipe},

    {"create", do_create},       {"cut", do_cut},
    {"unlink", do_unlink},       {"rename", do_rename},
    {"link", do_link},           {"symlink", do_symlink},
    {"mkdir", do_mkdir},         {"mknod", do_mknod},
    {"chmod", do_chmod},         {"utimes", do_utimes},
    {"setxattr", do_setxattr},   {"mmap", do_mmap},
    {"read", do_read},
};

#define CALLS ((int)(sizeof calls / sizeof *calls))

static void prepare(const struct program *program)
{
    snprintf(name, sizeof name, "changes-%d", program->rank);
    snprintf(other, sizeof other, "changes-%d-other", program->rank);
    fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || from < 0 || pwrite(fd, byte, 1, 0) != 1 || pipe(pipes) < 0)
        fail(program, "nothing can be changed here");
}

int main(int argc, char **argv)
{
    struct program program = {.steps = 500};
    const struct timespec rest = {.tv_nsec = 20000000};
    MPI_Init(&argc, &argv);
    program_begin(&program, "changes", argc, argv);
    if (strcmp(program.mode, "names") == 0) {
        for (int i = 0; i < CALLS; i++)
            printf("%s%s", calls[i].name, i < CALLS - 1 ? " " : "\n");
        MPI_Finalize();
        return 0;
    }
    if (program.ranks != CALLS)
        fail(&program, "%d ranks are needed", CALLS);
    prepare(&program);
    MPI_Barrier(MPI_COMM_WORLD);
    for (;;) {
        calls[program.rank].call();
        nanosleep(&rest, NULL);
    }
}
