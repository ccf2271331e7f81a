/* vk_child.c - see vk_child.h. */
#include "mpi-layer/lower/vk_child.h"

#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>

#include "mpi-layer/lower/vk.h"

#define USAGE_BYTES 144 /* struct rusage */
/* The words of siginfo_t that waitid(2) writes. */
enum { INFO_SIGNAL, INFO_ERROR, INFO_CODE, INFO_PID = 4, INFO_USER, INFO_STATUS };

/* Whom a call waits for. */
struct question {
    uint32_t id, group; /* 0: whichever */
    bool is_left;       /* it is to be waited for once more (WNOWAIT) */
};

bool vk_child_is_wait(long nr)
{
    return nr == SYS_wait4 || nr == SYS_waitid;
}

bool vk_child_is_blocking(long nr, long third, long fourth)
{
    return vk_child_is_wait(nr) && !((nr == SYS_wait4 ? third : fourth) & WNOHANG);
}

bool vk_child_add(const struct vk_child *child)
{
    struct vk_child *table =
        vk_reserve(VK->children, VK->child_count, &VK->child_capacity, sizeof *table, 16);
    if (!table)
        return false;
    VK->children = table;
    VK->children[VK->child_count++] = *child;
    return true;
}

void vk_child_forget(long id)
{
    for (uint64_t i = 0; i < VK->child_count; i++)
        if (VK->children[i].is_gone && VK->children[i].known == (uint32_t)id)
            VK->children[i].known = 0;
}

/* Threads may wait at once: the one that takes the id away has it. The copy that it gets is whole. */
static bool take(const struct question *question, struct vk_child *taken)
{
    for (uint64_t i = 0; i < VK->child_count; i++) {
        struct vk_child *child = &VK->children[i];
        uint32_t known = __atomic_load_n(&child->known, __ATOMIC_ACQUIRE);
        if (!known || !child->is_gone || (question->id && known != question->id) ||
            (question->group && child->group != question->group))
            continue;
        *taken = *child;
        taken->known = known;
        if (question->is_left ||
            __atomic_compare_exchange_n(&child->known, &known, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return true;
    }
    return false;
}

/* The children of ours send SIGCHLD, which __WCLONE alone leaves out. */
static bool means_ours(unsigned options)
{
    return !(options & __WCLONE) || (options & __WALL);
}

static uint32_t own_group(void)
{
    return VK->ids[VK_ID_GROUP].known;
}

static void clear(void *memory, uint64_t bytes)
{
    volatile uint8_t *to = memory; /* or the compiler would call memset() */
    for (uint64_t i = 0; i < bytes; i++)
        to[i] = 0;
}

static bool answer_wait4(const long args[6], long *result)
{
    const unsigned allowed = WNOHANG | WUNTRACED | WCONTINUED | __WNOTHREAD | __WCLONE | __WALL;
    long id = args[0];
    unsigned options = (unsigned)args[2];
    struct question question = {.id = id > 0 ? (uint32_t)id : 0,
                                .group = id == 0   ? own_group()
                                         : id < -1 ? (uint32_t)-id
                                                   : 0};
    struct vk_child child;
    if ((options & ~allowed) || !means_ours(options) || id == INT32_MIN || !take(&question, &child))
        return false;
    if (args[1])
        *(int32_t *)args[1] = child.status;
    if (args[3])
        clear((void *)args[3], USAGE_BYTES);
    *result = child.known;
    return true;
}

static void tell(int32_t *info, const struct vk_child *child)
{
    bool has_exited = WIFEXITED(child->status);
    info[INFO_SIGNAL] = SIGCHLD;
    info[INFO_ERROR] = 0;
    info[INFO_CODE] = has_exited ? CLD_EXITED : WCOREDUMP(child->status) ? CLD_DUMPED : CLD_KILLED;
    info[INFO_PID] = (int32_t)child->known;
    info[INFO_USER] = (int32_t)raw0(SYS_getuid);
    info[INFO_STATUS] = has_exited ? WEXITSTATUS(child->status) : WTERMSIG(child->status);
}

static bool answer_waitid(const long args[6], long *result)
{
    const long allowed =
        WNOHANG | WNOWAIT | WEXITED | WSTOPPED | WCONTINUED | __WNOTHREAD | __WCLONE | __WALL;
    long type = args[0], id = args[1];
    unsigned options = (unsigned)args[3];
    struct question question = {.is_left = options & WNOWAIT};
    struct vk_child child;
    if ((options & ~allowed) || !(options & WEXITED) || !means_ours(options) || id < 0)
        return false;
    if (type == P_PID && id > 0)
        question.id = (uint32_t)id;
    else if (type == P_PGID)
        question.group = id > 0 ? (uint32_t)id : own_group();
    else if (type != P_ALL)
        return false;
    if (!take(&question, &child))
        return false;
    if (args[2])
        tell((int32_t *)args[2], &child);
    if (args[4])
        clear((void *)args[4], USAGE_BYTES);
    *result = 0;
    return true;
}

bool vk_child_wait(long nr, const long args[6], long *result)
{
    return nr == SYS_wait4 ? answer_wait4(args, result) : answer_waitid(args, result);
}
