#include "cmd/probes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/huge_memory.h"
#include "common/util/memory_room.h"
#include "common/util/pagemap.h"
#include "common/util/uffd.h"

#define HWCAP2_FSGSBASE_BIT 2ul /* <asm/hwcap2.h> */
#define PAGE_BYTES 4096ul

static void find(struct finding *finding, bool is_good, const char *text)
{
    finding->is_good = is_good;
    snprintf(finding->text, sizeof finding->text, "%s", text);
}

static void find_errno(struct finding *finding, const char *what)
{
    finding->is_good = false;
    snprintf(finding->text, sizeof finding->text, "%s: %s", what, strerror(errno));
}

void probe_machine(struct finding *finding)
{
    struct utsname name;
    uname(&name);
    finding->is_good = !strcmp(name.machine, "x86_64");
    snprintf(finding->text, sizeof finding->text, "%s %s, %s", name.sysname, name.release, name.machine);
}

/* Run a step in a child of its own; true if it returned 0 there. */
static bool succeeds_in_child(int (*step)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(step() ? EXIT_FAILURE : EXIT_SUCCESS);
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int install_filter(void)
{
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = 1, .filter = &allow};
    uint32_t trap = SECCOMP_RET_TRAP;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &trap);
}

void probe_seccomp(struct finding *finding)
{
    bool is_good = succeeds_in_child(install_filter);
    find(finding, is_good, is_good ? "filters work" : "a filter cannot be installed");
}

void probe_fsgsbase(struct finding *finding)
{
    bool is_good = getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE_BIT;
    find(finding, is_good, is_good ? "user space may set the FS base" : "not enabled by the kernel");
}

static int ptrace_scope(void)
{
    int scope = 0;
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    if (file && fscanf(file, "%d", &scope) != 1)
        scope = 0;
    if (file)
        fclose(file);
    return scope;
}

/* A child that only waits, to be read from outside. */
static pid_t fork_sleeper(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent)
        pause();
    _exit(EXIT_SUCCESS);
}

void probe_memory_access(struct finding *finding)
{
    static volatile char source = 42;
    char target = 0;
    struct iovec local = {&target, 1}, remote = {(void *)(uintptr_t)&source, 1};
    pid_t pid = fork_sleeper();
    if (pid < 0 || process_vm_readv(pid, &local, 1, &remote, 1, 0) != 1) {
        find_errno(finding, "process_vm_readv");
    } else {
        int scope = ptrace_scope();
        finding->is_good = target == 42 && (scope <= 1 || geteuid() == 0);
        snprintf(finding->text, sizeof finding->text, "process_vm_readv works, yama ptrace_scope %d", scope);
    }
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

void probe_memfd(struct finding *finding)
{
    int fd = memfd_create("belay-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, PAGE_BYTES))
        find_errno(finding, "memfd_create");
    else
        find(finding, true, "memfds work");
    if (fd >= 0)
        close(fd);
}

void probe_membarrier(struct finding *finding)
{
    long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    bool is_good = commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    find(finding, is_good,
         is_good ? "global expedited barriers work" : "not offered: a fence per MPI call instead");
}

void probe_pidfd(struct finding *finding)
{
    long fd = syscall(SYS_pidfd_open, getpid(), 0);
    if (fd < 0) {
        find_errno(finding, "pidfd_open");
        return;
    }
    close((int)fd);
    find(finding, true, "pidfd_open works");
}

void probe_pagemap_scan(struct finding *finding)
{
    bool is_good = uffd_async_works();
    find(finding, is_good, is_good ? "a written page is found and armed again" : "not offered to this user");
}

void probe_soft_dirty(struct finding *finding)
{
    bool is_good = soft_dirty_works();
    find(finding, is_good, is_good ? "a written page is marked" : "the kernel does not mark written pages");
}

void probe_bookkeeping(struct finding *finding)
{
    bool is_good = uffd_served_works();
    find(finding, is_good,
         is_good ? "write faults are served, those of the kernel as well" : "not offered to this user");
}

void probe_demand(struct finding *finding)
{
    bool is_good = uffd_demand_works();
    find(finding, is_good,
         is_good ? "pages may come when they are needed, by the kernel as well" : "not offered to this user");
}

void probe_free_memory(struct finding *finding)
{
    struct memory_room room;
    memory_room_find("", &room);
    finding->is_good = room.bytes > 0 && room.bytes != UINT64_MAX;
    snprintf(finding->text, sizeof finding->text,
             "%" PRIu64 " MiB available%s%s; images and staging take up to twice the program's memory",
             room.bytes >> 20, room.cgroup[0] ? " by the limit of the cgroup " : "", room.cgroup);
}

void probe_huge_memory(struct finding *finding)
{
    bool is_given = huge_memory_is_given();
    find(finding, is_given, is_given ? "given to shared memory on advice" : "not given to shared memory");
}
