#include "cmd/launch_words.h"

#include <string.h>

/* mpirun's options with one value (Open MPI 4.1, `mpirun --help full`): they tell where the program starts.
 */
static const char *const one_value[] = {
    "H",
    "N",
    "am",
    "app",
    "bind-to",
    "c",
    "cartofile",
    "cf",
    "cpu-list",
    "cpu-set",
    "cpus-per-proc",
    "cpus-per-rank",
    "debugger",
    "default-hostfile",
    "hnp",
    "host",
    "hostfile",
    "launch-agent",
    "machinefile",
    "map-by",
    "max-restarts",
    "max-vm-size",
    "n",
    "np",
    "npernode",
    "npersocket",
    "ompi-server",
    "output-filename",
    "path",
    "personality",
    "ppr",
    "prefix",
    "preload-files",
    "rank-by",
    "rankfile",
    "report-events",
    "report-pid",
    "report-uri",
    "rf",
    "stdin",
    "timeout",
    "tune",
    "wd",
    "wdir",
    "x",
    "xml-file",
    "xterm",
};
static const char *const two_values[] = {"gmca", "mca"};

bool launch_words_has(const char *const *words, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(word, words[i]))
            return true;
    return false;
}

const char *launch_words_option(const char *word)
{
    if (word[0] != '-' || !word[1])
        return NULL;
    return word + (word[1] == '-' ? 2 : 1);
}

size_t launch_words_values(const char *option)
{
    if (launch_words_has(two_values, LAUNCH_WORDS_COUNT(two_values), option))
        return 2;
    return launch_words_has(one_value, LAUNCH_WORDS_COUNT(one_value), option) ? 1 : 0;
}

bool launch_words_is_separator(const char *word)
{
    return !strcmp(word, ":");
}

size_t launch_words_skip(char *const argv[], size_t i)
{
    const char *option;
    while (argv[i] && (option = launch_words_option(argv[i])))
        for (size_t words = 1 + launch_words_values(option); words > 0 && argv[i]; words--)
            i++;
    return i;
}
