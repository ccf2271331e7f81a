/*
 * spank_belay.c - Slurm's side of Belay (docs/slurm.md).
 *
 * srun, sbatch and salloc read and check what the user asks for. srun starts the board of the launch and
 * hands on what is asked for in variables that only slurmstepd sees. There the tasks get Belay's library. A
 * step of which nothing is asked is not touched.
 */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "config.h"

#include "common/wire/board.h"
#include "common/wire/placement.h"
#include "slurm-plugin/board_child.h"
#include "slurm-plugin/epilog.h"
#include "slurm-plugin/porter_call.h"
#include "slurm-plugin/site.h"
#include "slurm-plugin/wish.h"
#include "slurm-plugin/words.h"

#define EXPORTED __attribute__((visibility("default")))
#define BELL_END_MS 1000
#define REQUEUE_S 600 /* for Slurm to see that a node is down (SlurmdTimeout) */

/* From srun to slurmstepd; names that begin so pass srun --export. */
#define HANDED_BOARD "SLURM_BELAY_BOARD"
#define HANDED_VERSION "SLURM_BELAY_VERSION"
#define HANDED_LAST_LINE "SLURM_BELAY_LAST_LINE"
#define HANDED_TOOL                                                                                          \
    "SLURM_BELAY_TOOL" /* the step is a command of Belay's about the job (cmd/slurm_job.c)                   \
                        */
static const char *const handed[WISH_KEYS] = {[WISH_INTERVAL] = "SLURM_BELAY_INTERVAL",
                                              [WISH_DIR] = "SLURM_BELAY_DIR",
                                              [WISH_REDUNDANCY] = "SLURM_BELAY_REDUNDANCY",
                                              [WISH_RESTART] = "SLURM_BELAY_RESTART",
                                              [WISH_ARCHIVE] = "SLURM_BELAY_ARCHIVE"};
/* What tasks get of it. */
static const char *const variables[WISH_KEYS] = {[WISH_INTERVAL] = "BELAY_INTERVAL",
                                                 [WISH_DIR] = "BELAY_UNDO_DIR",
                                                 [WISH_REDUNDANCY] = "BELAY_REDUNDANCY"};

EXPORTED const char plugin_name[] = "belay";
EXPORTED const char plugin_type[] = "spank";
EXPORTED const unsigned int plugin_version = SLURM_VERSION_NUMBER;
EXPORTED const unsigned int spank_plugin_version = 1;

EXPORTED extern spank_f slurm_spank_init, slurm_spank_init_post_opt, slurm_spank_local_user_init,
    slurm_spank_user_init, slurm_spank_task_init, slurm_spank_task_post_fork, slurm_spank_task_exit,
    slurm_spank_exit, slurm_spank_job_epilog;

static struct board_child board = {-1, -1}; /* srun's */
static pid_t script;                        /* which runs srun */
static struct wish given;                   /* by options; from init_post_opt on, by whatever gives it */
static char
    step_name[WORDS_NAME_BYTES];   /* in slurmstepd and its tasks: of a protected step; "": of another one */
static char last_line[24] = "0";   /* of it: when one is taken before the time limit (bell.c) */
static pid_t bell = -1;            /* there: belay-bell, which slurmstepd has started */
static bool is_refused;            /* there: this step is, with a line */
static struct site site;           /* plugstack.conf */
static struct belay_error mistake; /* in it; code 0: none */

/* ---- what is asked for ---- */

static int refuse(const struct belay_error *err)
{
    slurm_error("belay: %s", err->text);
    return -1;
}

/* The commands of users end over a plugin's failure only where plugstack.conf says that it is required. */
static int refuse_submission(const struct belay_error *err)
{
    fprintf(stderr, "belay: %s\n", err->text);
    exit(EXIT_FAILURE);
}

static bool is_command(void)
{
    return spank_context() == S_CTX_LOCAL || spank_context() == S_CTX_ALLOCATOR;
}

static int on_option(int key, const char *text, int is_remote)
{
    char given_by[64];
    struct belay_error err;
    snprintf(given_by, sizeof given_by, "--%s", wish_row((enum wish_key)key)->option);
    if (is_remote) /* srun tells what holds */
        return 0;
    if (wish_take(&given, (enum wish_key)key, given_by, text ? text : "", &err) == 0)
        return 0;
    return is_command() ? refuse_submission(&err) : refuse(&err);
}

static int register_options(spank_t spank)
{
    static struct spank_option options[WISH_KEYS]; /* Slurm borrows them */
    static char help[WISH_KEYS][512];
    for (int key = 0; key < WISH_KEYS; key++) {
        const struct wish_row *row = wish_row((enum wish_key)key);
        snprintf(help[key], sizeof help[key], "Belay: %s", row->help);
        options[key] = (struct spank_option){
            (char *)(uintptr_t)row->option, (char *)(uintptr_t)row->argument, help[key], 1, key, on_option};
        if (spank_option_register(spank, &options[key]) != ESPANK_SUCCESS)
            return -1;
    }
    return 0;
}

/* ---- plugstack.conf ---- */

static int find_folder(char folder[PATH_MAX], struct belay_error *err)
{
    Dl_info info;
    char *slash = NULL;
    if (dladdr((void *)(uintptr_t)&find_folder, &info) && realpath(info.dli_fname, folder))
        slash = strrchr(folder, '/');
    if (!slash)
        return belay_error_set(err, ENOENT, "the folder of spank_belay.so is not known");
    *slash = '\0';
    return 0;
}

static int read_site(int count, char *words[], struct belay_error *err)
{
    char folder[PATH_MAX];
    return find_folder(folder, err) < 0 ? -1 : site_read(&site, folder, count, words, err);
}

/*
 * A mistake in plugstack.conf ends commands and protected steps with one line, and nothing else: over an
 * error in slurmd, or at the begin or the end of a job, Slurm would drain the node.
 */
int slurm_spank_init(spank_t spank, int count, char *words[])
{
    if (read_site(count, words, &mistake) < 0) {
        refuse(&mistake);
        if (is_command())
            return -1;
    }
    bool has_options = is_command() || spank_context() == S_CTX_REMOTE;
    return has_options ? register_options(spank) : 0;
}

/* Options come first, then variables, then what the site says. */
int slurm_spank_init_post_opt(spank_t spank, int count, char *words[])
{
    struct belay_error err;
    (void)spank, (void)count, (void)words;
    if (!is_command())
        return 0;
    for (int key = 0; key < WISH_KEYS; key++) {
        char given_by[64];
        const char *name = wish_row((enum wish_key)key)->variable, *text = getenv(name);
        snprintf(given_by, sizeof given_by, "the variable %s", name);
        if (!given.texts[key][0] && text && text[0] &&
            wish_take(&given, (enum wish_key)key, given_by, text, &err) < 0)
            return refuse_submission(&err);
    }
    wish_fill(&given, &site.wish);
    if (wish_is_on(&given) && wish_is_archived(&given) && !given.texts[WISH_DIR][0]) {
        belay_error_set(&err, EINVAL, "--checkpoint-archive needs a folder: --checkpoint-dir");
        return refuse_submission(&err);
    }
    return 0;
}

/* ---- srun ---- */

/* Nothing is handed on of a job without a limit, or if slurmctld does not tell. */
static int hand_on_last_line(spank_t spank)
{
    uint32_t job = 0;
    time_t end_s = 0;
    int64_t at_s;
    if (site.last_line_ms == 0 || spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        slurm_get_end_time(job, &end_s) != SLURM_SUCCESS)
        return 0;
    at_s = end_s - (int64_t)(site.last_line_ms / 1000);
    snprintf(last_line, sizeof last_line, "%" PRId64, at_s);
    return at_s > time(NULL) && at_s < UINT32_MAX ? setenv(HANDED_LAST_LINE, last_line, 1) : 0;
}

static int hand_on(spank_t spank, const char *where, struct belay_error *err)
{
    int rc = setenv(HANDED_BOARD, where, 1) | setenv(HANDED_VERSION, PACKAGE_VERSION, 1) |
             hand_on_last_line(spank);
    for (int key = 0; key < WISH_KEYS; key++)
        if (given.texts[key][0])
            rc |= setenv(handed[key], given.texts[key], 1);
    return rc == 0 ? 0 : belay_error_errno(err, "cannot hand on what is asked for");
}

static int protect(spank_t spank, struct belay_error *err)
{
    char number[16], line[BOARD_LINE_BYTES];
    const char *parts = getenv("SLURM_HET_SIZE");
    uint32_t ranks = 0;
    if (parts && strtoul(parts, NULL, 10) > 1)
        return belay_error_set(err, ENOTSUP,
                               "the steps of a heterogeneous job cannot be protected: leave "
                               "--checkpoint-interval out, or give 0");
    if (spank_get_item(spank, S_JOB_TOTAL_TASK_COUNT, &ranks) != ESPANK_SUCCESS || ranks == 0)
        return belay_error_set(err, EINVAL, "the number of tasks is not known");
    snprintf(number, sizeof number, "%u", ranks);
    return board_child_start(&board, site.folder, number, line, err) < 0 ? -1 : hand_on(spank, line, err);
}

int slurm_spank_local_user_init(spank_t spank, int count, char *words[])
{
    struct belay_error err;
    (void)count, (void)words;
    script = getppid();
    if (!wish_is_on(&given) || protect(spank, &err) == 0)
        return 0;
    return refuse_submission(&err);
}

/*
 * Belay ends the tasks that are left long before Slurm takes a lost node for down. If the script went on
 * then, or failed, there would be no job to requeue: so srun returns when Slurm ends the script, or has done
 * so.
 */
static void await_requeue(void)
{
    fprintf(stderr, "belay: a node of the step was lost: waiting for Slurm to end the job\n");
    for (int waited_s = 0; waited_s < REQUEUE_S && getppid() == script; waited_s++)
        sleep(1);
}

int slurm_spank_exit(spank_t spank, int count, char *words[])
{
    const char *environment = getenv("ENVIRONMENT"); /* BATCH in scripts of sbatch */
    (void)spank, (void)count, (void)words;
    if (spank_context() == S_CTX_LOCAL && board.in >= 0 && environment && !strcmp(environment, "BATCH") &&
        board_child_has_lost_node(&board))
        await_requeue();
    return 0;
}

/* ---- slurmstepd ---- */

static int set(spank_t spank, const char *name, const char *value, struct belay_error *err)
{
    return spank_setenv(spank, name, value, 1) == ESPANK_SUCCESS
               ? 0
               : belay_error_set(err, ENOMEM, "%s cannot be set for the tasks", name);
}

/* What srun has handed on; it is not for the tasks. Returns whether there is any. */
static bool take(spank_t spank, const char *name, char *text, int bytes)
{
    if (spank_getenv(spank, name, text, bytes) != ESPANK_SUCCESS)
        return false;
    spank_unsetenv(spank, name);
    return text[0];
}

static int set_preload(spank_t spank, struct belay_error *err)
{
    static char users[1 << 16], list[1 << 16];
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/libbelay.so", site.folder);
    if (access(path, R_OK) < 0)
        return belay_error_errno(err, "%s cannot be read", path);
    bool has_users = spank_getenv(spank, "LD_PRELOAD", users, sizeof users) == ESPANK_SUCCESS;
    return words_preload(path, has_users ? users : NULL, list, sizeof list, err) < 0
               ? -1
               : set(spank, "LD_PRELOAD", list, err);
}

/* earlier: the job whose step is gone on with; 0: none. */
static int set_name(spank_t spank, uint32_t step, uint32_t earlier, struct belay_error *err)
{
    char **argv = NULL;
    uint32_t job = 0;
    int argc = 0;
    if ((earlier == 0 && spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS) ||
        spank_get_item(spank, S_JOB_ARGV, &argc, &argv) != ESPANK_SUCCESS || argc < 1)
        return belay_error_set(err, EINVAL, "the program of the step is not known");
    words_job_name(earlier ? earlier : job, step, argv[0], step_name);
    return set(spank, "BELAY_NAME", step_name, err);
}

static int set_rundir(spank_t spank, struct belay_error *err)
{
    char path[SITE_RUNDIR_BYTES];
    uid_t user;
    if (spank_get_item(spank, S_JOB_UID, &user) != ESPANK_SUCCESS)
        return belay_error_set(err, EINVAL, "the job's user is not known");
    site_rundir(&site, user, path);
    return set(spank, "BELAY_RUNDIR", path, err) < 0 ? -1 : set(spank, PLACEMENT_LOCAL_VARIABLE, "1", err);
}

/* How often Slurm has started the job again. */
static unsigned long restart_count(spank_t spank)
{
    char number[16];
    bool is_told = spank_getenv(spank, "SLURM_RESTART_COUNT", number, sizeof number) == ESPANK_SUCCESS;
    return is_told ? strtoul(number, NULL, 10) : 0;
}

/* Only a requeued job has lines, unless an earlier one is named (0: none is). Of the life of an earlier job
 * nothing is known. */
static int set_restart(spank_t spank, uint32_t *earlier, struct belay_error *err)
{
    static char line[WISH_TEXT_BYTES];
    char life[24];
    line[0] = '\0';
    unsigned long restarts = restart_count(spank);
    bool is_given = take(spank, handed[WISH_RESTART], line, sizeof line);
    *earlier = is_given ? wish_restart_job(line) : 0;
    snprintf(life, sizeof life, "%lu", *earlier ? 0 : restarts + 1);
    if (set(spank, "BELAY_LIFE", life, err) < 0)
        return -1;
    if (is_given && wish_restart_is_folder(line)) { /* a requeued step goes on from memory, if it can */
        if (set(spank, "BELAY_RESTART_ARCHIVE", line, err) < 0)
            return -1;
        line[0] = '\0';
    }
    if ((restarts == 0 && *earlier == 0) || (is_given && !strcmp(line, "none")))
        return 0;
    return set(spank, "BELAY_RESTART", *earlier ? "" : line, err);
}

/* ---- what outlives the step ---- */

#define GROUPS_MAX 1024

/* Whom the job is of; the groups are Slurm's own list. */
static int find_user(spank_t spank, struct outside *of)
{
    gid_t *groups = NULL;
    int count = 0;
    if (spank_get_item(spank, S_JOB_UID, &of->user) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_GID, &of->group) != ESPANK_SUCCESS)
        return -1;
    if (spank_get_item(spank, S_JOB_SUPPLEMENTARY_GIDS, &groups, &count) == ESPANK_SUCCESS && count > 0) {
        of->groups = groups;
        of->group_count = (size_t)count;
    }
    return 0;
}

/* Without a porter the job is protected as well, but what its nodes hold ends with the step. */
static void start_porter(spank_t spank)
{
    char path[SITE_RUNDIR_BYTES];
    struct belay_error err;
    struct outside of = {.rundir = path, .name = site.group, .memory = site.memory};
    uint32_t job = 0;
    if (find_user(spank, &of) < 0 || spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS)
        return;
    site_rundir(&site, of.user, path);
    if (porter_call(&site, &of, "expect", job, &err) < 0 && err.code != ENOTSUP)
        slurm_info("belay: what this node holds ends with the step: %s", err.text);
}

/* On each node, as root, when the job has ended there. */
int slurm_spank_job_epilog(spank_t spank, int count, char *words[])
{
    struct belay_error err;
    uint32_t job = 0;
    uid_t user;
    if (read_site(count, words, &err) < 0) /* there was no slurm_spank_init() */
        refuse(&err);
    if (site.folder[0] && spank_get_item(spank, S_JOB_UID, &user) == ESPANK_SUCCESS &&
        spank_get_item(spank, S_JOB_ID, &job) == ESPANK_SUCCESS)
        epilog_run(&site, job, user);
    return 0;
}

/* What srun's plugin hands on, this one has to understand. */
static int check_version(spank_t spank, struct belay_error *err)
{
    char version[64] = "an older one", host[HOST_NAME_MAX + 1] = "?";
    take(spank, HANDED_VERSION, version, sizeof version);
    gethostname(host, sizeof host);
    return !strcmp(version, PACKAGE_VERSION)
               ? 0
               : belay_error_set(
                     err, EPROTO,
                     "srun's plugin is of version %s, and that of node %s of version " PACKAGE_VERSION
                     ": install the same Belay on all nodes",
                     version, host);
}

/* Lines are written to files below the folder that all nodes share. */
static int set_archive(spank_t spank, const char *folder, struct belay_error *err)
{
    static struct wish wish;
    bool is_given = take(spank, handed[WISH_ARCHIVE], wish.texts[WISH_ARCHIVE], WISH_TEXT_BYTES);
    if (!is_given || !wish_is_archived(&wish))
        return 0;
    return set(spank, "BELAY_ARCHIVE", folder, err) < 0
               ? -1
               : set(spank, "BELAY_ARCHIVE_EVERY", wish.texts[WISH_ARCHIVE], err);
}

static int prepare_tasks(spank_t spank, uint32_t step, struct belay_error *err)
{
    static char text[WISH_TEXT_BYTES], folder[WISH_TEXT_BYTES];
    if (mistake.code != 0) {
        *err = mistake;
        return -1;
    }
    if (check_version(spank, err) < 0)
        return -1;
    for (int key = 0; key < WISH_KEYS; key++) {
        if (!variables[key] || !take(spank, handed[key], text, sizeof text))
            continue;
        if (key == WISH_DIR)
            snprintf(folder, sizeof folder, "%s", text);
        if (set(spank, variables[key], text, err) < 0)
            return -1;
    }
    if (set_archive(spank, folder, err) < 0)
        return -1;
    if (!take(spank, HANDED_LAST_LINE, last_line, sizeof last_line))
        snprintf(last_line, sizeof last_line, "0");
    uint32_t earlier;
    if (set_restart(spank, &earlier, err) < 0)
        return -1;
    if (set_preload(spank, err) < 0 || set_name(spank, step, earlier, err) < 0 || set_rundir(spank, err) < 0)
        return -1;
    return set(spank, "BELAY_RETENTION", site.retention, err);
}

/* Batch scripts and the like are steps with special numbers. */
int slurm_spank_user_init(spank_t spank, int count, char *words[])
{
    char where[BOARD_LINE_BYTES];
    struct belay_error err;
    uint32_t step = SLURM_BATCH_SCRIPT;
    (void)count, (void)words;
    if (spank_context() != S_CTX_REMOTE || spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS ||
        step > SLURM_MAX_NORMAL_STEP_ID)
        return 0;
    if (take(spank, HANDED_TOOL, where, sizeof where))
        return set_rundir(spank, &err) < 0 ? refuse(&err) : 0;
    if (!take(spank, HANDED_BOARD, where, sizeof where))
        return 0;
    start_porter(spank);
    if (set(spank, BOARD_VARIABLE, where, &err) == 0 && prepare_tasks(spank, step, &err) == 0)
        return 0;
    is_refused = true;
    step_name[0] = '\0';
    refuse(&err);
    return 0;
}

/* srun exits with 0 where a plugin has failed before there are tasks, and with 1 where it fails in them. */
int slurm_spank_task_init(spank_t spank, int count, char *words[])
{
    (void)spank, (void)count, (void)words;
    return is_refused ? -1 : 0;
}

/*
 * In slurmstepd, for each of its tasks. On the node of the arbiter one process of the step hears of Slurm's
 * signals. Slurm signals children of slurmstepd in the step's control groups, and ends all that is in the
 * groups with the step.
 */
int slurm_spank_task_post_fork(spank_t spank, int count, char *words[])
{
    char path[PATH_MAX + 16], rundir[SITE_RUNDIR_BYTES], step[16];
    char *const argv[] = {path, step, rundir, step_name, last_line, NULL};
    struct outside of = {.rundir = rundir};
    struct belay_error err;
    uint32_t task = 0;
    (void)count, (void)words;
    if (spank_context() != S_CTX_REMOTE || !step_name[0] ||
        spank_get_item(spank, S_TASK_GLOBAL_ID, &task) != ESPANK_SUCCESS || task != 0 ||
        spank_get_item(spank, S_TASK_PID, &of.beside) != ESPANK_SUCCESS || find_user(spank, &of) < 0)
        return 0;
    site_rundir(&site, (unsigned)of.user, rundir);
    snprintf(path, sizeof path, "%s/belay-bell", site.folder);
    snprintf(step, sizeof step, "%d", (int)getpid());
    pid_t pid = outside_start(&of, argv, &err);
    if (pid < 0)
        slurm_info("belay: no line is taken on a signal: %s", err.text);
    else
        bell = pidfd_open(pid,
                          0); /* slurmstepd waits for any child: the number may be another process's later */
    return 0;
}

/*
 * In slurmstepd, for each of its tasks that has ended. When rank 0 has, no line is taken any more, and the
 * process that hears of signals goes: a step in which slurmstepd finds a process after its tasks ends a
 * second later.
 */
int slurm_spank_task_exit(spank_t spank, int count, char *words[])
{
    uint32_t task = 0;
    siginfo_t ended;
    struct pollfd end = {.fd = bell, .events = POLLIN};
    (void)count, (void)words;
    if (bell < 0 || spank_get_item(spank, S_TASK_GLOBAL_ID, &task) != ESPANK_SUCCESS || task != 0)
        return 0;
    pidfd_send_signal(bell, SIGKILL, NULL, 0);
    poll(&end, 1, BELL_END_MS);
    waitid(P_PIDFD, (id_t)bell, &ended, WEXITED | WNOHANG);
    close(bell);
    bell = -1;
    return 0;
}
