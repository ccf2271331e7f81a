#include "tests/programs/program.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/incarnation.h"

#define LAST_STEPS 2 /* steps are numbered from 0 or from 1: at least one more comes after a wait */
#define HELD_LOOK_S 0.01
#define HELD_MAX_S 1200 /* the test has been killed */

static const struct option long_options[] = {
    {"steps", required_argument, NULL, 'n'}, {"seconds", required_argument, NULL, 's'},
    {"seed", required_argument, NULL, 'e'},  {"trace", required_argument, NULL, 't'},
    {"mode", required_argument, NULL, 'm'},  {"value", required_argument, NULL, 'v'},
    {"rank", required_argument, NULL, 'r'},  {NULL, 0, NULL, 0},
};

static void wrong_option(const struct program *program)
{
    if (program->rank == 0)
        fprintf(stderr, "%s: wrong option or number\n", program->name);
    MPI_Finalize();
    exit(2);
}

static void set_option(struct program *program, int letter, const char *value)
{
    char *end = NULL;
    if (letter == 'n')
        program->steps = strtol(value, &end, 10);
    else if (letter == 's')
        program->seconds = strtod(value, &end);
    else if (letter == 'e')
        program->seed = strtoull(value, &end, 10);
    else if (letter == 'v')
        program->value = strtol(value, &end, 10);
    else if (letter == 'r')
        program->victim = (int)strtol(value, &end, 10);
    else if (letter == 'm')
        program->mode = value;
    else if (letter == 't' && program->rank == 0)
        program->trace_fd = open(value, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (letter == '?' || (end && (end == value || *end)))
        wrong_option(program);
}

void program_begin(struct program *program, const char *name, int argc, char **argv)
{
    program->name = name;
    program->trace_fd = -1;
    program->mode = "";
    MPI_Comm_rank(MPI_COMM_WORLD, &program->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &program->ranks);
    opterr = 0;
    int letter;
    while ((letter = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        set_option(program, letter, optarg);
    if (optind < argc)
        wrong_option(program);
}

enum pace { PACE_HELD, PACE_EVEN, PACE_HURRIED };

static enum pace pace_now(void)
{
    const char *path = getenv("BELAY_TEST_PACE");
    struct stat file;
    if (!path)
        return PACE_EVEN;
    if (stat(path, &file) != 0)
        return errno == ENOENT ? PACE_HELD : PACE_EVEN; /* as another user, it may not look */
    return file.st_size > 0 ? PACE_HURRIED : PACE_EVEN;
}

static void rest(double seconds)
{
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

void program_step(struct program *program, long step)
{
    if (program->trace_fd >= 0)
        dprintf(program->trace_fd, "%ld %ld %.9f\n", incarnation(), step, seconds_now());
    enum pace pace = pace_now();
    if (pace != PACE_HURRIED && program->seconds > 0 && program->steps > 0)
        rest(program->seconds / (double)program->steps);
    if (step >= program->steps - LAST_STEPS)
        for (double begin = seconds_now(); pace_now() == PACE_HELD && seconds_now() < begin + HELD_MAX_S;)
            rest(HELD_LOOK_S);
}

void program_end(struct program *program)
{
    uint64_t *all = program->rank == 0 ? calloc((size_t)program->ranks, sizeof(uint64_t)) : NULL;
    MPI_Gather(&program->digest, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    if (program->rank == 0) {
        uint64_t digest = 0;
        for (int rank = 0; rank < program->ranks; rank++)
            digest_add_number(&digest, all[rank]);
        printf("%s: %d ranks, %ld steps, digest %016llx\n", program->name, program->ranks, program->steps,
               (unsigned long long)digest);
        fflush(stdout);
    }
    free(all);
    if (program->trace_fd >= 0)
        close(program->trace_fd);
}

void digest_add(uint64_t *digest, const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    uint64_t hash = *digest ^ 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u; /* FNV-1a */
    *digest = hash;
}

void digest_add_number(uint64_t *digest, uint64_t number)
{
    digest_add(digest, &number, sizeof(number));
}

uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t mix_number(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t state = a * 0x9e3779b97f4a7c15u ^ b * 0xc2b2ae3d27d4eb4fu ^ c * 0x165667b19e3779f9u;
    return random_next(&state);
}

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void fail(const struct program *program, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: rank %d: ", program->name, program->rank);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    MPI_Abort(MPI_COMM_WORLD, 3);
    abort();
}

void check_mpi(const struct program *program, int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &length);
    fail(program, "%s: %s", what, text);
}
