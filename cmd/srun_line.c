#include "cmd/srun_line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/srun_words.h"
#include "cmd/string_list.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

bool srun_line_is_it(const char *program)
{
    const char *slash = strrchr(program, '/');
    return !strcmp(slash ? slash + 1 : program, "srun");
}

/* ---- what cannot be done ---- */

static bool has_separator(char *const argv[])
{
    while (*argv && strcmp(*argv, ":") != 0)
        argv++;
    return *argv != NULL;
}

/* "ALL" and "ALL,NAME=VALUE" give tasks what srun has. */
static bool is_all(const char *value)
{
    return !strncmp(value, "ALL", 3) && (value[3] == '\0' || value[3] == ',') && !strstr(value, "LD_PRELOAD");
}

static int check_export(const char *value, const char *where, struct belay_error *err)
{
    return !value || is_all(value)
               ? 0
               : belay_error_set(err, ENOTSUP,
                                 "%s%s: the ranks need what belay run gives them; say --export=ALL, or "
                                 "--export=ALL,NAME=VALUE without LD_PRELOAD, which the environment may have",
                                 where, value);
}

static int check_mpi(const char *value, struct belay_error *err)
{
    return !value || !strncmp(value, "pmix", 4)
               ? 0
               : belay_error_set(err, ENOTSUP, "srun --mpi=%s: the ranks need PMIx; say --mpi=pmix", value);
}

static int check_options(char *const argv[], struct belay_error *err)
{
    struct srun_given given;
    struct srun_walk walk = {.at = 1};
    int rc;
    while ((rc = srun_words_next(argv, &walk, &given)) > 0)
        if (given.option->about & SRUN_REFUSED)
            return belay_error_set(err, ENOTSUP, "srun --%s is not supported: run it without belay",
                                   given.option->name);
    if (rc < 0)
        return belay_error_set(err, ENOTSUP, "srun %s: belay does not know this option", argv[walk.at]);
    return 0;
}

int srun_line_check(char *const argv[], char *const environment[], struct belay_error *err)
{
    struct srun_given given = {0};
    const char *exported = string_list_value(environment, "SLURM_EXPORT_ENV");
    const char *mpi = string_list_value(environment, "SLURM_MPI_TYPE");
    if (check_options(argv, err) < 0)
        return -1;
    if (has_separator(argv) || string_list_value(environment, "SLURM_HET_SIZE"))
        return belay_error_set(err, ENOTSUP, "heterogeneous steps of srun (\":\") are not supported");
    if (!string_list_value(environment, "SLURM_JOB_ID"))
        return belay_error_set(
            err, ENOTSUP,
            "belay run -- srun is for use in an allocation: start it in a job of sbatch or "
            "salloc");
    if (srun_words_find(argv, SRUN_EXPORTS, &given) ? check_export(given.value, "srun --export=", err)
                                                    : check_export(exported, "SLURM_EXPORT_ENV=", err))
        return -1;
    return check_mpi(srun_words_find(argv, SRUN_MPI, &given) ? given.value : mpi, err);
}

bool srun_line_is_wide(char *const environment[], const char *own_name)
{
    const char *nodes = string_list_value(environment, "SLURM_JOB_NODELIST");
    return nodes && strcmp(nodes, own_name) != 0;
}

/* ---- other lines ---- */

static int add_all(struct string_list *list, char *const words[])
{
    for (; *words; words++)
        if (string_list_add(list, *words) < 0)
            return -1;
    return 0;
}

/* Options of the line that are about one of these, or about none of them. */
static int copy_options(struct string_list *list, char *const argv[], unsigned kinds, bool is_others)
{
    struct srun_given given;
    struct srun_walk walk = {.at = 1};
    while (srun_words_next(argv, &walk, &given) > 0) {
        if (((given.option->about & kinds) != 0) == is_others)
            continue;
        int rc = given.value ? string_list_addf(list, "--%s=%s", given.option->name, given.value)
                             : string_list_addf(list, "--%s", given.option->name);
        if (rc < 0)
            return -1;
    }
    return 0;
}

char **srun_line_where(char *const argv[], char *const words[])
{
    struct string_list list = {0};
    int rc = string_list_add(&list, argv[0]) < 0 ||
                     copy_options(&list, argv, SRUN_STREAMS | SRUN_EXPORTS, true) < 0 ||
                     string_list_add(&list, "--export=ALL") < 0 || add_all(&list, words) < 0 ||
                     string_list_add(&list, "pmix") < 0
                 ? -1
                 : 0;
    return string_list_finish(&list, rc);
}

/* What all steps of ours have: they share their nodes with others, and no option of the user's is for them.
 */
static int begin_own(struct string_list *list, char *const argv[])
{
    char *const own[] = {"--overlap", "--mpi=none", "--export=ALL", "--job-name=belay", NULL};
    return string_list_add(list, argv[0]) < 0 || copy_options(list, argv, SRUN_REACHES, false) < 0 ||
                   add_all(list, own) < 0
               ? -1
               : 0;
}

char **srun_line_spread(char *const argv[], char *const environment[], char *const words[])
{
    struct string_list list = {0};
    const char *count = string_list_value(environment, "SLURM_JOB_NUM_NODES");
    int rc = begin_own(&list, argv) < 0 || string_list_addf(&list, "--nodes=%s", count ? count : "1") < 0 ||
                     string_list_addf(&list, "--ntasks=%s", count ? count : "1") < 0 ||
                     string_list_add(&list, "--ntasks-per-node=1") < 0 || add_all(&list, words) < 0
                 ? -1
                 : 0;
    return string_list_finish(&list, rc);
}

char **srun_line_start(char *const argv[], const char *host, char *const words[])
{
    char *const one[] = {"--nodes=1", "--ntasks=1", "--cpus-per-task=1", NULL};
    struct string_list list = {0};
    int rc = begin_own(&list, argv) < 0 || add_all(&list, one) < 0 ||
                     string_list_addf(&list, "--nodelist=%s", host) < 0 || add_all(&list, words) < 0
                 ? -1
                 : 0;
    return string_list_finish(&list, rc);
}

static uint32_t count_hosts(char *const hosts[], uint32_t ranks)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint32_t before = 0;
        while (before < rank && strcmp(hosts[before], hosts[rank]) != 0)
            before++;
        count += before == rank;
    }
    return count;
}

/* Each rank's node in the ranks' order, which is what the arbitrary distribution follows. */
static int add_places(struct string_list *list, char *const hosts[], uint32_t ranks)
{
    char *names = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&names, &bytes);
    if (!stream)
        return -1;
    for (uint32_t rank = 0; rank < ranks; rank++)
        fprintf(stream, "%s%s", rank ? "," : "", hosts[rank]);
    int rc = fclose(stream) == 0 ? string_list_addf(list, "--nodelist=%s", names) : -1;
    free(names);
    return rc;
}

char **srun_line_place(char *const argv[], char *const hosts[], uint32_t ranks)
{
    /* A node may get more tasks than it has processors, and a step that was lost may still have them. */
    char *const sharing[] = {"--distribution=arbitrary", "--overcommit", "--overlap", NULL};
    struct string_list list = {0};
    int rc = string_list_add(&list, argv[0]) < 0 ||
                     copy_options(&list, argv, SRUN_COUNTS | SRUN_PLACES, true) < 0 ||
                     add_all(&list, sharing) < 0 ||
                     string_list_addf(&list, "--nodes=%u", count_hosts(hosts, ranks)) < 0 ||
                     string_list_addf(&list, "--ntasks=%u", ranks) < 0 ||
                     add_places(&list, hosts, ranks) < 0 ||
                     add_all(&list, argv + srun_words_program(argv)) < 0
                 ? -1
                 : 0;
    return string_list_finish(&list, rc);
}

char **srun_line_build(char *const argv[], const char *preload, const char *own)
{
    struct string_list list = {0};
    struct srun_given given = {0};
    const char *before = srun_words_find(argv, SRUN_EXPORTS, &given) && given.value ? given.value : "ALL";
    bool has_own = own && *own;
    int rc = string_list_add(&list, argv[0]) < 0 || copy_options(&list, argv, SRUN_EXPORTS, true) < 0 ||
                     string_list_addf(&list, "--export=%s,LD_PRELOAD=%s%s%s", before, preload,
                                      has_own ? ":" : "", has_own ? own : "") < 0 ||
                     add_all(&list, argv + srun_words_program(argv)) < 0
                 ? -1
                 : 0;
    return string_list_finish(&list, rc);
}

bool srun_line_is_of_nodes(const char *entry)
{
    static const char *const names[] = {
        "SLURM_CPUS_ON_NODE=",
        "SLURM_DISTRIBUTION=",
        "SLURM_HOSTFILE=",
        "SLURM_JOB_NODELIST=",
        "SLURM_JOB_CPUS_PER_NODE=",
        "SLURM_JOB_NUM_NODES=",
        "SLURM_NNODES=",
        "SLURM_NODELIST=",
        "SLURM_NODE_ALIASES=",
        "SLURM_NPROCS=",
        "SLURM_NTASKS=",
        "SLURM_NTASKS_PER_CORE=",
        "SLURM_NTASKS_PER_NODE=",
        "SLURM_NTASKS_PER_SOCKET=",
        "SLURM_TASKS_PER_NODE=",
    };
    for (size_t i = 0; i < COUNT(names); i++)
        if (!strncmp(entry, names[i], strlen(names[i])))
            return true;
    return false;
}
