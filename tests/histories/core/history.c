/*
 * history - does what processes of Linux do, in an order that a seed decides, between calls of MPI, and notes
 * all that can be observed. What it prints and its journals depend on the options and the number of ranks
 * only.
 *
 *   --seed N         the history; --steps N: its length
 *   --only LIST, --without LIST     of KIND or KIND.OPERATION, with commas; --list prints all
 *   --skip-steps LIST               of [RANK:]FIRST[-LAST]
 *   --observe N      everything is observed after each N steps, and in the end (default 5)
 *   --detail         write each observation out, not only digests
 *   --seconds S      all steps together take that long at least
 *   --print-steps N  what the steps of N ranks would do; nothing is done
 *   --hold LIST      before each of these steps make the file at-STEP.RANK, and wait for the file go-STEP
 *   --part N         the ranks of a launch that have the same N are one history (default: all ranks are)
 *
 * Each rank writes journal-RANK in the folder that it begins in.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/histories/core/choice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/core/start.h"
#include "tests/histories/core/world.h"
#include "tests/histories/files/descriptors.h"
#include "tests/histories/memory/stack.h"

#define HOLDS_MAX 16
#define LOOK_NS 500000

struct world world;

static struct {
    long every;
    double seconds;
    bool is_detailed, is_listing;
    int printed_ranks;
    long holds[HOLDS_MAX];
    int hold_count;
    int part; /* -1: all ranks of the launch are one history */
} options = {.every = 5, .part = -1};

static const struct option long_options[] = {
    {"seed", required_argument, NULL, 's'},
    {"steps", required_argument, NULL, 'n'},
    {"only", required_argument, NULL, 'o'},
    {"without", required_argument, NULL, 'w'},
    {"observe", required_argument, NULL, 'e'},
    {"skip-steps", required_argument, NULL, 'k'},
    {"detail", no_argument, NULL, 'd'},
    {"seconds", required_argument, NULL, 't'},
    {"hold", required_argument, NULL, 'h'},
    {"part", required_argument, NULL, 'a'},
    {"list", no_argument, NULL, 'l'},
    {"print-steps", required_argument, NULL, 'p'},
    {NULL, 0, NULL, 0},
};

static void wrong_option(void)
{
    fprintf(stderr, "history: wrong option or number\n");
    exit(2);
}

static void read_holds(const char *list)
{
    for (char *end; *list; list = *end ? end + 1 : end) {
        if (options.hold_count == HOLDS_MAX)
            wrong_option();
        options.holds[options.hold_count++] = strtol(list, &end, 10);
        if (*end && *end != ',')
            wrong_option();
    }
}

static void read_option(int letter, const char *value)
{
    if (letter == 's')
        world.seed = strtoull(value, NULL, 10);
    else if (letter == 'n')
        world.steps = strtol(value, NULL, 10);
    else if (letter == 'o')
        choice_only(value);
    else if (letter == 'w')
        choice_without(value);
    else if (letter == 'e')
        options.every = strtol(value, NULL, 10);
    else if (letter == 'd')
        options.is_detailed = true;
    else if (letter == 't')
        options.seconds = strtod(value, NULL);
    else if (letter == 'h')
        read_holds(value);
    else if (letter == 'a')
        options.part = (int)strtol(value, NULL, 10);
    else if (letter != 'k' || !choice_skip(value))
        wrong_option();
}

static void read_options(int argc, char **argv)
{
    int letter;
    world.steps = 100;
    while ((letter = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (letter == 'l')
            options.is_listing = true;
        else if (letter == 'p')
            options.printed_ranks = (int)strtol(optarg, NULL, 10);
        else
            read_option(letter, optarg);
    }
    if (optind < argc || options.every < 1)
        wrong_option();
}

/* RANK STEP KIND.OPERATION, for steps that all ranks do together with the rank "all". */
static void print_steps(void)
{
    for (int rank = 0; rank < options.printed_ranks; rank++)
        for (long step = 1; step <= world.steps; step++) {
            struct choice choice = choice_of(rank, step);
            if (choice.kind && choice.kind->is_common && rank == 0)
                printf("all %ld %s.%s\n", step, choice.kind->name, choice.operation->name);
            else if (choice.kind && !choice.kind->is_common)
                printf("%d %ld %s.%s\n", rank, step, choice.kind->name, choice.operation->name);
        }
}

static void print_and_exit(void)
{
    if (options.is_listing)
        choice_print();
    print_steps();
    if (options.is_listing || options.printed_ranks)
        exit(0);
}

/* Threads of an MPI library inherit the mask, and take none of the history's signals. */
static void begin_mpi(int *argc, char ***argv)
{
    sigset_t all, none;
    int level;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &none);
    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level);
    sigprocmask(SIG_SETMASK, &none, NULL);
    world.comm = MPI_COMM_WORLD;
    if (options.part >= 0)
        MPI_Comm_split(MPI_COMM_WORLD, options.part, 0, &world.comm);
    MPI_Comm_rank(world.comm, &world.rank);
    MPI_Comm_size(world.comm, &world.ranks);
    if (world.ranks > RANKS_MAX)
        wrong_option();
}

static void begin_folders(void)
{
    if (!getcwd(world.top, sizeof world.top - 64))
        wrong_option();
    snprintf(world.base, sizeof world.base, "%.*s/rank-%d", PATH_MAX - 64, world.top, world.rank);
    mkdir(world.base, 0755);
    journal_open(world.top, world.rank, options.is_detailed);
}

/* What this rank has sent may need it to arrive, so it looks for messages: where nobody sends any, since to
 * find one is no progress. */
static void hold(long step)
{
    char path[PATH_MAX];
    int is_there;
    const struct timespec nap = {0, LOOK_NS};
    snprintf(path, sizeof path, "%.*s/at-%ld.%d", PATH_MAX - 64, world.top, step, world.rank);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    snprintf(path, sizeof path, "%.*s/go-%ld", PATH_MAX - 64, world.top, step);
    while (access(path, F_OK)) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &is_there, MPI_STATUS_IGNORE);
        nanosleep(&nap, NULL);
    }
}

static void pace(long step)
{
    double pause = world.steps > 0 ? options.seconds / (double)world.steps : 0;
    const struct timespec time = {(time_t)pause, (long)((pause - (double)(time_t)pause) * 1e9)};
    for (int i = 0; i < options.hold_count; i++)
        if (options.holds[i] == step)
            hold(step);
    if (pause > 0)
        nanosleep(&time, NULL);
}

static void observe_all(void)
{
    say(" |");
    for (size_t i = 0; vocabulary[i]; i++) {
        if (!vocabulary[i]->observe)
            continue;
        observation_begin(vocabulary[i]->name);
        vocabulary[i]->observe();
        observation_end();
    }
}

static void do_step(long step)
{
    struct choice choice = choice_of(world.rank, step);
    bool is_due = step % options.every == 0;
    if (!choice.kind && !is_due)
        return;
    journal_begin(step, choice.kind ? choice.kind->name : "nothing",
                  choice.kind ? choice.operation->name : "");
    if (choice.kind)
        choice.operation->act();
    descriptors_note_names();
    if (is_due)
        observe_all();
    journal_end();
}

static void do_steps(long count)
{
    for (long last = world.step + count; world.step < last && world.step < world.steps;) {
        world.step++;
        pace(world.step);
        do_step(world.step);
        stack_descend(do_steps);
    }
}

static void begin_kinds(void)
{
    for (size_t i = 0; vocabulary[i]; i++)
        if (vocabulary[i]->begin)
            vocabulary[i]->begin();
}

static void end_kinds(void)
{
    for (size_t i = 0; vocabulary[i]; i++)
        if (vocabulary[i]->end)
            vocabulary[i]->end();
}

static void tell_result(void)
{
    printf("history: rank %d of %d, seed %llu, %ld steps, digest %016llx\n", world.rank, world.ranks,
           (unsigned long long)world.seed, world.steps, (unsigned long long)journal_digest());
    fflush(stdout);
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    print_and_exit();
    start_before_mpi(argv);
    begin_mpi(&argc, &argv);
    begin_folders();
    begin_kinds();
    do_steps(world.steps);
    world.step++;
    pace(world.step);
    journal_begin(world.step, "history", "end");
    observe_all();
    journal_end();
    end_kinds();
    tell_result();
    journal_close();
    MPI_Finalize();
    start_after_mpi();
    return 0;
}
