#include "cmd/slurm_job.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/exit_codes.h"
#include "cmd/options.h"
#include "cmd/slurm_name.h"
#include "cmd/string_list.h"
#include "cmd/tool.h"
#include "common/util/log.h"
#include "common/wire/job_name.h"
#include "common/wire/placement.h"
#include "common/wire/states.h"

#define SAID_BYTES 8192
#define HERE_VARIABLE "BELAY_SLURM_HERE" /* set: the command has been brought to this node */
#define TOOL_VARIABLE "SLURM_BELAY_TOOL" /* to the plugin: the step is one of these commands */

/* ---- on this node ---- */

/* jobs: sorted. The job that is meant: the only one that runs, else the only one. *count: how many are meant.
 */
static void find_here(const struct jobs *jobs, const char *word, const char **name, unsigned *count)
{
    unsigned running = 0, all = 0;
    const char *last_running = NULL, *last = NULL;
    for (size_t i = 0; i < jobs->count; i++) {
        const Belay__Wire__JobStatus *status = jobs->items[i];
        bool is_twice = i > 0 && !strcmp(jobs->items[i - 1]->job, status->job); /* as a guest, too */
        if (is_twice || !slurm_name_has(word, status->job))
            continue;
        all++;
        last = status->job;
        if (job_state_has_ended(job_state_from(status->job_state, status->state)))
            continue;
        running++;
        last_running = status->job;
    }
    *name = running ? last_running : last;
    *count = running ? running : all;
}

/* Returns -1 if the command is to be run here; 0: the step is not one that begins here; or an exit code. */
static int look_here(const char *word, char found[JOB_NAME_BYTES])
{
    struct tool tool;
    struct jobs jobs;
    struct belay_error err;
    const char *name;
    unsigned count;
    if (tool_open(&tool))
        return EXIT_NO_AGENT;
    int code = 0;
    if (tool_list_jobs(&tool, &jobs, &err) == 0) {
        find_here(&jobs, word, &name, &count);
        for (size_t i = 0; i < jobs.count; i++)
            if (!strcmp(jobs.items[i]->job, word) ||
                (count == 1 && jobs.items[i]->node_number == 0 && !strcmp(jobs.items[i]->job, name)))
                code = -1;
        if (code < 0 && count == 1)
            snprintf(found, JOB_NAME_BYTES, "%s", name);
        if (count > 1) {
            log_error("job %s has several steps here: name one of them ('belay list' shows them)", word);
            code = EXIT_USAGE;
        }
        jobs_release(&jobs);
    }
    tool_close(&tool);
    return code;
}

/* ---- on another node ---- */

/* The first line that a command says, without its end. Returns whether there is one. */
static bool first_line(const char *command, char *line, size_t bytes)
{
    FILE *pipe = popen(command, "re");
    line[0] = '\0';
    if (pipe && !fgets(line, (int)bytes, pipe))
        line[0] = '\0';
    if (pipe)
        pclose(pipe);
    line[strcspn(line, "\n")] = '\0';
    return line[0];
}

/* Whose job it is, and whether it runs. Returns 0, or an exit code after one line. */
static int check_job(const char *word, const char *job)
{
    char command[128], user[64];
    const struct passwd *own = getpwuid(geteuid());
    snprintf(command, sizeof command, "squeue -h -t running -j %s -o %%u 2>/dev/null", job);
    if (!first_line(command, user, sizeof user)) {
        log_error("there is no job %s here, and none that runs under Slurm", word);
        return EXIT_NO_JOB;
    }
    if (geteuid() == 0 || (own && !strcmp(own->pw_name, user)))
        return 0;
    log_error("job %s of Slurm's belongs to another user (%.32s)", job, user);
    return EXIT_USAGE;
}

/* A command that lists the hosts of the step, or of the job, one a line. */
static void hosts_command(char *command, size_t bytes, const char *word, const char *job)
{
    if (strchr(word, '.'))
        snprintf(command, bytes,
                 "scontrol show hostnames \"$(squeue -h -s -j %s -o '%%i %%N' | sed -n 's/^%s //p')\"", job,
                 word);
    else
        snprintf(command, bytes, "scontrol show hostnames \"$(squeue -h -j %s -o %%N)\"", job);
}

static char **srun_words(const char *job, const char *host, int argc, char **argv)
{
    struct string_list list = {0};
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    int rc = string_list_add(&list, "srun") | string_list_addf(&list, "--jobid=%s", job) |
             string_list_add(&list, "--overlap") | string_list_add(&list, "--mpi=none") |
             string_list_add(&list, "--input=none") | string_list_add(&list, "--quiet") |
             string_list_add(&list, "--mem=0") | string_list_add(&list, "-N1") |
             string_list_add(&list, "-n1") | string_list_addf(&list, "--nodelist=%s", host) |
             string_list_add(&list, self);
    for (int i = 0; i < argc && rc == 0; i++)
        rc = string_list_add(&list, argv[i]);
    if (rc == 0)
        return list.items;
    string_list_free(list.items);
    return NULL;
}

/* What srun adds about the exit status is not for the user. */
static void pass_errors(int fd)
{
    static char said[SAID_BYTES];
    ssize_t length = pread(fd, said, sizeof said - 1, 0);
    said[length > 0 ? length : 0] = '\0';
    char *more = NULL;
    for (char *line = strtok_r(said, "\n", &more); line; line = strtok_r(NULL, "\n", &more))
        if (strncmp(line, "srun: error: ", 13) != 0 || !strstr(line, "Exited with exit code"))
            fprintf(stderr, "%s\n", line);
}

/* Run the command on a host. Returns its exit code. */
static int run_on(const char *job, const char *host, int argc, char **argv)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status = 0, said = memfd_create("belay-srun", MFD_CLOEXEC);
    char **words = srun_words(job, host, argc, argv);
    if (!words || said < 0)
        return EXIT_INTERNAL;
    setenv(HERE_VARIABLE, host, 1);
    setenv(TOOL_VARIABLE, "1", 1);
    setenv("BELAY_CHECKPOINT_INTERVAL", "0", 1); /* this step itself is not to be protected */
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, said, STDERR_FILENO);
    int code = posix_spawnp(&pid, "srun", &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    string_list_free(words);
    if (code == 0)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    int result = code ? EXIT_NOT_FOUND : WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_INTERNAL;
    if (result != EXIT_NO_JOB)
        pass_errors(said);
    close(said);
    return result;
}

/* The first rank is on the first of them, unless the user has distributed ranks in another way. */
static int run_elsewhere(const char *word, int argc, char **argv)
{
    char job[SLURM_NAME_BYTES], command[256], host[HOST_NAME_MAX + 2];
    snprintf(job, sizeof job, "%.*s", (int)strspn(word, "0123456789"), word);
    int code = check_job(word, job);
    if (code != 0)
        return code;
    hosts_command(command, sizeof command, word, job);
    FILE *hosts = popen(command, "re");
    for (code = EXIT_NO_JOB; hosts && code == EXIT_NO_JOB && fgets(host, sizeof host, hosts);) {
        host[strcspn(host, "\n")] = '\0';
        if (placement_is_host_name(host))
            code = run_on(job, host, argc, argv);
    }
    if (hosts)
        pclose(hosts);
    if (code == EXIT_NO_JOB)
        log_error("no step of job %s runs with Belay", word);
    return code;
}

int slurm_job_route(const struct argp *argp, int argc, char **argv)
{
    static char found[JOB_NAME_BYTES];
    int at = 1;
    while (at < argc &&
           (options_take_next(argp, argv[at - 1]) || argv[at][0] == '-' || !slurm_name_is_it(argv[at])))
        at++;
    if (at >= argc)
        return -1;
    int code = look_here(argv[at], found);
    if (code < 0 && found[0])
        argv[at] = found;
    if (code != 0)
        return code;
    if (!getenv(HERE_VARIABLE))
        return run_elsewhere(argv[at], argc, argv);
    return EXIT_NO_JOB; /* the one who has brought it here looks elsewhere */
}
