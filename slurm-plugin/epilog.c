#include "slurm-plugin/epilog.h"

#include <errno.h>
#include <pwd.h>
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "slurm-plugin/bounded.h"
#include "slurm-plugin/porter_call.h"

#define CONTROLLER_MS 10000 /* for slurmctld to tell how the job has ended */

/* Will the job run again, here or elsewhere, or might the user submit it again to go on? */
static bool ask_controller(uint32_t job)
{
    job_info_msg_t *found = NULL;
    bool is_kept = true; /* if nobody tells, the retention time decides */
    if (slurm_load_job(&found, job, SHOW_DETAIL) == SLURM_SUCCESS && found->record_count > 0) {
        uint32_t state = found->job_array[0].job_state & JOB_STATE_BASE;
        is_kept = state <= JOB_SUSPENDED || state == JOB_TIMEOUT || state == JOB_NODE_FAIL ||
                  state == JOB_PREEMPTED || state == JOB_BOOT_FAIL;
    }
    slurm_free_job_info_msg(found);
    return is_kept;
}

/* By a process of its own: Slurm's library asks a controller that is not there for minutes. */
static bool is_kept(uint32_t job)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(ask_controller(job) ? EXIT_SUCCESS : EXIT_FAILURE);
    return pid < 0 || bounded_wait(pid, CONTROLLER_MS, &status) < 0 || !WIFEXITED(status) ||
           WEXITSTATUS(status) != EXIT_FAILURE;
}

void epilog_run(const struct site *site, uint32_t job, uid_t user)
{
    char rundir[SITE_RUNDIR_BYTES];
    struct belay_error err;
    struct stat st;
    struct outside of = {.rundir = rundir, .name = site->group, .memory = site->memory, .user = user};
    site_rundir(site, user, rundir);
    /* Nodes without agents of the user have no such folder. */
    if (lstat(rundir, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != user)
        return;
    const struct passwd *row = getpwuid(user);
    of.group = row ? row->pw_gid : st.st_gid;
    if (porter_call(site, &of, is_kept(job) ? "release" : "forget", job, &err) < 0)
        slurm_verbose("belay: job %u: %s", job, err.text); /* a porter that has gone leaves nothing */
}
