/* vk_id.c - see vk_id.h. */
#include "mpi-layer/lower/vk_id.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_own_signal.h"
#include "mpi-layer/lower/vk_tid.h"
#include "mpi-layer/lower/vk_width.h"

#define ERRORS 4095 /* results from -ERRORS to -1 are errors */
#define IOPRIO_WHO_PROCESS 1
#define IOPRIO_WHO_PGRP 2
#define INFO_CODE 2 /* the words of siginfo_t */
#define INFO_PID 4
#define OWNER_THREAD 0 /* F_OWNER_TID */

struct owner { /* struct f_owner_ex */
    int type, id;
};

/* ---- the list ---- */

static const struct vk_id *find(long id, size_t member)
{
    const struct vk_id *found = NULL;
    for (int i = 0; i < VK_IDS; i++)
        if (*(const uint32_t *)(const void *)((const char *)&VK->ids[i] + member) == (uint32_t)id)
            return &VK->ids[i];
    for (uint64_t i = 0; i < VK->peer_count; i++)
        if (*(const uint32_t *)(const void *)((const char *)&VK->peers[i] + member) == (uint32_t)id) {
            if (found)
                return NULL;
            found = &VK->peers[i];
        }
    return found;
}

long vk_id_kernel(long known)
{
    const struct vk_id *id = VK->has_new_ids && known > 0 ? find(known, offsetof(struct vk_id, known)) : NULL;
    return id ? (long)id->kernel : known;
}

long vk_id_known(long kernel)
{
    const struct vk_id *id =
        VK->has_new_ids && kernel > 0 ? find(kernel, offsetof(struct vk_id, kernel)) : NULL;
    return id ? (long)id->known : kernel;
}

long vk_id_kernel_signed(long known)
{
    return known < -1 ? -vk_id_kernel(-known) : vk_id_kernel(known);
}

long vk_id_known_signed(long kernel)
{
    return kernel < -ERRORS ? -vk_id_known(-kernel) : vk_id_known(kernel);
}

long vk_kernel_tid(long vtid)
{
    const struct thread *thread = vtid > 0 ? vk_thread_by_vtid((uint32_t)vtid) : NULL;
    return thread ? (long)thread->tid : vk_id_kernel(vtid);
}

long vk_known_tid(long tid)
{
    for (const struct thread *t = VK->threads; t; t = t->next)
        if (t->life == THREAD_LIVE && (long)t->tid == tid)
            return t->vtid;
    return vk_id_known(tid);
}

long vk_tgkill_tid(long pid, long tid)
{
    return pid == (long)VK->pid ? vk_kernel_tid(tid) : vk_id_kernel(tid);
}

long vk_tgkill(long pid, long tid, long signal)
{
    pid = vk_id_kernel(pid);
    bool is_own = pid == (long)VK->pid;
    tid = vk_tgkill_tid(pid, tid);
    return signal == CONTROL_SIGNAL && is_own ? vk_own_signal_send(pid, tid)
                                              : raw3(SYS_tgkill, pid, tid, signal);
}

static void read_now(uint32_t now[VK_IDS])
{
    now[VK_ID_SELF] = (uint32_t)raw0(SYS_getpid);
    now[VK_ID_PARENT] = (uint32_t)raw0(SYS_getppid);
    now[VK_ID_GROUP] = (uint32_t)raw1(SYS_getpgid, 0);
    now[VK_ID_SESSION] = (uint32_t)raw1(SYS_getsid, 0);
}

void vk_ids_note(void)
{
    uint32_t now[VK_IDS], known[VK_IDS];
    read_now(now);
    for (int i = 0; i < VK_IDS; i++) /* all of them by the former list */
        known[i] = (uint32_t)vk_id_known(now[i]);
    for (int i = 0; i < VK_IDS; i++)
        VK->ids[i] = (struct vk_id){known[i], now[i]};
}

/* A group or session that the process leads has its own id, whether the launcher has made it or we will. */
void vk_ids_renew(void)
{
    uint32_t now[VK_IDS];
    read_now(now);
    VK->peer_count = 0;
    VK->has_new_ids = 0;
    for (int i = 0; i < VK_IDS; i++) {
        struct vk_id *id = &VK->ids[i];
        id->kernel = id->known == VK->ids[VK_ID_SELF].known ? now[VK_ID_SELF] : now[i];
        VK->has_new_ids |= id->kernel != id->known;
    }
}

bool vk_ids_set_peers(const struct vk_id *peers, uint64_t count)
{
    if (count > VK->peer_capacity) {
        struct vk_id *larger = vk_alloc(count * sizeof *peers);
        if (!larger)
            return false;
        VK->peers = larger;
        VK->peer_capacity = count;
    }
    for (uint64_t i = 0; i < count; i++) {
        VK->peers[i] = peers[i];
        VK->has_new_ids |= peers[i].known != peers[i].kernel;
    }
    VK->peer_count = count;
    return true;
}

/* ---- calls ---- */

/* Whom getpriority(2) and ioprio_get(2) mean: a thread, a group, or a user. */
static long kernel_who(long nr, long which, long who)
{
    bool is_io = nr == SYS_ioprio_get || nr == SYS_ioprio_set;
    if (which == (is_io ? IOPRIO_WHO_PROCESS : PRIO_PROCESS))
        return vk_kernel_tid(who);
    return which == (is_io ? IOPRIO_WHO_PGRP : PRIO_PGRP) ? vk_id_kernel(who) : who;
}

/* Who is at the other end of a socket (SO_PEERCRED: struct ucred begins with the process id). */
static long get_socket_option(long fd, long level, long option, long value, long bytes)
{
    long result = raw_syscall(SYS_getsockopt, fd, level, option, value, bytes, 0);
    if (result == 0 && level == SOL_SOCKET && option == SO_PEERCRED &&
        *(const uint32_t *)bytes >= sizeof(int))
        *(int *)value = (int)vk_id_known(*(const int *)value);
    return result;
}

long vk_id_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
    switch (nr) {
    case SYS_getpid:
    case SYS_getppid:
    case SYS_getpgrp:
    case SYS_setsid:
        return vk_id_known(raw0(nr));
    case SYS_getpgid:
    case SYS_getsid:
        return vk_id_known(raw1(nr, vk_kernel_tid(a)));
    case SYS_setpgid:
        return raw2(nr, vk_id_kernel(a), vk_id_kernel(b));
    case SYS_kcmp:
        return raw_syscall(nr, vk_kernel_tid(a), vk_kernel_tid(b), c, d, e, 0);
    case SYS_getpriority:
    case SYS_setpriority:
    case SYS_ioprio_get:
    case SYS_ioprio_set:
        return raw3(nr, a, kernel_who(nr, a, b), c);
    case SYS_rt_sigqueueinfo:
        return raw3(nr, vk_id_kernel(a), b, c);
    case SYS_getsockopt:
        return get_socket_option(a, b, c, d, e);
    default: /* the first argument names a process or one of its threads */
        return raw_syscall(nr, vk_kernel_tid(a), b, c, d, e, f);
    }
}

bool vk_id_is_control(long command)
{
    switch (command) {
    case F_SETOWN:
    case F_GETOWN:
    case F_SETOWN_EX:
    case F_GETOWN_EX:
    case F_GETLK:
    case F_OFD_GETLK:
        return true;
    }
    return false;
}

static long set_owner(long fd, const struct owner *asked)
{
    struct owner owner = *asked;
    owner.id = (int)(owner.type == OWNER_THREAD ? vk_kernel_tid(owner.id) : vk_id_kernel(owner.id));
    return raw3(SYS_fcntl, fd, F_SETOWN_EX, &owner);
}

static long get_owner(long fd, struct owner *owner)
{
    long result = raw3(SYS_fcntl, fd, F_GETOWN_EX, owner);
    if (result == 0)
        owner->id = (int)(owner->type == OWNER_THREAD ? vk_known_tid(owner->id) : vk_id_known(owner->id));
    return result;
}

static long get_lock(long fd, long command, struct flock *lock)
{
    long result = raw3(SYS_fcntl, fd, command, lock);
    if (result == 0 && lock->l_type != F_UNLCK)
        lock->l_pid = (int)vk_id_known(lock->l_pid);
    return result;
}

long vk_id_control(long fd, long command, long argument)
{
    bool has_structure = command != F_SETOWN && command != F_GETOWN;
    if (has_structure && !vk_is_pointer(argument))
        return raw3(SYS_fcntl, fd, command, argument);
    switch (command) {
    case F_SETOWN:
        return raw3(SYS_fcntl, fd, command, vk_id_kernel_signed((int)argument));
    case F_GETOWN:
        return vk_id_known_signed(raw3(SYS_fcntl, fd, command, 0));
    case F_SETOWN_EX:
        return set_owner(fd, (const struct owner *)argument);
    case F_GETOWN_EX:
        return get_owner(fd, (struct owner *)argument);
    default:
        return get_lock(fd, command, (struct flock *)argument);
    }
}

const unsigned vk_id_ioctls[] = {FIOSETOWN, SIOCSPGRP, FIOGETOWN, SIOCGPGRP,
                                 TIOCSPGRP, TIOCGPGRP, TIOCGSID,  0};

bool vk_id_is_ioctl(long nr, long request)
{
    for (int i = 0; nr == SYS_ioctl && vk_id_ioctls[i]; i++)
        if (vk_id_ioctls[i] == (unsigned)request)
            return true;
    return false;
}

long vk_id_ioctl(long fd, long request, long argument)
{
    int *id = (int *)argument, kernel;
    if (!vk_is_pointer(argument))
        return raw3(SYS_ioctl, fd, request, argument);
    if (request == FIOSETOWN || request == SIOCSPGRP || request == TIOCSPGRP) {
        kernel = (int)vk_id_kernel_signed(*id);
        return raw3(SYS_ioctl, fd, request, &kernel);
    }
    long result = raw3(SYS_ioctl, fd, request, argument);
    if (result == 0)
        *id = *id < 0 ? -(int)vk_id_known(-*id) : (int)vk_id_known(*id);
    return result;
}

/* NULL: no process has sent it. */
static int *sender_of(void *info)
{
    int *words = info;
    switch (words[INFO_CODE]) {
    case 0:  /* SI_USER */
    case -1: /* SI_QUEUE */
    case -3: /* SI_MESGQ */
    case -6: /* SI_TKILL */
        return &words[INFO_PID];
    }
    return NULL;
}

void vk_id_rename_sender(void *info)
{
    int *sender = sender_of(info);
    if (sender)
        *sender = (int)vk_id_known(*sender);
}

void vk_id_rename_sender_back(void *info)
{
    int *sender = sender_of(info);
    if (sender)
        *sender = (int)vk_id_kernel(*sender);
}

/* ---- other programs ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Is this number one of the text's? */
static bool names(const char *text, uint32_t number)
{
    while (*text) {
        uint64_t read = 0;
        const char *start = text;
        for (; is_digit(*text); text++)
            read = read > UINT32_MAX ? read : 10 * read + (uint64_t)(*text - '0');
        if (text != start && read == number)
            return true;
        text += text == start;
    }
    return false;
}

void vk_id_look_for_own(char *const *arguments)
{
    static uint32_t is_told;
    const struct vk_id *self = &VK->ids[VK_ID_SELF];
    if (self->known == self->kernel || !vk_is_pointer((long)arguments))
        return;
    for (; vk_is_pointer((long)*arguments); arguments++)
        if (names(*arguments, self->known) && !__atomic_exchange_n(&is_told, 1, __ATOMIC_RELAXED))
            vk_say_number(
                "the program hands another one its process id, which is no longer valid for others: "
                "since the restart they know it as ",
                self->kernel);
}
