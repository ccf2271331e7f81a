/* children.c - see children.h. */
#include "mpi-layer/lower/children.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/array.h"
#include "common/wire/shares.h"
#include "mpi-layer/lower/feeds.h"
#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/shares.h"
#include "mpi-layer/lower/vk_child.h"
#include "mpi-layer/lower/vk_id.h"

struct pids {
    pid_t *all;
    size_t count, room;
};

/* Of this process, so not in an image: the library's, and the program's that ran at the line before. */
static struct pids library, former;

static bool has(const struct pids *list, pid_t pid)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->all[i] == pid)
            return true;
    return false;
}

static void add(struct pids *list, pid_t pid)
{
    if (array_reserve(&list->all, list->count + 1, &list->room) == 0)
        list->all[list->count++] = pid;
}

/* Those that one thread has started (proc(5): task/[tid]/children). */
static void add_of_thread(struct pids *list, pid_t parent, const char *tid)
{
    char path[80];
    int pid;
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", (int)parent, tid);
    FILE *file = fopen(path, "re");
    while (file && fscanf(file, "%d", &pid) == 1)
        add(list, pid);
    if (file)
        fclose(file);
}

static void add_of_process(struct pids *list, pid_t parent)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/task", (int)parent);
    DIR *tasks = opendir(path);
    for (const struct dirent *entry; tasks && (entry = readdir(tasks));)
        if (entry->d_name[0] != '.')
            add_of_thread(list, parent, entry->d_name);
    if (tasks)
        closedir(tasks);
}

static void list_all(struct pids *list)
{
    list->count = 0;
    add_of_process(list, getpid());
}

void children_init_begins(void)
{
    list_all(&former);
}

void children_init_ended(void)
{
    struct pids all = {0};
    list_all(&all);
    for (size_t i = 0; i < all.count; i++)
        if (!has(&former, all.all[i]))
            add(&library, all.all[i]);
    free(all.all);
    former.count = 0;
}

/* ---- a line ---- */

static bool is_awaited(void)
{
    for (const struct thread *t = VK->threads; t; t = t->next)
        if (t->life == THREAD_LIVE && t->awaits_child)
            return true;
    return false;
}

/* It has been forked, and has executed nothing since. */
static bool runs_own_program(pid_t pid)
{
    char path[32];
    struct stat own, its;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    return stat("/proc/self/exe", &own) == 0 && stat(path, &its) == 0 && own.st_dev == its.st_dev &&
           own.st_ino == its.st_ino;
}

/* A child, or one that it has started, or that one: the first that feeds the rank. 0: none. */
static pid_t find_feeder(pid_t child)
{
    struct pids family = {0};
    pid_t found = 0;
    add(&family, child);
    for (size_t i = 0; !found && i < family.count; i++) {
        add_of_process(&family, family.all[i]);
        found = feeds_program(family.all[i]) ? family.all[i] : 0;
    }
    free(family.all);
    return found;
}

static void tell_feeder(pid_t pid)
{
    shares_note(
        &(struct share_note){.kind = SHARE_CHILD, .fd = -1, .id = pid, .kernel_id = SHARE_CHILD_FEEDS});
}

/* Returns whether it, or one that it has started, feeds the rank. */
static bool tell_agent(pid_t pid, bool is_waited_for)
{
    int flags = (is_waited_for ? SHARE_CHILD_AWAITED : 0) | (has(&former, pid) ? 0 : SHARE_CHILD_NEW) |
                (runs_own_program(pid) ? SHARE_CHILD_OWN_PROGRAM : 0);
    pid_t feeder = flags ? 0 : find_feeder(pid);
    if (feeder)
        tell_feeder(feeder);
    else
        shares_note(&(struct share_note){.kind = SHARE_CHILD, .fd = -1, .id = pid, .kernel_id = flags});
    return feeder;
}

/* As wait(2) would tell it. */
static int status_of(const siginfo_t *info)
{
    switch (info->si_code) {
    case CLD_EXITED:
        return W_EXITCODE(info->si_status, 0);
    case CLD_DUMPED:
        return W_EXITCODE(0, info->si_status) | WCOREFLAG;
    default:
        return W_EXITCODE(0, info->si_status);
    }
}

/* Returns whether it feeds the rank. */
static bool note_one(pid_t pid, bool is_waited_for, struct pids *running)
{
    siginfo_t info = {.si_pid = 0};
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
        return false; /* none of ours, or not there any more */
    bool runs = info.si_pid != pid;
    vk_child_add(&(struct vk_child){.known = (uint32_t)pid,
                                    .group = (uint32_t)vk_id_known(getpgid(pid)),
                                    .status = runs ? SIGKILL : status_of(&info),
                                    .ran = runs});
    if (!runs)
        return false;
    add(running, pid);
    return tell_agent(pid, is_waited_for);
}

/* Those that an earlier restart has taken stay in the list; those of the process are put behind them. */
static void forget_own(void)
{
    uint64_t kept = 0;
    for (uint64_t i = 0; i < VK->child_count; i++)
        if (VK->children[i].known && VK->children[i].is_gone)
            VK->children[kept++] = VK->children[i];
    VK->child_count = kept;
}

/*
 * A child of a child whose parent has ended is nobody's that the kernel would name, but stays in the group.
 * All processes are looked at only if the rank reads what another one writes. Returns whether one feeds it.
 */
static bool note_orphans(void)
{
    bool has_feeder = false;
    DIR *all = feeds_are_read() ? opendir("/proc") : NULL;
    pid_t own = getpid(), group = getpgrp();
    for (const struct dirent *entry; all && (entry = readdir(all));) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        if (pid > 0 && pid != own && getpgid(pid) == group && feeds_program(pid)) {
            tell_feeder(pid);
            has_feeder = true;
        }
    }
    if (all)
        closedir(all);
    return has_feeder;
}

void children_note(void)
{
    struct pids all = {0}, running = {0};
    siginfo_t info;
    bool has_feeder = false;
    forget_own();
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0) {
        bool is_waited_for = is_awaited();
        list_all(&all);
        for (size_t i = 0; i < all.count; i++)
            if (!has(&library, all.all[i]))
                has_feeder |= note_one(all.all[i], is_waited_for, &running);
        free(all.all);
    }
    free(former.all);
    former = running;
    has_feeder |= note_orphans();
    if (!has_feeder && former.count > 0 && feeds_may_come())
        tell_feeder(former.all[0]);
}

/* ---- a restart ---- */

/* An ignored SIGCHLD, or SA_NOCLDWAIT: the kernel would have forgotten them. */
static bool is_ignored(void)
{
    const struct vk_action *action = &VK->actions[SIGCHLD];
    return action->handler == (uint64_t)SIG_IGN || (action->flags & SA_NOCLDWAIT);
}

static void tell_program(const struct vk_child *child)
{
    siginfo_t info = {.si_signo = SIGCHLD, .si_code = CLD_KILLED};
    info.si_pid = (pid_t)child->known;
    info.si_uid = getuid();
    info.si_status = SIGKILL;
    syscall(SYS_rt_sigqueueinfo, getpid(), SIGCHLD, &info);
}

void children_restore(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &set, NULL); /* until a thread of the program takes it */
    for (struct thread *t = VK->threads; t; t = t->next)
        t->awaits_child = 0;
    for (uint64_t i = 0; i < VK->child_count; i++) {
        struct vk_child *child = &VK->children[i];
        bool is_told = !child->is_gone && child->ran;
        child->is_gone = 1;
        if (is_told && is_ignored())
            child->known = 0;
        else if (is_told)
            tell_program(child);
    }
}
