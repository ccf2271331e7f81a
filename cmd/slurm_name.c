#include "cmd/slurm_name.h"

#include <string.h>

bool slurm_name_is_it(const char *word)
{
    size_t job = strspn(word, "0123456789");
    if (job == 0 || strlen(word) >= SLURM_NAME_BYTES)
        return false;
    size_t step = word[job] == '.' ? strspn(word + job + 1, "0123456789") : 0;
    return word[job] == '\0' || (step > 0 && word[job + 1 + step] == '\0');
}

bool slurm_name_has(const char *word, const char *name)
{
    size_t length = strlen(word);
    return !strncmp(name, word, length) && name[length] == (strchr(word, '.') ? '-' : '.');
}
