#include "slurm-plugin/words.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void words_job_name(uint32_t job, uint32_t step, const char *program, char name[WORDS_NAME_BYTES])
{
    const char *slash = strrchr(program, '/');
    snprintf(name, WORDS_NAME_BYTES, "%" PRIu32 ".%" PRIu32 "-%.30s", job, step, slash ? slash + 1 : program);
    for (char *at = name; *at; at++)
        if (!isascii((unsigned char)*at) || (!isalnum((unsigned char)*at) && !strchr("._-", *at)))
            *at = '_';
}

int words_preload(const char *library, const char *users, char *list, size_t list_bytes,
                  struct belay_error *err)
{
    const char *others = users ? users : "";
    int used = snprintf(list, list_bytes, "%s%s%s", library, others[0] ? ":" : "", others);
    return used > 0 && (size_t)used < list_bytes
               ? 0
               : belay_error_set(err, E2BIG, "LD_PRELOAD is too long for one more library");
}
