#include "slurm-plugin/porter_call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int porter_call(const struct site *site, const struct outside *of, const char *task, uint32_t job,
                struct belay_error *err)
{
    char path[PATH_MAX + 16], number[16];
    char *const argv[] = {path, (char *)(uintptr_t)of->rundir, (char *)(uintptr_t)task, number, NULL};
    if (!strcmp(site->group, "none"))
        return belay_error_set(err, ENOTSUP, "the site has cgroup=none in plugstack.conf");
    snprintf(path, sizeof path, "%s/belay-porter", site->folder);
    snprintf(number, sizeof number, "%u", job);
    return outside_run(of, argv, err);
}
