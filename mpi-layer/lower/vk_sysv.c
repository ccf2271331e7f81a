/* vk_sysv.c - see vk_sysv.h. The table of objects is in saved memory; it only grows, and entries are reused.
 */
#include "mpi-layer/lower/vk_sysv.h"

#include <errno.h>
#include <stddef.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

#include "common/wire/shares.h"
#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_huge.h"
#include "mpi-layer/lower/vk_id.h"
#include "mpi-layer/lower/vk_memory.h"
#include "mpi-layer/lower/vk_tid.h"
#include "mpi-layer/lower/vk_undo.h"
#include "mpi-layer/lower/vk_width.h"

#define OPERATIONS_MAX 500 /* SEMOPM of linux/sem.h */

static uint32_t kind_of(long nr)
{
    switch (nr) {
    case SYS_shmget:
    case SYS_shmat:
    case SYS_shmctl:
        return SHARE_SEGMENT;
    case SYS_semget:
    case SYS_semctl:
    case SYS_semop:
    case SYS_semtimedop:
        return SHARE_SEMS;
    case SYS_msgget:
    case SYS_msgctl:
    case SYS_msgsnd:
    case SYS_msgrcv:
        return SHARE_MESSAGES;
    }
    return SHARE_NONE;
}

bool vk_sysv_is_wait(long nr)
{
    return nr == SYS_semop || nr == SYS_semtimedop || nr == SYS_msgsnd || nr == SYS_msgrcv;
}

bool vk_sysv_is_call(long nr)
{
    return kind_of(nr) != SHARE_NONE && !vk_sysv_is_wait(nr);
}

/* ---- the table: entries are complete before they can be found ---- */

static struct vk_sysv *find(uint32_t kind, long id)
{
    uint64_t count = __atomic_load_n(&VK->sysv_count, __ATOMIC_ACQUIRE);
    struct vk_sysv *all = __atomic_load_n(&VK->sysv, __ATOMIC_ACQUIRE);
    for (uint64_t i = 0; i < count; i++)
        if (all[i].kind == kind && all[i].id == (int32_t)id)
            return &all[i];
    return NULL;
}

static struct vk_sysv *find_kernel(uint32_t kind, long kernel_id)
{
    for (uint64_t i = 0; i < VK->sysv_count; i++)
        if (VK->sysv[i].kind == kind && VK->sysv[i].kernel_id == (int32_t)kernel_id)
            return &VK->sysv[i];
    return NULL;
}

/* With all signals blocked: a handler that calls us would wait for itself. */
static uint64_t lock(void)
{
    uint64_t all = ~0ul, mask = 0;
    raw4(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, &all, &mask, 8);
    vk_threads_lock(); /* memory is made with it */
    return mask;
}

static void unlock(uint64_t mask)
{
    vk_threads_unlock();
    raw4(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, &mask, 0, 8);
}

static struct vk_sysv *free_entry(void)
{
    for (uint64_t i = 0; i < VK->sysv_count; i++)
        if (VK->sysv[i].kind == SHARE_NONE)
            return &VK->sysv[i];
    struct vk_sysv *table = vk_reserve(VK->sysv, VK->sysv_count, &VK->sysv_capacity, sizeof *table, 64);
    if (!table)
        return NULL;
    __atomic_store_n(&VK->sysv, table, __ATOMIC_RELEASE);
    struct vk_sysv *entry = &VK->sysv[VK->sysv_count];
    *entry = (struct vk_sysv){.kind = SHARE_NONE};
    __atomic_store_n(&VK->sysv_count, VK->sysv_count + 1, __ATOMIC_RELEASE);
    return entry;
}

static struct vk_sysv *add(uint32_t kind, long id, long kernel_id)
{
    uint64_t mask = lock();
    struct vk_sysv *entry = find(kind, id);
    if (!entry && (entry = free_entry())) {
        *entry = (struct vk_sysv){.id = (int32_t)id, .kernel_id = (int32_t)kernel_id};
        __atomic_store_n(&entry->kind, kind, __ATOMIC_RELEASE);
        VK->may_share = 1;
    }
    unlock(mask);
    return entry;
}

static long stat_of(uint32_t kind, long kernel_id, struct semid_ds *set)
{
    union {
        struct shmid_ds segment;
        struct msqid_ds queue;
    } unused;
    switch (kind) {
    case SHARE_SEGMENT:
        return raw3(SYS_shmctl, kernel_id, IPC_STAT, &unused.segment);
    case SHARE_SEMS:
        return raw4(SYS_semctl, kernel_id, 0, IPC_STAT, set);
    default:
        return raw3(SYS_msgctl, kernel_id, IPC_STAT, &unused.queue);
    }
}

/* The entry of an id that the program uses, wherever it has it from. NULL: there is no such object. */
static struct vk_sysv *look_up(uint32_t kind, long id)
{
    struct semid_ds set;
    struct vk_sysv *entry = find(kind, id);
    if (entry || stat_of(kind, id, &set) < 0)
        return entry;
    return add(kind, id, id);
}

static long kernel_id_of(uint32_t kind, long id)
{
    const struct vk_sysv *entry = look_up(kind, id);
    return entry ? entry->kernel_id : id;
}

long vk_sysv_wait_id(long nr, long id)
{
    return kernel_id_of(kind_of(nr), id);
}

/* As the program knows it. */
static long told_id(uint32_t kind, long kernel_id)
{
    const struct vk_sysv *entry = find_kernel(kind, kernel_id);
    return entry ? entry->id : (add(kind, kernel_id, kernel_id), kernel_id);
}

/* ---- the calls ---- */

static long get_with(long nr, long key, long b, long c, long more_flags)
{
    return nr == SYS_msgget ? raw2(nr, key, b | more_flags) : raw3(nr, key, b, c | more_flags);
}

/* An object that is new since the line has to be removed by a restart. -EEXIST: there is one with the key. */
static long make(long nr, long key, long b, long c)
{
    uint32_t kind = kind_of(nr);
    uint64_t when = 0;
    if ((int)key != IPC_PRIVATE)
        when = vk_undo_sysv_key(kind, (int32_t)key);
    long kernel_id = get_with(nr, key, b, c, IPC_CREAT | IPC_EXCL);
    vk_undo_sysv_made(kind, when, kernel_id);
    return kernel_id;
}

static long get(long nr, long key, long b, long c)
{
    if (nr == SYS_shmget)
        c = vk_huge_segment_flags(c);
    long flags = nr == SYS_msgget ? b : c, kernel_id = -EEXIST;
    bool is_private = (int)key == IPC_PRIVATE;
    if (is_private || ((flags & IPC_CREAT) && raw3(nr, key, 0, 0) == -ENOENT))
        kernel_id = make(nr, key, b, c);
    if (kernel_id == -EEXIST)
        kernel_id = get_with(nr, key, b, c, 0);
    return kernel_id < 0 ? kernel_id : told_id(kind_of(nr), kernel_id);
}

/* Commands that name an object by its place in the kernel's table, and those that name none. */
static bool is_by_index(uint32_t kind, long command)
{
    static const long commands[][2] = {[SHARE_SEGMENT] = {13 /* SHM_STAT */, 15 /* SHM_STAT_ANY */},
                                       [SHARE_SEMS] = {18 /* SEM_STAT */, 20 /* SEM_STAT_ANY */},
                                       [SHARE_MESSAGES] = {11 /* MSG_STAT */, 13 /* MSG_STAT_ANY */}};
    return command == commands[kind][0] || command == commands[kind][1];
}

static bool is_of_all(uint32_t kind, long command)
{
    static const long commands[] = {[SHARE_SEGMENT] = 14 /* SHM_INFO */,
                                    [SHARE_SEMS] = 19 /* SEM_INFO */,
                                    [SHARE_MESSAGES] = 12 /* MSG_INFO */};
    return command == 3 /* IPC_INFO */ || command == commands[kind];
}

/* What the kernel does for all processes: a value that is set is not undone by anybody. */
static void forget_undo(struct vk_sysv *entry, long number)
{
    for (uint32_t i = 0; entry->undo && i < entry->undo_count; i++)
        if (number < 0 || (uint32_t)number == i)
            entry->undo[i] = 0;
}

/* Who has used the object last, and made it, as the application knows them. */
static void rename_users(uint32_t kind, void *about)
{
    struct shmid_ds *segment = about;
    struct msqid_ds *queue = about;
    if (!vk_is_pointer((long)about) || kind == SHARE_SEMS)
        return;
    if (kind == SHARE_SEGMENT) {
        segment->shm_cpid = (pid_t)vk_id_known(segment->shm_cpid);
        segment->shm_lpid = (pid_t)vk_id_known(segment->shm_lpid);
    } else {
        queue->msg_lspid = (pid_t)vk_id_known(queue->msg_lspid);
        queue->msg_lrpid = (pid_t)vk_id_known(queue->msg_lrpid);
    }
}

/* Where shmctl(2) and its kin write; of a semaphore nothing tells a process but GETPID. */
static void rename_told(uint32_t kind, long command, long address)
{
    if (VK->has_new_ids && (command == IPC_STAT || is_by_index(kind, command)))
        rename_users(kind, (void *)address);
}

static long control(long nr, long id, long b, long c, long d)
{
    uint32_t kind = kind_of(nr);
    long command = nr == SYS_semctl ? c : b;
    if (is_of_all(kind, command))
        return raw4(nr, id, b, c, d);
    if (is_by_index(kind, command)) {
        long kernel_id = raw4(nr, id, b, c, d);
        if (kernel_id >= 0)
            rename_told(kind, command, c);
        const struct vk_sysv *known = kernel_id < 0 ? NULL : find_kernel(kind, kernel_id);
        return known ? known->id : kernel_id;
    }
    struct vk_sysv *entry = look_up(kind, id);
    long result = raw4(nr, entry ? entry->kernel_id : id, b, c, d);
    if (result < 0 || !entry)
        return result;
    rename_told(kind, command, c);
    if (kind == SHARE_SEMS && command == GETPID)
        return vk_id_known(result);
    if (command == IPC_RMID && kind != SHARE_SEGMENT) /* a segment lives on while somebody has it */
        __atomic_store_n(&entry->kind, SHARE_NONE, __ATOMIC_RELEASE);
    if (kind == SHARE_SEMS && (command == SETVAL || command == SETALL))
        forget_undo(entry, command == SETVAL ? b : -1);
    return result;
}

long vk_sysv_syscall(long nr, long a, long b, long c, long d)
{
    switch (nr) {
    case SYS_shmget:
    case SYS_semget:
    case SYS_msgget:
        return get(nr, a, b, c);
    case SYS_shmat:
        return vk_shmat(kernel_id_of(SHARE_SEGMENT, a), (uint64_t)b, c);
    default:
        return control(nr, a, b, c, d);
    }
}

/* ---- semaphores' values that the kernel puts back when the process ends (SEM_UNDO) ---- */

bool vk_sysv_has_undo(const struct wait *wait)
{
    const struct sembuf *operations = (const struct sembuf *)wait->call[1];
    bool has_undo = false;
    if (wait->nr != SYS_semop && wait->nr != SYS_semtimedop)
        return false;
    for (int64_t i = 0; i < wait->call[2] && i < OPERATIONS_MAX; i++)
        has_undo |= (operations[i].sem_flg & SEM_UNDO) != 0;
    return has_undo;
}

static bool make_undo(struct vk_sysv *entry)
{
    struct semid_ds set;
    if (!entry->undo && stat_of(SHARE_SEMS, entry->kernel_id, &set) == 0) {
        int32_t *undo = vk_alloc(set.sem_nsems * sizeof *undo);
        for (uint64_t i = 0; undo && i < set.sem_nsems; i++)
            undo[i] = 0;
        entry->undo_count = (uint32_t)set.sem_nsems;
        entry->undo = undo;
    }
    return entry->undo;
}

void vk_sysv_done(const struct wait *wait)
{
    const struct sembuf *operations = (const struct sembuf *)wait->call[1];
    struct vk_sysv *entry = find(SHARE_SEMS, wait->args[0]);
    uint64_t mask = lock();
    for (int64_t i = 0; entry && i < wait->call[2] && make_undo(entry); i++)
        if ((operations[i].sem_flg & SEM_UNDO) && operations[i].sem_num < entry->undo_count)
            entry->undo[operations[i].sem_num] -= operations[i].sem_op;
    unlock(mask);
}

/* Two operations at once that leave the value as it is, and the wish to undo one of them. */
static bool restore_undo(const struct vk_sysv *entry, uint32_t number)
{
    int32_t value = entry->undo[number];
    short size = (short)(value < 0 ? -value : value);
    struct sembuf up = {(unsigned short)number, size, IPC_NOWAIT},
                  down = {(unsigned short)number, (short)-size, IPC_NOWAIT};
    if (value > 0)
        down.sem_flg |= SEM_UNDO;
    else
        up.sem_flg |= SEM_UNDO;
    struct sembuf both[2] = {up, down};
    return value == 0 || raw4(SYS_semtimedop, entry->kernel_id, both, 2, 0) == 0;
}

bool vk_sysv_restore_undo(void)
{
    for (uint64_t i = 0; i < VK->sysv_count; i++) {
        const struct vk_sysv *entry = &VK->sysv[i];
        for (uint32_t number = 0; entry->kind == SHARE_SEMS && entry->undo && number < entry->undo_count;
             number++)
            if (!restore_undo(entry, number))
                return false;
    }
    return true;
}

/* ---- lines and restarts ---- */

bool vk_sysv_set_kernel_id(uint32_t kind, int32_t id, int32_t kernel_id)
{
    struct vk_sysv *entry = find(kind, id);
    if (!entry)
        entry = add(kind, id, kernel_id);
    if (entry)
        entry->kernel_id = kernel_id;
    return entry;
}

void vk_sysv_forget_gone(void)
{
    struct semid_ds set;
    for (uint64_t i = 0; i < VK->sysv_count; i++) {
        struct vk_sysv *entry = &VK->sysv[i];
        long result = entry->kind == SHARE_NONE ? 0 : stat_of(entry->kind, entry->kernel_id, &set);
        if (result == -EINVAL || result == -EIDRM)
            entry->kind = SHARE_NONE;
    }
}
