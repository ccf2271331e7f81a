/* late.c - see late.h. */
#include "mpi-layer/entry/late.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCRIPT_BYTES (256u << 10) /* of a script that are looked at */
#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static const char *const rank_variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK"};
static const char *const launchers[] = {"mpiexec", "mpirun", "orted", "orterun",   "prrte",
                                        "prte",    "prted",  "prun",  "slurmstepd"};

static bool is_started_as_rank(void)
{
    for (size_t i = 0; i < COUNT(rank_variables); i++)
        if (getenv(rank_variables[i]))
            return true;
    return false;
}

/* python, python3, python3.11 ... */
static bool is_python(const char *name)
{
    if (strncmp(name, "python", strlen("python")))
        return false;
    for (name += strlen("python"); isdigit((unsigned char)*name) || *name == '.';)
        name++;
    return !*name;
}

static bool is_named(const char *name, const char *list)
{
    size_t length = strlen(name);
    for (const char *at = list; *at;) {
        size_t word = strcspn(at, ":");
        if (word == length && !strncmp(at, name, word))
            return true;
        at += word + (at[word] == ':');
    }
    return false;
}

static bool may_load_mpi(const char *program)
{
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    const char *list = getenv("BELAY_LATE_MPI");
    return list ? is_named(name, list) : is_python(name);
}

/* The launcher's own child: whatever it does, it is what was launched as this rank. */
static bool is_launched_itself(void)
{
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/%ld/comm", (long)getppid());
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, name, sizeof name - 1);
    if (fd >= 0)
        close(fd);
    name[length > 0 ? length - 1 : 0] = 0; /* without the newline */
    for (size_t i = 0; i < COUNT(launchers); i++)
        if (!strcmp(name, launchers[i]))
            return true;
    return false;
}

static bool file_speaks_of_mpi(const char *path)
{
    char *text = malloc(SCRIPT_BYTES);
    int fd = text ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    ssize_t bytes = fd < 0 ? 0 : pread(fd, text, SCRIPT_BYTES, 0);
    bool does = bytes > 0 && memmem(text, (size_t)bytes, "mpi4py", strlen("mpi4py"));
    if (fd >= 0)
        close(fd);
    free(text);
    return does;
}

/* A helper that a script starts beside the MPI program must not take its place. */
static bool arguments_speak_of_mpi(int argc, char *const argv[])
{
    for (int i = 1; i < argc; i++)
        if (strstr(argv[i], "mpi4py"))
            return true;
    for (int i = 1; i < argc; i++)
        if (argv[i][0] != '-')
            return file_speaks_of_mpi(argv[i]);
    return false;
}

bool late_is_rank(const char *program, int argc, char *const argv[])
{
    return is_started_as_rank() && may_load_mpi(program) &&
           (is_launched_itself() || getenv("BELAY_LATE_MPI") || arguments_speak_of_mpi(argc, argv));
}
