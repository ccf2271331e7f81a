/* Of a cluster of Slurm's: is the plugin there, and where do agents run? Without Slurm nothing is missing. */
#include "cmd/probes.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/slurm_site.h"
#include "common/util/job_group.h"
#include "common/wire/client.h"
#include "common/wire/porter.h"

#define LINE_BYTES 1024

/* The line of a file that has this text, comments aside. Returns whether there is one. */
static bool find_line(const char *path, const char *text, char line[LINE_BYTES])
{
    FILE *file = fopen(path, "re");
    bool is_found = false;
    while (file && !is_found && fgets(line, LINE_BYTES, file)) {
        line[strcspn(line, "#\n")] = '\0';
        is_found = strstr(line, text) != NULL;
    }
    if (file)
        fclose(file);
    return is_found;
}

/* The plugin's line of plugstack.conf. False: Slurm is not here, or has no such line; *stack: the file. */
static bool find_plugin(char *stack, size_t bytes, char line[LINE_BYTES])
{
    return slurm_site_value("PlugStackConfig", stack, bytes) && find_line(stack, "spank_belay.so", line);
}

/* The word of a line that ends like this. */
static const char *find_word(char *line, const char *end)
{
    char *more = NULL;
    for (char *word = strtok_r(line, " \t", &more); word; word = strtok_r(NULL, " \t", &more))
        if (strlen(word) >= strlen(end) && !strcmp(word + strlen(word) - strlen(end), end))
            return word;
    return NULL;
}

void probe_slurm(struct finding *finding)
{
    char stack[PATH_MAX] = "", line[LINE_BYTES], fence[LINE_BYTES], path[PATH_MAX];
    finding->is_good = true;
    if (!slurm_site_value("PlugStackConfig", stack, sizeof stack)) {
        snprintf(finding->text, sizeof finding->text, "no slurmctld answers here");
        return;
    }
    const char *plugin = find_line(stack, "spank_belay.so", line) ? find_word(line, "spank_belay.so") : NULL;
    finding->is_good = plugin && access(plugin, R_OK) == 0;
    if (!plugin)
        snprintf(finding->text, sizeof finding->text, "%.200s does not have spank_belay.so", stack);
    else if (!finding->is_good)
        snprintf(finding->text, sizeof finding->text, "%.200s cannot be read", plugin);
    if (!finding->is_good)
        return;
    const char *slash = strrchr(stack, '/');
    snprintf(path, sizeof path, "%.*s/mpi.conf", slash ? (int)(slash - stack) : 0, stack);
    finding->is_good = find_line(path, "PMIxCollFence=ring", fence);
    snprintf(finding->text, sizeof finding->text, "%.200s%s", plugin,
             finding->is_good ? "" : "; mpi.conf does not have PMIxCollFence=ring, so MPI_Init may hang");
}

/* Where Slurm's plugin has the user's agents: its default, unless the environment says another place. */
static void find_rundir(char *path, size_t bytes)
{
    const char *given = getenv("BELAY_RUNDIR");
    if (given && given[0])
        snprintf(path, bytes, "%s", given);
    else
        snprintf(path, bytes, "/tmp/belay-%u", (unsigned)geteuid());
}

/* Is the process at the other end in a group of a job? */
static bool is_in_job(int sock)
{
    char path[64], groups[8192] = "";
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) < 0)
        return false;
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)peer.pid);
    FILE *file = fopen(path, "re");
    if (file) {
        groups[fread(groups, 1, sizeof groups - 1, file)] = '\0';
        fclose(file);
    }
    return job_group_is_it(groups);
}

void probe_slurm_agents(struct finding *finding)
{
    char stack[PATH_MAX], line[LINE_BYTES], rundir[PATH_MAX];
    struct belay_error err;
    finding->is_good = true;
    if (!find_plugin(stack, sizeof stack, line)) {
        snprintf(finding->text, sizeof finding->text, "no plugin");
        return;
    }
    find_rundir(rundir, sizeof rundir);
    int porter = porter_connect(rundir, &err), agent = agent_reach(rundir, NULL, &err);
    if (strstr(line, "cgroup=none") || (agent >= 0 && is_in_job(agent))) {
        finding->is_good = false;
        snprintf(finding->text, sizeof finding->text, "in the job: what they hold ends with the step");
    } else if (porter >= 0) {
        snprintf(finding->text, sizeof finding->text, "outside of jobs: what they hold outlives a step");
    } else {
        snprintf(finding->text, sizeof finding->text,
                 "outside of jobs, once a protected step begins here (none does now)");
    }
    if (porter >= 0)
        close(porter);
    if (agent >= 0)
        close(agent);
}
