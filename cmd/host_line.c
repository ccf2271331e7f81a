#include "cmd/host_line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/launch_line.h"
#include "cmd/launch_words.h"
#include "cmd/string_list.h"

/* What an option of mpirun's is about (Open MPI 4.1, `mpirun --help full`). */
enum about {
    NAMES = 1,      /* names of hosts */
    FILES = 2,      /* a file with such names */
    LEAVES_OUT = 4, /* a host that gets no process */
    COUNTS = 8,     /* how many processes the context has */
    PLACES = 16,    /* how many there are on each host, and in which order */
    BINDS = 32,     /* their processors */
    STREAMS = 64,   /* standard streams, mpirun's own reports, the program's environment */
    REACHES = 128,  /* without it mpirun may not reach another host */
};

static const struct {
    const char *option;
    unsigned about;
} options[] = {
    {"allow-run-as-root", REACHES},
    {"am", REACHES},
    {"bind-to", BINDS},
    {"bycore", PLACES},
    {"bynode", PLACES},
    {"byslot", PLACES},
    {"c", COUNTS},
    {"cpu-list", BINDS},
    {"cpu-set", BINDS},
    {"default-hostfile", FILES | REACHES},
    {"display-allocation", STREAMS},
    {"display-devel-map", STREAMS},
    {"display-map", STREAMS},
    {"gmca", REACHES},
    {"H", NAMES},
    {"host", NAMES},
    {"hostfile", FILES | REACHES},
    {"launch-agent", REACHES},
    {"loadbalance", PLACES},
    {"machinefile", FILES | REACHES},
    {"map-by", PLACES},
    {"mca", REACHES},
    {"merge-stderr-to-stdout", STREAMS},
    {"N", PLACES},
    {"n", COUNTS},
    {"nolocal", LEAVES_OUT},
    {"nooversubscribe", BINDS},
    {"noprefix", REACHES},
    {"np", COUNTS},
    {"npernode", PLACES},
    {"npersocket", PLACES},
    {"output-directory", STREAMS},
    {"output-filename", STREAMS},
    {"oversubscribe", BINDS},
    {"pernode", PLACES},
    {"personality", REACHES},
    {"ppr", PLACES},
    {"prefix", REACHES},
    {"rank-by", PLACES},
    {"rankfile", PLACES},
    {"report-bindings", BINDS},
    {"report-events", STREAMS},
    {"report-pid", STREAMS},
    {"report-uri", STREAMS},
    {"rf", PLACES},
    {"stdin", STREAMS},
    {"tag-output", STREAMS},
    {"timestamp-output", STREAMS},
    {"tune", REACHES},
    {"use-hwthread-cpus", PLACES},
    {"x", STREAMS},
    {"xml", STREAMS},
    {"xml-file", STREAMS},
    {"xterm", STREAMS},
};

static unsigned about(const char *option)
{
    for (size_t i = 0; i < LAUNCH_WORDS_COUNT(options); i++)
        if (!strcmp(options[i].option, option))
            return options[i].about;
    return 0;
}

/*
 * Copy options of the context that begins at argv[*i]: those about any of `kinds` (bits of enum about), or
 * all others. *i is at the context's program then.
 */
static int copy_options(struct string_list *list, char *const argv[], size_t *i, unsigned kinds,
                        bool is_others)
{
    size_t end = launch_words_skip(argv, *i);
    while (*i < end) {
        const char *option = launch_words_option(argv[*i]);
        bool is_chosen = ((about(option) & kinds) != 0) != is_others;
        for (size_t words = 1 + launch_words_values(option); words > 0 && *i < end; words--, (*i)++)
            if (is_chosen && string_list_add(list, argv[*i]) < 0)
                return -1;
    }
    return 0;
}

/* Past the program and its words; true if another context follows. */
static bool next_context(char *const argv[], size_t *i)
{
    while (argv[*i] && !launch_words_is_separator(argv[*i]))
        (*i)++;
    return argv[*i] && argv[++*i];
}

static int add_all(struct string_list *list, char *const words[])
{
    for (; *words; words++)
        if (string_list_add(list, *words) < 0)
            return -1;
    return 0;
}

/* The value of the first option of this kind in the context that begins at argv[i]; NULL: there is none. */
static const char *value_of(char *const argv[], size_t i, enum about kind)
{
    size_t end = launch_words_skip(argv, i);
    while (i < end) {
        const char *option = launch_words_option(argv[i]);
        if ((about(option) & kind) && i + 1 < end)
            return argv[i + 1];
        i += 1 + launch_words_values(option);
    }
    return NULL;
}

/* "a:2,b" names another host than this one. */
static bool has_other(const char *value, const char *own_name)
{
    const char *const own[] = {"localhost", "127.0.0.1", own_name};
    while (*value) {
        char name[256];
        size_t word = strcspn(value, ","), length = strcspn(value, ",:");
        snprintf(name, sizeof name, "%.*s", (int)length, value);
        if (!launch_words_has(own, LAUNCH_WORDS_COUNT(own), name))
            return true;
        value += word + (value[word] == ',');
    }
    return false;
}

bool host_line_is_wide(char *const argv[], char *const environment[], const char *own_name)
{
    const char *nodes = string_list_value(environment, "SLURM_JOB_NUM_NODES");
    const char *file = string_list_value(environment, "OMPI_MCA_orte_default_hostfile");
    size_t i = 1;
    if (!launch_line_is_mpirun(argv[0]))
        return false;
    bool is_wide = (nodes && atoi(nodes) > 1) || (file && *file);
    do {
        const char *names = value_of(argv, i, NAMES);
        is_wide |= names && has_other(names, own_name);
        is_wide |= value_of(argv, i, FILES) != NULL;
    } while (next_context(argv, &i));
    return is_wide;
}

void host_line_names(char *const argv[], char *names, size_t bytes)
{
    size_t i = 1, used = 0;
    names[0] = '\0';
    do {
        const char *value = value_of(argv, i, NAMES);
        if (!value)
            value = value_of(argv, i, FILES);
        if (value && used < bytes)
            used += (size_t)snprintf(names + used, bytes - used, "%s%s", used ? "," : "", value);
    } while (next_context(argv, &i));
}

char **host_line_where(char *const argv[], char *const words[])
{
    struct string_list list = {0};
    size_t i = 1;
    bool has_more = true;
    int rc = string_list_add(&list, argv[0]);
    while (rc == 0 && has_more) {
        rc = copy_options(&list, argv, &i, STREAMS, true) < 0 ? -1 : add_all(&list, words);
        has_more = next_context(argv, &i);
        if (rc == 0 && has_more)
            rc = string_list_add(&list, ":");
    }
    return string_list_finish(&list, rc);
}

char **host_line_spread(char *const argv[], char *const words[])
{
    char *const once[] = {"--map-by", "ppr:1:node", NULL};
    struct string_list list = {0};
    size_t i = 1;
    int rc = string_list_add(&list, argv[0]) < 0 ||
                     copy_options(&list, argv, &i, COUNTS | PLACES | BINDS | STREAMS, true) < 0 ||
                     add_all(&list, once) < 0 || add_all(&list, words) < 0
                 ? -1
                 : 0;
    if (rc == 0 && next_context(argv, &i)) {
        errno = EINVAL;
        rc = -1;
    }
    return string_list_finish(&list, rc);
}

char **host_line_start(char *const argv[], const char *host, char *const words[])
{
    char *const where[] = {"-n", "1", "--host", (char *)host, NULL}; /* only read */
    struct string_list list = {0};
    size_t i = 1;
    int rc = string_list_add(&list, argv[0]) < 0 || copy_options(&list, argv, &i, REACHES, false) < 0 ||
                     add_all(&list, where) < 0 || add_all(&list, words) < 0
                 ? -1
                 : 0;
    return string_list_finish(&list, rc);
}

/* "-n COUNT --host a,a,b" for the ranks from *rank on. */
static int add_places(struct string_list *list, char *const hosts[], uint32_t rank, uint32_t count)
{
    char *names = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&names, &bytes);
    if (!stream)
        return -1;
    for (uint32_t i = 0; i < count; i++)
        fprintf(stream, "%s%s", i ? "," : "", hosts[rank + i]);
    int rc = fclose(stream) == 0 && string_list_add(list, "-n") == 0 &&
                     string_list_addf(list, "%u", count) == 0 && string_list_add(list, "--host") == 0 &&
                     string_list_add(list, names) == 0
                 ? 0
                 : -1;
    free(names);
    return rc;
}

/* How many ranks the context that begins at argv[i] has; the only one has those that are left. */
static int count_ranks(char *const argv[], size_t i, uint32_t left, uint32_t *count)
{
    const char *value = value_of(argv, i, COUNTS);
    size_t after = i;
    bool is_only = i == 1 && !next_context(argv, &after);
    *count = is_only ? left : value ? (uint32_t)strtoul(value, NULL, 10) : 0;
    if (*count > 0 && *count <= left)
        return 0;
    errno = EINVAL;
    return -1;
}

static int copy_program(struct string_list *list, char *const argv[], size_t *i)
{
    for (; argv[*i] && !launch_words_is_separator(argv[*i]); (*i)++)
        if (string_list_add(list, argv[*i]) < 0)
            return -1;
    return 0;
}

char **host_line_place(char *const argv[], char *const hosts[], uint32_t ranks)
{
    struct string_list list = {0};
    size_t i = 1;
    bool has_more = true;
    int rc = string_list_add(&list, argv[0]) < 0 || string_list_add(&list, "--map-by") < 0 ||
                     string_list_add(&list, "seq") < 0
                 ? -1
                 : 0;
    for (uint32_t rank = 0, count; rc == 0 && has_more; rank += count) {
        rc = count_ranks(argv, i, ranks - rank, &count) < 0 ||
                     copy_options(&list, argv, &i, NAMES | FILES | LEAVES_OUT | COUNTS | PLACES, true) < 0 ||
                     add_places(&list, hosts, rank, count) < 0 || copy_program(&list, argv, &i) < 0
                 ? -1
                 : 0;
        has_more = next_context(argv, &i);
        if (rc == 0 && has_more)
            rc = string_list_add(&list, ":");
    }
    return string_list_finish(&list, rc);
}
