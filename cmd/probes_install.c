#include "cmd/probes.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cmd/calls.h"
#include "cmd/layout.h"
#include "common/conf/conf.h"
#include "common/wire/client.h"
#include "common/wire/rundir.h"

void probe_mpirun(struct finding *finding)
{
    char line[256] = "";
    FILE *pipe = popen("mpirun --version 2>/dev/null", "re");
    if (pipe && !fgets(line, sizeof line, pipe))
        line[0] = '\0';
    if (pipe)
        pclose(pipe);
    line[strcspn(line, "\n")] = '\0';
    finding->is_good = strstr(line, "Open MPI") != NULL;
    snprintf(finding->text, sizeof finding->text, "%s", line[0] ? line : "no mpirun on the PATH");
}

void probe_libmpi(struct finding *finding)
{
    struct link_map *map = NULL;
    void *library = dlopen("libmpi.so.40", RTLD_LAZY | RTLD_LOCAL);
    finding->is_good = library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0;
    snprintf(finding->text, sizeof finding->text, "%s",
             finding->is_good ? map->l_name : "libmpi.so.40 (Open MPI 4) is not found by the loader");
    /* Never unloaded: Open MPI's libraries do not survive that. */
}

/*
 * The first words in a text of mpirun's, which frames its messages with dashes, and logs behind brackets.
 * What it has logged, if there is nothing else.
 */
static void first_words(int fd, char *line, size_t bytes)
{
    FILE *file = fdopen(fd, "r");
    char logged[256] = "";
    bool is_found = false;
    while (file && !is_found && fgets(line, (int)bytes, file)) {
        line[strcspn(line, "\n")] = '\0';
        is_found = line[strspn(line, "- \t")] != '\0' && line[0] != '[';
        if (!is_found && line[0] == '[' && !logged[0])
            snprintf(logged, sizeof logged, "%.255s", line);
    }
    if (!is_found)
        snprintf(line, bytes, "%s", logged[0] ? logged : "it says nothing");
    if (file)
        fclose(file);
    else if (fd >= 0)
        close(fd);
}

/* Why mpirun did not start them, in its own words, which it has written to fd. */
static void tell_mpiruns_reason(int fd, struct finding *finding)
{
    char line[256] = "";
    first_words(fd, line, sizeof line);
    snprintf(finding->text, sizeof finding->text, "mpirun does not start two ranks here%s%.200s%s",
             line[0] ? ": " : "", line,
             strstr(line, "as root") ? " (set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)"
                                     : "");
}

/* Of Open MPI, with the settings (OMPI_MCA_...) that jobs of this environment have. */
void probe_transports(struct finding *finding)
{
    struct install_layout layout;
    struct belay_error err;
    char line[256] = "", command[160];
    finding->is_good = false;
    if (layout_find(&layout, &err)) {
        snprintf(finding->text, sizeof finding->text, "%.*s", FINDING_BYTES - 1, err.text);
        return;
    }
    int said = memfd_create("belay-doctor", MFD_CLOEXEC);
    snprintf(command, sizeof command,
             "mpirun --oversubscribe --timeout 20 -n 2 \"$BELAY_LAUNCH\" --transports 2>/proc/%d/fd/%d",
             (int)getpid(), said);
    setenv("BELAY_LAUNCH", layout.launch, 1); /* the shell does not look into it */
    FILE *pipe = popen(command, "re");
    if (pipe && !fgets(line, sizeof line, pipe))
        line[0] = '\0';
    finding->is_good = pipe && pclose(pipe) == 0 && line[0];
    line[strcspn(line, "\n")] = '\0';
    if (!finding->is_good) {
        tell_mpiruns_reason(said, finding);
        return;
    }
    close(said);
    snprintf(finding->text, sizeof finding->text, "%s", line);
}

void probe_installation(struct finding *finding)
{
    struct install_layout layout;
    struct belay_error err;
    const char *missing;
    size_t part = 0;
    finding->is_good = layout_find(&layout, &err) == 0;
    if (!finding->is_good) {
        snprintf(finding->text, sizeof finding->text, "%.*s", FINDING_BYTES - 1, err.text);
        return;
    }
    size_t used = (size_t)snprintf(finding->text, sizeof finding->text, "%.200s", layout.folder);
    while ((missing = layout_next_missing(&layout, &part))) {
        used += (size_t)snprintf(finding->text + used, sizeof finding->text - used, "%s %s",
                                 finding->is_good ? " lacks" : ",", missing);
        finding->is_good = false;
    }
}

/* May a directory be made at path? Cuts path to its parent. */
static bool is_creatable(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash)
        return access(".", W_OK | X_OK) == 0;
    slash[slash == path] = '\0';
    return access(path, W_OK | X_OK) == 0;
}

void probe_rundir(struct finding *finding)
{
    char path[PATH_MAX], parent[PATH_MAX];
    struct belay_error err;
    if (rundir_resolve(path, sizeof path, false, &err)) {
        finding->is_good = false;
        snprintf(finding->text, sizeof finding->text, "%.*s", FINDING_BYTES - 1, err.text);
        return;
    }
    bool is_there = access(path, W_OK | X_OK) == 0;
    memcpy(parent, path, sizeof parent);
    finding->is_good = is_there || (errno == ENOENT && is_creatable(parent));
    snprintf(finding->text, sizeof finding->text, "%.200s%s", path,
             is_there           ? ""
             : finding->is_good ? " (will be made)"
                                : " cannot be made or written");
}

/* Where files are kept as they were at a line: is it memory, how much room is there? */
void probe_undo(struct finding *finding)
{
    char path[PATH_MAX];
    const char *given = conf_text(CONF_UNDO_DIR, NULL);
    struct statfs fs;
    if (given && *given)
        snprintf(path, sizeof path, "%s", given);
    else if (rundir_resolve(path, sizeof path, false, NULL))
        path[0] = '\0';
    while (path[0] == '/' && statfs(path, &fs) && errno == ENOENT && strrchr(path, '/') != path)
        *strrchr(path, '/') = '\0'; /* not made yet */
    finding->is_good = path[0] == '/' && statfs(path, &fs) == 0;
    if (!finding->is_good) {
        snprintf(finding->text, sizeof finding->text, "%.200s: %s", path, strerror(errno));
        return;
    }
    snprintf(finding->text, sizeof finding->text, "in %.200s, %ju MiB free%s", path,
             (uintmax_t)fs.f_bavail * (uintmax_t)fs.f_bsize >> 20,
             fs.f_type == TMPFS_MAGIC ? " (memory)" : "");
}

void probe_agent(struct finding *finding)
{
    char rundir[PATH_MAX];
    struct belay_error err = {0};
    struct caller agent = {.sock = -1};
    if (rundir_resolve(rundir, sizeof rundir, false, &err) == 0)
        agent.sock = agent_connect(rundir, NULL, &err);
    bool is_absent = agent.sock < 0 && (err.code == ENOENT || err.code == ECONNREFUSED);
    Belay__Wire__Reply *reply = agent.sock >= 0 ? call_ping(&agent, &err) : NULL;
    finding->is_good = is_absent || reply;
    if (reply)
        snprintf(finding->text, sizeof finding->text, "runs on %.100s, pid %u, version %.100s",
                 reply->pong->node, reply->pong->agent_pid, reply->pong->version);
    else
        snprintf(finding->text, sizeof finding->text, "%.*s", FINDING_BYTES - 1,
                 is_absent ? "none runs; one is started on demand" : err.text);
    calls_free(reply);
    if (agent.sock >= 0)
        close(agent.sock);
}
