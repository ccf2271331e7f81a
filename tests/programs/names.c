/*
 * names - what a process is called: its arguments as it and as others see them, its program's file, its
 * name. Rank 0 prints them before the steps and after; in each step all ranks compare.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>

#include <mpi-ext.h> /* it does not include mpi.h */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define TEXT_BYTES 4096

struct names {
    char cmdline[TEXT_BYTES], exe[TEXT_BYTES], comm[TEXT_BYTES];
    ino_t exe_inode;
};

static void read_file(const struct program *program, const char *path, char text[TEXT_BYTES])
{
    int fd = open(path, O_RDONLY);
    ssize_t bytes = fd < 0 ? -1 : read(fd, text, TEXT_BYTES - 1);
    if (bytes < 0)
        fail(program, "%s: %s", path, strerror(errno));
    close(fd);
    for (ssize_t i = 0; i < bytes; i++)
        if (!text[i] || text[i] == '\n')
            text[i] = ' ';
    text[bytes] = 0;
}

static void look(const struct program *program, struct names *names)
{
    char path[64];
    struct stat st;
    memset(names, 0, sizeof *names);
    read_file(program, "/proc/self/cmdline", names->cmdline);
    read_file(program, "/proc/self/comm", names->comm);
    snprintf(path, sizeof path, "/proc/%ld/exe", (long)getpid());
    if (readlink(path, names->exe, TEXT_BYTES - 1) < 0)
        fail(program, "%s: %s", path, strerror(errno));
    int fd = open("/proc/self/exe", O_RDONLY);
    if (fd < 0 || fstat(fd, &st))
        fail(program, "/proc/self/exe: %s", strerror(errno));
    close(fd);
    names->exe_inode = st.st_ino;
}

static void print(const struct program *program, const struct names *names)
{
    struct stat st;
    if (stat(names->exe, &st) || st.st_ino != names->exe_inode)
        fail(program, "/proc/self/exe is another file than %s", names->exe);
    if (program->rank)
        return;
    printf("cmdline %s\nexe %s\ncomm %s\n", names->cmdline, names->exe, names->comm);
    printf("%s, %s\n", program_invocation_name, program_invocation_short_name);
}

/* Two functions of Open MPI's own: where it is bound, and that it has no memory of devices. */
static void ask_extensions(const struct program *program)
{
    char bound[OMPI_AFFINITY_STRING_MAX], now[OMPI_AFFINITY_STRING_MAX], all[OMPI_AFFINITY_STRING_MAX];
    int code = OMPI_Affinity_str(OMPI_AFFINITY_RSRC_STRING_FMT, bound, now, all);
    if (code != MPI_SUCCESS || MPIX_Query_cuda_support())
        fail(program, "Open MPI's own functions: %d", code);
}

int main(int argc, char **argv)
{
    static struct program program = {.steps = 50};
    static struct names first, now;
    MPI_Init(&argc, &argv);
    program_begin(&program, "names", argc, argv);
    look(&program, &first);
    print(&program, &first);
    for (long step = 1; step <= program.steps; step++) {
        MPI_Barrier(MPI_COMM_WORLD);
        look(&program, &now);
        if (memcmp(&now, &first, sizeof now))
            fail(&program, "step %ld: %s, %s, %s", step, now.cmdline, now.exe, now.comm);
        ask_extensions(&program);
        program_step(&program, step);
    }
    memset(argv[1], '*', strlen(argv[1])); /* as programs do that show how far they are */
    look(&program, &now);
    print(&program, &now);
    program_end(&program);
    MPI_Finalize();
    return 0;
}
