#include "cmd/host_line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/launch_line.h"
#include "cmd/launch_words.h"
#include "cmd/string_list.h"

/* They name hosts, or files with names. */
static const char *const naming[] = {"H", "host"};
static const char *const naming_file[] = {"hostfile", "machinefile", "default-hostfile"};
/* They tell what becomes of standard streams, and where mpirun's own reports go. */
static const char *const streaming[] = {"merge-stderr-to-stdout",
                                        "output-directory",
                                        "output-filename",
                                        "report-events",
                                        "report-pid",
                                        "report-uri",
                                        "stdin",
                                        "tag-output",
                                        "timestamp-output",
                                        "x",
                                        "xml",
                                        "xml-file",
                                        "xterm",
                                        "display-map",
                                        "display-devel-map",
                                        "display-allocation"};
/* They tell how many processes there are, and where. */
static const char *const placing[] = {"H",
                                      "N",
                                      "bycore",
                                      "bynode",
                                      "byslot",
                                      "c",
                                      "default-hostfile",
                                      "host",
                                      "hostfile",
                                      "loadbalance",
                                      "machinefile",
                                      "map-by",
                                      "n",
                                      "nolocal",
                                      "np",
                                      "npernode",
                                      "npersocket",
                                      "pernode",
                                      "ppr",
                                      "rank-by",
                                      "rankfile",
                                      "rf",
                                      "use-hwthread-cpus"};
/* They tell how many processes there are, or what becomes of the streams; all others tell which hosts there
 * are. */
static const char *const unspread[] = {"N",
                                       "bind-to",
                                       "bycore",
                                       "bynode",
                                       "byslot",
                                       "c",
                                       "cpu-list",
                                       "cpu-set",
                                       "loadbalance",
                                       "map-by",
                                       "n",
                                       "nooversubscribe",
                                       "np",
                                       "npernode",
                                       "npersocket",
                                       "oversubscribe",
                                       "pernode",
                                       "ppr",
                                       "rank-by",
                                       "rankfile",
                                       "rf",
                                       "use-hwthread-cpus",
                                       "merge-stderr-to-stdout",
                                       "output-directory",
                                       "output-filename",
                                       "report-bindings",
                                       "report-events",
                                       "report-pid",
                                       "report-uri",
                                       "stdin",
                                       "tag-output",
                                       "timestamp-output",
                                       "x",
                                       "xml",
                                       "xml-file",
                                       "xterm",
                                       "display-map",
                                       "display-devel-map",
                                       "display-allocation"};
/* Without them mpirun may not reach another host. */
static const char *const reaching[] = {"allow-run-as-root", "am",      "gmca", "launch-agent", "mca",
                                       "personality",       "prefix",  "tune", "hostfile",     "machinefile",
                                       "default-hostfile",  "noprefix"};
static const char *const counting[] = {"n", "np", "c"};

/* Which options are copied. */
struct choice {
    const char *const *words;
    size_t count;
    bool is_rest; /* all others are */
};
#define THESE(array) ((struct choice){array, LAUNCH_WORDS_COUNT(array), false})
#define OTHERS_THAN(array) ((struct choice){array, LAUNCH_WORDS_COUNT(array), true})

/* Copy options of the context that begins at argv[*i]; *i is at its program then. */
static int copy_options(struct string_list *list, char *const argv[], size_t *i, struct choice choice)
{
    size_t end = launch_words_skip(argv, *i);
    while (*i < end) {
        const char *option = launch_words_option(argv[*i]);
        bool is_chosen = launch_words_has(choice.words, choice.count, option) != choice.is_rest;
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

/* The value of the first of these options in the context that begins at argv[i]; NULL: there is none. */
static const char *value_of(char *const argv[], size_t i, const char *const *options, size_t count)
{
    size_t end = launch_words_skip(argv, i);
    while (i < end) {
        const char *option = launch_words_option(argv[i]);
        if (launch_words_has(options, count, option) && i + 1 < end)
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
        const char *names = value_of(argv, i, naming, LAUNCH_WORDS_COUNT(naming));
        is_wide |= names && has_other(names, own_name);
        is_wide |= value_of(argv, i, naming_file, LAUNCH_WORDS_COUNT(naming_file)) != NULL;
    } while (next_context(argv, &i));
    return is_wide;
}

void host_line_names(char *const argv[], char *names, size_t bytes)
{
    size_t i = 1, used = 0;
    names[0] = '\0';
    do {
        const char *value = value_of(argv, i, naming, LAUNCH_WORDS_COUNT(naming));
        if (!value)
            value = value_of(argv, i, naming_file, LAUNCH_WORDS_COUNT(naming_file));
        if (value && used < bytes)
            used += (size_t)snprintf(names + used, bytes - used, "%s%s", used ? "," : "", value);
    } while (next_context(argv, &i));
}

/* NULL with errno if it has failed. */
static char **finish(struct string_list *list, int rc)
{
    int code = errno;
    if (rc == 0)
        return list->items;
    string_list_free(list->items);
    errno = code;
    return NULL;
}

char **host_line_where(char *const argv[], char *const words[])
{
    struct string_list list = {0};
    size_t i = 1;
    bool has_more = true;
    int rc = string_list_add(&list, argv[0]);
    while (rc == 0 && has_more) {
        rc = copy_options(&list, argv, &i, OTHERS_THAN(streaming)) < 0 ? -1 : add_all(&list, words);
        has_more = next_context(argv, &i);
        if (rc == 0 && has_more)
            rc = string_list_add(&list, ":");
    }
    return finish(&list, rc);
}

char **host_line_spread(char *const argv[], char *const words[])
{
    char *const once[] = {"--map-by", "ppr:1:node", NULL};
    struct string_list list = {0};
    size_t i = 1;
    int rc = string_list_add(&list, argv[0]) < 0 ||
                     copy_options(&list, argv, &i, OTHERS_THAN(unspread)) < 0 || add_all(&list, once) < 0 ||
                     add_all(&list, words) < 0
                 ? -1
                 : 0;
    if (rc == 0 && next_context(argv, &i)) {
        errno = EINVAL;
        rc = -1;
    }
    return finish(&list, rc);
}

char **host_line_start(char *const argv[], const char *host, char *const words[])
{
    char *const where[] = {"-n", "1", "--host", (char *)host, NULL}; /* only read */
    struct string_list list = {0};
    size_t i = 1;
    int rc = string_list_add(&list, argv[0]) < 0 || copy_options(&list, argv, &i, THESE(reaching)) < 0 ||
                     add_all(&list, where) < 0 || add_all(&list, words) < 0
                 ? -1
                 : 0;
    return finish(&list, rc);
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
    const char *value = value_of(argv, i, counting, LAUNCH_WORDS_COUNT(counting));
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
                     copy_options(&list, argv, &i, OTHERS_THAN(placing)) < 0 ||
                     add_places(&list, hosts, rank, count) < 0 || copy_program(&list, argv, &i) < 0
                 ? -1
                 : 0;
        has_more = next_context(argv, &i);
        if (rc == 0 && has_more)
            rc = string_list_add(&list, ":");
    }
    return finish(&list, rc);
}
