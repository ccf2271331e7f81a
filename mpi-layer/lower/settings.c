/* settings.c - see settings.h. */
#include "mpi-layer/lower/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/rawsys.h"
#include "mpi-layer/lower/vk_settings.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_GET_MDWE 66
#endif
#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#define PR_GET_MEMORY_MERGE 68
#endif
#define ARCH_GET_XCOMP_PERM 0x1022
#define ARCH_REQ_XCOMP_PERM 0x1023
#define BARRIERS_REGISTERED (1 << 9) /* MEMBARRIER_CMD_GET_REGISTRATIONS, Linux 6.3 */
#define ASK 0xffffffffu

/* One number that the kernel keeps; -1: it does not know such a thing. */
struct setting {
    int64_t (*get)(void);
    void (*set)(int64_t value, int64_t before);
};

/* ---- prctl ---- */

#define PRCTL_VALUE(name, GET, SET)                                                                          \
    static int64_t get_##name(void)                                                                          \
    {                                                                                                        \
        return prctl(GET, 0, 0, 0, 0);                                                                       \
    }                                                                                                        \
    static void set_##name(int64_t value, int64_t before)                                                    \
    {                                                                                                        \
        (void)before;                                                                                        \
        prctl(SET, (unsigned long)value, 0, 0, 0);                                                           \
    }

PRCTL_VALUE(dumpable, PR_GET_DUMPABLE, PR_SET_DUMPABLE)
PRCTL_VALUE(huge_pages, PR_GET_THP_DISABLE, PR_SET_THP_DISABLE)
PRCTL_VALUE(merging, PR_GET_MEMORY_MERGE, PR_SET_MEMORY_MERGE)
PRCTL_VALUE(no_new_code, PR_GET_MDWE, PR_SET_MDWE)

static int64_t get_subreaper(void)
{
    int value = -1;
    prctl(PR_GET_CHILD_SUBREAPER, &value);
    return value;
}

static void set_subreaper(int64_t value, int64_t before)
{
    (void)before;
    prctl(PR_SET_CHILD_SUBREAPER, (unsigned long)value);
}

/* ---- others ---- */

static int64_t get_personality(void)
{
    return personality(ASK);
}

static void set_personality(int64_t value, int64_t before)
{
    (void)before;
    personality((unsigned long)value);
}

/* Registers that a process has to ask for (AMX): a saved signal frame may hold them. */
static int64_t get_registers(void)
{
    uint64_t bits = 0;
    return raw2(SYS_arch_prctl, ARCH_GET_XCOMP_PERM, &bits) < 0 ? -1 : (int64_t)bits;
}

static void set_registers(int64_t value, int64_t before)
{
    for (int bit = 0; bit < 63; bit++)
        if ((value & ~before) >> bit & 1)
            raw2(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, bit);
}

/* membarrier(2): the commands that have registered the process for others, as bits. */
static int64_t get_barriers(void)
{
    static const int commands[][2] = {
        {MEMBARRIER_CMD_PRIVATE_EXPEDITED, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED},
        {MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE},
        {MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ},
    };
    int64_t bits = raw3(SYS_membarrier, BARRIERS_REGISTERED, 0, 0);
    if (bits >= 0)
        return bits;
    bits = 0;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (raw3(SYS_membarrier, commands[i][0], 0, 0) == 0)
            bits |= commands[i][1];
    return bits;
}

static void set_barriers(int64_t value, int64_t before)
{
    for (int bit = 0; bit < 31; bit++)
        if ((value & ~before) >> bit & 1)
            raw3(SYS_membarrier, 1 << bit, 0, 0);
}

/* Does it lead its process group (1), its session (2)? */
static int64_t get_leadership(void)
{
    return (getpgrp() == getpid() ? 1 : 0) | (getsid(0) == getpid() ? 2 : 0);
}

static void set_leadership(int64_t value, int64_t before)
{
    if (value & ~before & 2)
        setsid();
    else if (value & ~before & 1)
        setpgid(0, 0);
}

static int64_t get_number(const char *path, int base)
{
    char text[32];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[bytes > 0 ? bytes : 0] = 0;
    return bytes > 0 ? strtoll(text, NULL, base) : -1;
}

static void set_number(const char *path, const char *format, int64_t value)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    dprintf(fd, format, (long)value);
    close(fd);
}

static int64_t get_core_filter(void)
{
    return get_number("/proc/self/coredump_filter", 16);
}

static void set_core_filter(int64_t value, int64_t before)
{
    (void)before;
    set_number("/proc/self/coredump_filter", "0x%lx", value);
}

static int64_t get_oom_score(void)
{
    return get_number("/proc/self/oom_score_adj", 10);
}

static void set_oom_score(int64_t value, int64_t before)
{
    (void)before;
    set_number("/proc/self/oom_score_adj", "%ld", value);
}

/*
 * Set in this order: what may forbid the others comes last, and with another user the kernel makes the
 * process unreadable. Their places are in saved memory.
 */
static const struct setting table[] = {
    {get_personality, set_personality}, {get_subreaper, set_subreaper}, {get_huge_pages, set_huge_pages},
    {get_merging, set_merging},         {get_registers, set_registers}, {get_leadership, set_leadership},
    {get_core_filter, set_core_filter}, {get_oom_score, set_oom_score}, {get_no_new_code, set_no_new_code},
    {get_barriers, set_barriers},       {get_dumpable, set_dumpable},
};
#define COUNT (sizeof table / sizeof table[0])
#define FIRST_AS_USER (COUNT - 1)
_Static_assert(COUNT <= VK_SETTINGS, "gate.h");

static void read_all(int64_t values[])
{
    for (size_t i = 0; i < COUNT; i++)
        values[i] = table[i].get();
}

/* ---- the user ---- */

static struct __user_cap_header_struct capabilities_of_self(void)
{
    return (struct __user_cap_header_struct){.version = _LINUX_CAPABILITY_VERSION_3};
}

static void read_user(struct vk_user *user)
{
    struct __user_cap_header_struct header = capabilities_of_self();
    struct __user_cap_data_struct data[2] = {{0, 0, 0}, {0, 0, 0}};
    int groups = getgroups(0, NULL);
    memset(user, 0, sizeof *user);
    getresuid(&user->ids[0], &user->ids[1], &user->ids[2]);
    getresgid(&user->ids[3], &user->ids[4], &user->ids[5]);
    user->ids[6] = (uint32_t)setfsuid((uid_t)-1);
    user->ids[7] = (uint32_t)setfsgid((gid_t)-1);
    if (groups >= 0 && groups <= VK_GROUPS_MAX)
        user->group_count = (uint32_t)getgroups(VK_GROUPS_MAX, user->groups);
    syscall(SYS_capget, &header, data);
    memcpy(user->capabilities, data, sizeof user->capabilities);
    user->keeps_capabilities = (uint32_t)prctl(PR_GET_KEEPCAPS);
}

/*
 * As a whole: the rights to do one step may go with another. Only of this thread, which the program's will be
 * made from: libc would wait until the library's threads have followed, and those block its signal.
 */
static int become(const struct vk_user *user)
{
    struct __user_cap_header_struct header = capabilities_of_self();
    const uint32_t *ids = user->ids;
    prctl(PR_SET_KEEPCAPS, 1);
    int result = syscall(SYS_setgroups, user->group_count, user->groups) ||
                 syscall(SYS_setresgid, ids[3], ids[4], ids[5]) ||
                 syscall(SYS_setresuid, ids[0], ids[1], ids[2]) ||
                 syscall(SYS_capset, &header, user->capabilities);
    syscall(SYS_setfsgid, ids[7]);
    syscall(SYS_setfsuid, ids[6]);
    prctl(PR_SET_KEEPCAPS, user->keeps_capabilities);
    return result;
}

static int restore_user(struct belay_error *err)
{
    struct vk_user now;
    read_user(&now);
    bool is_changed = memcmp(&VK->user, &VK->user_at_start, sizeof VK->user) != 0;
    if (!is_changed || memcmp(&now, &VK->user, sizeof now) == 0 || become(&VK->user) == 0)
        return 0;
    return belay_error_errno(err,
                             "the program had become user %u, group %u, which this launch may not become",
                             VK->user.ids[1], VK->user.ids[4]);
}

/* ---- all of them ---- */

void settings_begin(void)
{
    read_all(VK->settings_at_start);
    read_user(&VK->user_at_start);
    vk_settings_read(&VK->thread_settings_at_start);
}

void settings_note(void)
{
    read_all(VK->settings);
    read_user(&VK->user);
}

int settings_restore(struct belay_error *err)
{
    vk_settings_begin();
    for (size_t i = 0; i < COUNT; i++) {
        if (i == FIRST_AS_USER && restore_user(err))
            return -1;
        if (VK->settings[i] != VK->settings_at_start[i])
            table[i].set(VK->settings[i], VK->settings_at_start[i]);
    }
    return 0;
}
