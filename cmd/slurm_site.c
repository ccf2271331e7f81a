#include "cmd/slurm_site.h"

#include <stdio.h>
#include <string.h>

#define LINE_BYTES 1024

bool slurm_site_value(const char *name, char *value, size_t bytes)
{
    char line[LINE_BYTES];
    bool is_found = false;
    FILE *pipe = popen("scontrol show config 2>/dev/null", "re");
    while (pipe && fgets(line, sizeof line, pipe)) {
        size_t length = strcspn(line, " =");
        const char *at = line + length + strspn(line + length, " =");
        if (length != strlen(name) || strncmp(line, name, length) != 0)
            continue;
        is_found = true;
        snprintf(value, bytes, "%.*s", (int)strcspn(at, "\n"), at);
    }
    if (pipe)
        pclose(pipe);
    return is_found;
}

bool slurm_site_ends_all(void)
{
    char tracking[64];
    return slurm_site_value("ProctrackType", tracking, sizeof tracking) &&
           !strcmp(tracking, "proctrack/cgroup");
}
