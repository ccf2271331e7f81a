/*
 * deeds - changes files as a test says, in three parts: the file `begin` at its start, `then` once the file
 * `go` is there, `last` once `end` is there. After the second part rank 0 makes the file `did`.
 *
 * A line is RANK COMMAND ARGUMENT ..., separated by one tab; \n in an argument is a newline, \e an escape. A
 * command with a dash in front of it may fail.
 *   open SLOT PATH r|w|a|rw    and keep it open          put SLOT TEXT          write where it stands
 *   write PATH OFFSET TEXT     append PATH TEXT          create PATH TEXT       with O_EXCL
 *   truncate PATH BYTES        unlink PATH               rename PATH PATH       exchange PATH PATH
 *   mkdir PATH                 rmdir PATH                symlink TARGET PATH    link PATH PATH
 *   chdir PATH                 umask OCTAL               chmod PATH OCTAL       limit BYTES (of any file)
 *   map PATH                   shared, to be written     poke TEXT              write where that is
 *   barrier                    of all ranks              mpiopen PATH           by all ranks: MPI-IO
 *   mpiput TEXT                at the start
 */
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/programs/program.h"

#define SLOTS 10
#define WORDS 5
#define LINE_BYTES 20000

static struct program program;
static int slots[SLOTS];
static char *mapped;
static MPI_File file = MPI_FILE_NULL;

/* ---- commands; each returns -1 with errno ---- */

static int flags_of(const char *text)
{
    return !strcmp(text, "r")   ? O_RDONLY
           : !strcmp(text, "w") ? O_WRONLY
           : !strcmp(text, "a") ? O_WRONLY | O_APPEND | O_CREAT
                                : O_RDWR;
}

static int put(int fd, const char *text)
{
    ssize_t length = (ssize_t)strlen(text);
    return fd >= 0 && write(fd, text, (size_t)length) == length ? 0 : -1;
}

static int put_and_close(int fd, const char *text)
{
    int rc = put(fd, text);
    if (fd >= 0)
        close(fd);
    return rc;
}

static int do_open(char **words)
{
    int *slot = &slots[atoi(words[0]) % SLOTS];
    *slot = open(words[1], flags_of(words[2]), 0644);
    return *slot < 0 ? -1 : 0;
}

static int do_put(char **words)
{
    return put(slots[atoi(words[0]) % SLOTS], words[1]);
}

static int do_write(char **words)
{
    int fd = open(words[0], O_WRONLY);
    return fd < 0 || lseek(fd, atol(words[1]), SEEK_SET) < 0 ? -1 : put_and_close(fd, words[2]);
}

static int do_append(char **words)
{
    return put_and_close(open(words[0], O_WRONLY | O_APPEND), words[1]);
}

static int do_create(char **words)
{
    return put_and_close(open(words[0], O_WRONLY | O_CREAT | O_EXCL, 0644), words[1]);
}

static int do_truncate(char **words)
{
    return truncate(words[0], atol(words[1]));
}

static int do_unlink(char **words)
{
    return unlink(words[0]);
}

static int do_rename(char **words)
{
    return rename(words[0], words[1]);
}

static int do_exchange(char **words)
{
    return renameat2(AT_FDCWD, words[0], AT_FDCWD, words[1], RENAME_EXCHANGE);
}

static int do_mkdir(char **words)
{
    return mkdir(words[0], 0755);
}

static int do_rmdir(char **words)
{
    return rmdir(words[0]);
}

static int do_symlink(char **words)
{
    return symlink(words[0], words[1]);
}

static int do_link(char **words)
{
    return link(words[0], words[1]);
}

static int do_chdir(char **words)
{
    return chdir(words[0]);
}

static int do_umask(char **words)
{
    umask((mode_t)strtoul(words[0], NULL, 8));
    return 0;
}

static int do_chmod(char **words)
{
    return chmod(words[0], (mode_t)strtoul(words[1], NULL, 8));
}

static int do_limit(char **words)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = strtoul(words[0], NULL, 10);
    return setrlimit(RLIMIT_FSIZE, &limit);
}

static int do_map(char **words)
{
    int fd = open(words[0], O_RDWR);
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    mapped = at;
    return at == MAP_FAILED ? -1 : 0;
}

static int do_poke(char **words)
{
    memcpy(mapped, words[0], strlen(words[0]));
    return 0;
}

static int do_mpiput(char **words)
{
    return MPI_File_write_at(file, 0, words[0], (int)strlen(words[0]), MPI_CHAR, MPI_STATUS_IGNORE) ? -1 : 0;
}

static const struct command {
    const char *name;
    int (*run)(char **words);
    int words;
} commands[] = {
    {"open", do_open, 3},     {"put", do_put, 2},       {"write", do_write, 3},
    {"append", do_append, 2}, {"create", do_create, 2}, {"truncate", do_truncate, 2},
    {"unlink", do_unlink, 1}, {"rename", do_rename, 2}, {"exchange", do_exchange, 2},
    {"mkdir", do_mkdir, 1},   {"rmdir", do_rmdir, 1},   {"symlink", do_symlink, 2},
    {"link", do_link, 2},     {"chdir", do_chdir, 1},   {"umask", do_umask, 1},
    {"chmod", do_chmod, 2},   {"limit", do_limit, 1},   {"map", do_map, 1},
    {"poke", do_poke, 1},     {"mpiput", do_mpiput, 1},
};

/* ---- scripts ---- */

static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        bool is_escaped = from[0] == '\\' && (from[1] == 'n' || from[1] == 'e');
        *to = !is_escaped ? *from : from[1] == 'n' ? '\n' : '\033';
        from += is_escaped ? 2 : 1;
    }
    *to = '\0';
}

static void open_together(const char *path)
{
    int code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    check_mpi(&program, code, "MPI_File_open");
}

static void run_line(char *line)
{
    char *words[WORDS + 1] = {NULL}, *rest = line;
    int count = 0;
    while (count < WORDS && (words[count] = strsep(&rest, "\t")))
        unescape(words[count++]);
    bool may_fail = count > 1 && words[1][0] == '-';
    const char *name = count > 1 ? words[1] + may_fail : "";
    if (!strcmp(name, "barrier") || !strcmp(name, "mpiopen")) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (words[2])
            open_together(words[2]);
        return;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(commands[i].name, name) != 0 || commands[i].words != count - 2)
            continue;
        if (atoi(words[0]) == program.rank && commands[i].run(words + 2) < 0 && !may_fail)
            fail(&program, "%s %s: %s", name, words[2], strerror(errno));
        return;
    }
    fail(&program, "there is no command %s with %d words", name, count - 2);
}

static void run_script(const char *path)
{
    static char line[LINE_BYTES];
    FILE *stream = fopen(path, "r");
    while (stream && fgets(line, sizeof line, stream)) {
        line[strcspn(line, "\n")] = '\0';
        run_line(line);
    }
    if (stream)
        fclose(stream);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Until the test has made a file. */
static void wait_for_file(const char *path)
{
    for (int is_there = 0; !is_there;) {
        is_there = access(path, F_OK) == 0;
        MPI_Bcast(&is_there, 1, MPI_INT, 0, MPI_COMM_WORLD);
        usleep(10000);
    }
}

int main(int argc, char **argv)
{
    char folder[4096];
    char go[4200], then[4200], end[4200], last[4200], did[4200];
    MPI_Init(&argc, &argv);
    program_begin(&program, "deeds", argc, argv);
    if (!getcwd(folder, sizeof folder))
        fail(&program, "getcwd: %s", strerror(errno));
    snprintf(go, sizeof go, "%s/go", folder); /* a script may go elsewhere */
    snprintf(then, sizeof then, "%s/then", folder);
    snprintf(end, sizeof end, "%s/end", folder);
    snprintf(last, sizeof last, "%s/last", folder);
    snprintf(did, sizeof did, "%s/did", folder);
    run_script("begin");
    wait_for_file(go);
    run_script(then);
    if (program.rank == 0)
        close(open(did, O_WRONLY | O_CREAT, 0644));
    wait_for_file(end);
    run_script(last);
    if (file != MPI_FILE_NULL)
        MPI_File_close(&file);
    if (program.rank == 0)
        printf("done\n");
    MPI_Finalize();
    return 0;
}
