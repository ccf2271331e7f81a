#include "cmd/srun_words.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct srun_option options[] = {
    {"account", 'A', SRUN_WITH_VALUE, 0},
    {"acctg-freq", 0, SRUN_WITH_VALUE, 0},
    {"bb", 0, SRUN_WITH_VALUE, 0},
    {"bbf", 0, SRUN_WITH_VALUE, 0},
    {"bcast", 0, SRUN_MAYBE_VALUE, SRUN_REFUSED},
    {"bcast-exclude", 0, SRUN_WITH_VALUE, SRUN_STREAMS},
    {"begin", 'b', SRUN_WITH_VALUE, 0},
    {"chdir", 'D', SRUN_WITH_VALUE, 0},
    {"cluster-constraint", 0, SRUN_WITH_VALUE, SRUN_PLACES},
    {"clusters", 'M', SRUN_WITH_VALUE, SRUN_REACHES},
    {"comment", 0, SRUN_WITH_VALUE, 0},
    {"compress", 0, SRUN_MAYBE_VALUE, 0},
    {"constraint", 'C', SRUN_WITH_VALUE, SRUN_PLACES},
    {"container", 0, SRUN_WITH_VALUE, SRUN_REFUSED},
    {"container-id", 0, SRUN_WITH_VALUE, SRUN_REFUSED},
    {"contiguous", 0, SRUN_ALONE, SRUN_PLACES},
    {"core-spec", 'S', SRUN_WITH_VALUE, 0},
    {"cores-per-socket", 0, SRUN_WITH_VALUE, SRUN_PLACES},
    {"cpu-bind", 0, SRUN_WITH_VALUE, 0},
    {"cpu-freq", 0, SRUN_WITH_VALUE, 0},
    {"cpus-per-gpu", 0, SRUN_WITH_VALUE, 0},
    {"cpus-per-task", 'c', SRUN_WITH_VALUE, 0},
    {"deadline", 0, SRUN_WITH_VALUE, 0},
    {"delay-boot", 0, SRUN_WITH_VALUE, 0},
    {"dependency", 'd', SRUN_WITH_VALUE, 0},
    {"disable-status", 'X', SRUN_ALONE, 0},
    {"distribution", 'm', SRUN_WITH_VALUE, SRUN_PLACES},
    {"epilog", 0, SRUN_WITH_VALUE, SRUN_STREAMS},
    {"error", 'e', SRUN_WITH_VALUE, SRUN_STREAMS | SRUN_OUTPUT},
    {"exact", 0, SRUN_ALONE, SRUN_PLACES},
    {"exclude", 'x', SRUN_WITH_VALUE, SRUN_PLACES},
    {"exclusive", 0, SRUN_MAYBE_VALUE, SRUN_PLACES},
    {"export", 0, SRUN_WITH_VALUE, SRUN_EXPORTS},
    {"export-file", 0, SRUN_WITH_VALUE, SRUN_REFUSED},
    {"extra-node-info", 'B', SRUN_WITH_VALUE, SRUN_PLACES},
    {"gid", 0, SRUN_WITH_VALUE, SRUN_REFUSED},
    {"gpu-bind", 0, SRUN_WITH_VALUE, 0},
    {"gpu-freq", 0, SRUN_WITH_VALUE, 0},
    {"gpus", 'G', SRUN_WITH_VALUE, 0},
    {"gpus-per-node", 0, SRUN_WITH_VALUE, 0},
    {"gpus-per-socket", 0, SRUN_WITH_VALUE, 0},
    {"gpus-per-task", 0, SRUN_WITH_VALUE, 0},
    {"gres", 0, SRUN_WITH_VALUE, 0},
    {"gres-flags", 0, SRUN_WITH_VALUE, 0},
    {"het-group", 0, SRUN_WITH_VALUE, SRUN_REFUSED},
    {"hint", 0, SRUN_WITH_VALUE, 0},
    {"hold", 'H', SRUN_ALONE, 0},
    {"immediate", 'I', SRUN_MAYBE_VALUE, 0},
    {"input", 'i', SRUN_WITH_VALUE, SRUN_STREAMS | SRUN_INPUT},
    {"job-name", 'J', SRUN_WITH_VALUE, 0},
    {"jobid", 0, SRUN_WITH_VALUE, SRUN_REFUSED},
    {"kill-on-bad-exit", 'K', SRUN_MAYBE_VALUE, 0},
    {"label", 'l', SRUN_ALONE, SRUN_STREAMS | SRUN_OUTPUT},
    {"licenses", 'L', SRUN_WITH_VALUE, 0},
    {"mail-type", 0, SRUN_WITH_VALUE, 0},
    {"mail-user", 0, SRUN_WITH_VALUE, 0},
    {"mcs-label", 0, SRUN_WITH_VALUE, 0},
    {"mem", 0, SRUN_WITH_VALUE, 0},
    {"mem-bind", 0, SRUN_WITH_VALUE, 0},
    {"mem-per-cpu", 0, SRUN_WITH_VALUE, 0},
    {"mem-per-gpu", 0, SRUN_WITH_VALUE, 0},
    {"mincpus", 0, SRUN_WITH_VALUE, SRUN_PLACES},
    {"mpi", 0, SRUN_WITH_VALUE, SRUN_MPI},
    {"msg-timeout", 0, SRUN_WITH_VALUE, 0},
    {"multi-prog", 0, SRUN_ALONE, SRUN_REFUSED},
    {"network", 0, SRUN_WITH_VALUE, 0},
    {"nice", 0, SRUN_MAYBE_VALUE, 0},
    {"no-allocate", 'Z', SRUN_ALONE, SRUN_REFUSED},
    {"no-kill", 'k', SRUN_MAYBE_VALUE, 0},
    {"nodefile", 'F', SRUN_WITH_VALUE, SRUN_PLACES},
    {"nodelist", 'w', SRUN_WITH_VALUE, SRUN_PLACES},
    {"nodes", 'N', SRUN_WITH_VALUE, SRUN_PLACES},
    {"ntasks", 'n', SRUN_WITH_VALUE, SRUN_COUNTS},
    {"ntasks-per-core", 0, SRUN_WITH_VALUE, SRUN_PLACES},
    {"ntasks-per-gpu", 0, SRUN_WITH_VALUE, SRUN_PLACES},
    {"ntasks-per-node", 0, SRUN_WITH_VALUE, SRUN_PLACES},
    {"ntasks-per-socket", 0, SRUN_WITH_VALUE, SRUN_PLACES},
    {"ntasks-per-tres", 0, SRUN_WITH_VALUE, SRUN_PLACES},
    {"open-mode", 0, SRUN_WITH_VALUE, SRUN_STREAMS},
    {"output", 'o', SRUN_WITH_VALUE, SRUN_STREAMS | SRUN_OUTPUT},
    {"overcommit", 'O', SRUN_ALONE, SRUN_PLACES},
    {"overlap", 0, SRUN_ALONE, SRUN_PLACES},
    {"oversubscribe", 's', SRUN_ALONE, SRUN_PLACES},
    {"partition", 'p', SRUN_WITH_VALUE, 0},
    {"power", 0, SRUN_WITH_VALUE, 0},
    {"prefer", 0, SRUN_WITH_VALUE, SRUN_PLACES},
    {"preserve-env", 'E', SRUN_ALONE, 0},
    {"priority", 0, SRUN_WITH_VALUE, 0},
    {"profile", 0, SRUN_WITH_VALUE, 0},
    {"prolog", 0, SRUN_WITH_VALUE, SRUN_STREAMS},
    {"propagate", 0, SRUN_MAYBE_VALUE, 0},
    {"pty", 0, SRUN_MAYBE_VALUE, SRUN_REFUSED},
    {"qos", 'q', SRUN_WITH_VALUE, 0},
    {"quiet", 'Q', SRUN_ALONE, 0},
    {"quit-on-interrupt", 0, SRUN_ALONE, 0},
    {"reboot", 0, SRUN_ALONE, 0},
    {"relative", 'r', SRUN_WITH_VALUE, SRUN_PLACES},
    {"reservation", 0, SRUN_WITH_VALUE, 0},
    {"resv-ports", 0, SRUN_MAYBE_VALUE, 0},
    {"send-libs", 0, SRUN_MAYBE_VALUE, SRUN_REFUSED},
    {"signal", 0, SRUN_WITH_VALUE, 0},
    {"slurmd-debug", 0, SRUN_WITH_VALUE, SRUN_STREAMS | SRUN_OUTPUT},
    {"sockets-per-node", 0, SRUN_WITH_VALUE, SRUN_PLACES},
    {"spread-job", 0, SRUN_ALONE, SRUN_PLACES},
    {"switches", 0, SRUN_WITH_VALUE, SRUN_PLACES},
    {"task-epilog", 0, SRUN_WITH_VALUE, SRUN_STREAMS},
    {"task-prolog", 0, SRUN_WITH_VALUE, SRUN_STREAMS},
    {"thread-spec", 0, SRUN_WITH_VALUE, 0},
    {"threads", 'T', SRUN_WITH_VALUE, 0},
    {"threads-per-core", 0, SRUN_WITH_VALUE, SRUN_PLACES},
    {"time", 't', SRUN_WITH_VALUE, 0},
    {"time-min", 0, SRUN_WITH_VALUE, 0},
    {"tmp", 0, SRUN_WITH_VALUE, 0},
    {"tres-bind", 0, SRUN_WITH_VALUE, 0},
    {"tres-per-task", 0, SRUN_WITH_VALUE, 0},
    {"uid", 0, SRUN_WITH_VALUE, SRUN_REFUSED},
    {"unbuffered", 'u', SRUN_ALONE, SRUN_STREAMS},
    {"use-min-nodes", 0, SRUN_ALONE, SRUN_PLACES},
    {"verbose", 'v', SRUN_ALONE, SRUN_STREAMS},
    {"wait", 'W', SRUN_WITH_VALUE, 0},
    {"wckey", 0, SRUN_WITH_VALUE, 0},
};

/* As getopt_long(3): the whole name, or a beginning that no other one has. */
static const struct srun_option *find_name(const char *name, size_t length)
{
    const struct srun_option *found = NULL;
    bool is_unclear = false;
    for (size_t i = 0; i < COUNT(options); i++) {
        if (strncmp(options[i].name, name, length) != 0)
            continue;
        if (options[i].name[length] == '\0')
            return &options[i];
        is_unclear |= found != NULL;
        found = &options[i];
    }
    return is_unclear || length == 0 ? NULL : found;
}

static const struct srun_option *find_letter(char letter)
{
    for (size_t i = 0; i < COUNT(options); i++)
        if (options[i].letter == letter)
            return &options[i];
    return NULL;
}

static int take_name(char *const argv[], struct srun_walk *walk, struct srun_given *given)
{
    const char *name = argv[walk->at] + 2, *equals = strchr(name, '=');
    const struct srun_option *option = find_name(name, equals ? (size_t)(equals - name) : strlen(name));
    bool is_next = option && option->values == SRUN_WITH_VALUE && !equals;
    if (!option || (option->values == SRUN_ALONE && equals) || (is_next && !argv[walk->at + 1]))
        return -1;
    *given = (struct srun_given){option, equals ? equals + 1 : is_next ? argv[walk->at + 1] : NULL};
    walk->at += is_next ? 2 : 1;
    return 1;
}

static int take_letter(char *const argv[], struct srun_walk *walk, struct srun_given *given)
{
    const char *letter = walk->letter ? walk->letter : argv[walk->at] + 1, *rest = letter + 1;
    const struct srun_option *option = find_letter(*letter);
    bool is_next = option && option->values == SRUN_WITH_VALUE && !*rest;
    if (!option || (is_next && !argv[walk->at + 1]))
        return -1;
    if (option->values == SRUN_ALONE) {
        *given = (struct srun_given){option, NULL};
        walk->letter = *rest ? rest : NULL;
        walk->at += *rest ? 0 : 1;
        return 1;
    }
    *given = (struct srun_given){option, is_next ? argv[walk->at + 1] : *rest ? rest : NULL};
    walk->letter = NULL;
    walk->at += is_next ? 2 : 1;
    return 1;
}

int srun_words_next(char *const argv[], struct srun_walk *walk, struct srun_given *given)
{
    const char *word = argv[walk->at];
    if (walk->letter)
        return take_letter(argv, walk, given);
    if (!word || word[0] != '-' || !word[1])
        return 0;
    if (!strcmp(word, "--")) {
        walk->at++;
        return 0;
    }
    return word[1] == '-' ? take_name(argv, walk, given) : take_letter(argv, walk, given);
}

size_t srun_words_program(char *const argv[])
{
    struct srun_walk walk = {.at = 1};
    struct srun_given given;
    while (srun_words_next(argv, &walk, &given) > 0)
        ;
    return walk.at;
}

bool srun_words_find(char *const argv[], unsigned about, struct srun_given *given)
{
    struct srun_walk walk = {.at = 1};
    struct srun_given one;
    bool is_found = false;
    while (srun_words_next(argv, &walk, &one) > 0)
        if (one.option->about & about) {
            *given = one;
            is_found = true;
        }
    return is_found;
}
