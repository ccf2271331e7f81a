#include "slurm-plugin/outside.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/job_group.h"
#include "slurm-plugin/bounded.h"

#define ROOT "/sys/fs/cgroup"
#define LIST_BYTES 8192
#define OUTSIDE_MS 10000 /* for the program to end, or to go to the background */

/* What the child's exit status says, if it has not come so far as to execute anything. */
enum failure { FAILED_ROOT = 100, FAILED_GROUP, FAILED_USER, FAILED_PROGRAM };

/* ---- in the child: Slurm's daemon has threads, so nothing here allocates ---- */

static int write_text(const char *folder, const char *name, const char *text)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return -1;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t written = fd < 0 ? -1 : write(fd, text, strlen(text));
    if (fd >= 0)
        close(fd);
    return written == (ssize_t)strlen(text) ? 0 : -1;
}

static bool read_text(const char *path, char *text, size_t bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t got = fd < 0 ? -1 : 1;
    while (got > 0 && used + 1 < bytes) {
        got = read(fd, text + used, bytes - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    }
    text[used] = '\0';
    if (fd >= 0)
        close(fd);
    return got == 0;
}

/* A group of version 1 for processors takes nobody in before it has some. */
static void copy_from_above(const char *folder, const char *name)
{
    char path[PATH_MAX], text[256];
    if (snprintf(path, sizeof path, "%s/../%s", folder, name) < (int)sizeof path &&
        read_text(path, text, sizeof text) && text[0])
        write_text(folder, name, text);
}

static bool make_group(const char *folder)
{
    if (mkdir(folder, 0755) < 0 && errno != EEXIST)
        return false;
    copy_from_above(folder, "cpuset.cpus");
    copy_from_above(folder, "cpuset.mems");
    return true;
}

static int limit_memory(const char *folder, uint64_t bytes)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
    return write_text(folder, "memory.limit_in_bytes", text) == 0 ||
                   write_text(folder, "memory.max", text) == 0
               ? 0
               : -1;
}

/* top: where the hierarchy is mounted. */
static int join(const struct outside *of, const char *top, bool has_memory)
{
    char site[PATH_MAX], own[PATH_MAX];
    int used = snprintf(site, sizeof site, "%s/%s", top, of->name);
    if (used < 0 || used >= (int)sizeof site - 32)
        return -1;
    snprintf(own, sizeof own, "%.*s/uid_%u", used, site, (unsigned)of->user);
    if (of->memory && has_memory) { /* of version 2; version 1 has no such files */
        write_text(top, "cgroup.subtree_control", "+memory");
        if (make_group(site))
            write_text(site, "cgroup.subtree_control", "+memory");
    }
    if (!make_group(site) || !make_group(own))
        return -1;
    if (of->memory && has_memory && limit_memory(own, of->memory) < 0)
        return -1;
    return write_text(own, "cgroup.procs", "0");
}

static bool has_kind(const char *kinds, const char *kind)
{
    size_t length = strlen(kind);
    for (const char *at = kinds; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
        if (!strncmp(at, kind, length) && (at[length] == ',' || !at[length]))
            return true;
    return false;
}

/* Where the hierarchy of these kinds is mounted; of version 2 there are none. */
static void find_top(const char *kinds, char top[PATH_MAX])
{
    if (!*kinds)
        snprintf(top, PATH_MAX, "%s", access(ROOT "/cgroup.procs", F_OK) == 0 ? ROOT : ROOT "/unified");
    else
        snprintf(top, PATH_MAX, ROOT "/%s", !strncmp(kinds, "name=", 5) ? kinds + 5 : kinds);
}

/* A row of /proc/PID/cgroup: NUMBER:KINDS:PATH, without kinds for version 2. */
static int change_group(const struct outside *of, char *row)
{
    char top[PATH_MAX], *kinds = strchr(row, ':'), *path = kinds ? strchr(kinds + 1, ':') : NULL;
    if (!path)
        return -1;
    *path++ = '\0';
    kinds++;
    bool is_second = !*kinds, has_memory = is_second || has_kind(kinds, "memory");
    if (!job_group_is_it(path) && (of->beside || !(of->memory && has_memory)))
        return 0;
    find_top(kinds, top);
    if (of->beside)
        return strlen(top) + strlen(path) < sizeof top ? write_text(strcat(top, path), "cgroup.procs", "0")
                                                       : -1;
    bool is_optional = !job_group_is_it(path) && is_second; /* where version 1 has the memory */
    return join(of, top, has_memory) == 0 || is_optional ? 0 : -1;
}

static bool change_groups(const struct outside *of)
{
    static char list[LIST_BYTES];
    char path[32] = "/proc/self/cgroup";
    if (of->beside)
        snprintf(path, sizeof path, "/proc/%d/cgroup", (int)of->beside);
    if (!read_text(path, list, sizeof list))
        return access("/proc/self/cgroup", F_OK) < 0; /* a kernel without them */
    char *more = NULL;
    for (char *row = strtok_r(list, "\n", &more); row; row = strtok_r(NULL, "\n", &more))
        if (change_group(of, row) < 0)
            return false;
    return true;
}

/* In a folder where nobody else may write, such as /run, the user could not make it. */
static void make_rundir(const struct outside *of)
{
    char above[PATH_MAX];
    struct stat st;
    snprintf(above, sizeof above, "%s", of->rundir);
    char *slash = strrchr(above, '/');
    if (!slash || slash == above)
        return;
    *slash = '\0';
    if (lstat(above, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)))
        return;
    if (mkdir(of->rundir, 0700) == 0 && lchown(of->rundir, of->user, of->group) < 0)
        rmdir(of->rundir);
}

static void shed(void)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        sigaction(number, &plain, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    close_range(0, ~0u, 0);
    for (int fd = 0; fd < 3; fd++)
        open("/dev/null", O_RDWR);
    setsid();
    umask(022);
}

static _Noreturn void become(const struct outside *of, char *const argv[])
{
    static char *const environment[] = {(char *)(uintptr_t) "PATH=/usr/local/bin:/usr/bin:/bin", NULL};
    shed();
    if (setegid(0) < 0 || seteuid(0) < 0 || chdir("/") < 0)
        _exit(FAILED_ROOT);
    if (!change_groups(of))
        _exit(FAILED_GROUP);
    make_rundir(of);
    if (setgroups(of->group_count, of->groups) < 0 || setresgid(of->group, of->group, of->group) < 0 ||
        setresuid(of->user, of->user, of->user) < 0)
        _exit(FAILED_USER);
    execve(argv[0], argv, environment);
    _exit(FAILED_PROGRAM);
}

/* ---- in Slurm's daemon ---- */

static int tell(int status, const char *program, struct belay_error *err)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code == 0)
        return 0;
    if (code == FAILED_ROOT)
        return belay_error_set(err, EPERM, "Slurm's daemon does not run as root");
    if (code == FAILED_GROUP)
        return belay_error_set(err, EACCES, "no control group outside of the job can be joined below " ROOT);
    if (code == FAILED_USER)
        return belay_error_set(err, EPERM, "the job's user cannot be taken on");
    if (code == FAILED_PROGRAM)
        return belay_error_set(err, ENOENT, "%s cannot be executed", program);
    return belay_error_set(err, ECANCELED, "%s has failed", program);
}

int outside_run(const struct outside *of, char *const argv[], struct belay_error *err)
{
    int status = 0;
    pid_t pid = fork();
    if (pid < 0)
        return belay_error_errno(err, "no process can be made");
    if (pid == 0)
        become(of, argv);
    if (bounded_wait(pid, OUTSIDE_MS, &status) < 0)
        return errno == ETIMEDOUT
                   ? belay_error_set(err, ETIMEDOUT, "%s has not ended after %d s, and is killed", argv[0],
                                     OUTSIDE_MS / 1000)
                   : belay_error_errno(err, "%s cannot be waited for", argv[0]);
    return tell(status, argv[0], err);
}

pid_t outside_start(const struct outside *of, char *const argv[], struct belay_error *err)
{
    pid_t pid = fork();
    if (pid == 0)
        become(of, argv);
    return pid < 0 ? belay_error_errno(err, "no process can be made") : pid;
}
