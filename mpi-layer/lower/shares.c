/* shares.c - see shares.h. */
#include "mpi-layer/lower/shares.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/wire/client.h"
#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_sysv.h"

/* Of a restart. */
static struct {
    const struct rank *rank;
    bool has_got; /* anything */
    uint32_t kind;
    uint64_t device, inode;
    int fd; /* of the file that was asked for last, -1: the agent has none, or SHARE_NONE was asked for */
} asked = {.fd = -1};

void shares_note(const struct share_note *note)
{
    struct share_note *table =
        vk_reserve(VK->shares, VK->shares_count, &VK->shares_capacity, sizeof *table, 64);
    if (!table)
        return;
    VK->shares = table;
    VK->shares[VK->shares_count++] = *note;
}

void shares_begin(void)
{
    VK->shares_count = 0;
}

/* Pipes, eventfds and held files are shared with others only if these have them, too: the agent looks. */
static bool is_shared_by_itself(const struct share_note *note)
{
    return note->kind == SHARE_FILE ? note->id != SHARE_IS_HELD : note->kind <= SHARE_MESSAGES;
}

void shares_end(struct control *control)
{
    bool may_share = VK->may_share;
    vk_sysv_forget_gone();
    for (uint64_t i = 0; i < VK->sysv_count; i++)
        if (VK->sysv[i].kind != SHARE_NONE)
            shares_note(&(struct share_note){
                .kind = VK->sysv[i].kind, .id = VK->sysv[i].id, .kernel_id = VK->sysv[i].kernel_id});
    for (uint64_t i = 0; i < VK->shares_count; i++)
        may_share |= is_shared_by_itself(&VK->shares[i]);
    control->shares_address = (uint64_t)VK->shares;
    control->shares_count = (uint32_t)VK->shares_count;
    control->may_share = may_share;
}

int shares_restore_begin(const struct rank *rank, struct belay_error *err)
{
    asked.rank = rank;
    for (uint64_t i = 0; i < VK->sysv_count; i++) /* unless the agent says otherwise */
        VK->sysv[i].kernel_id = VK->sysv[i].id;
    for (size_t i = 0; i < rank->kernel_id_count; i++) {
        const struct rank_kernel_id *id = &rank->kernel_ids[i];
        if (!vk_sysv_set_kernel_id(id->kind, id->id, id->kernel_id))
            return belay_error_set(err, ENOMEM, "no memory for the ids of System V objects");
    }
    return 0;
}

static int ask(uint32_t kind, uint64_t device, uint64_t inode, int *fd, struct belay_error *err)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__ShareGet get = BELAY__WIRE__SHARE_GET__INIT;
    unsigned fd_count = 1;
    *fd = -1;
    get.job = (char *)(uintptr_t)asked.rank->job;
    get.kind = kind;
    get.device = device;
    get.inode = inode;
    request.body_case = BELAY__WIRE__REQUEST__BODY_SHARE_GET;
    request.share_get = &get;
    Belay__Wire__Reply *reply = agent_call(asked.rank->sock, &request, fd, &fd_count, NULL, NULL, err);
    if (!reply)
        return -1;
    bool is_sound = reply->body_case == BELAY__WIRE__REPLY__BODY_SHARE_GOT;
    int kernel_id = is_sound ? reply->share_got->kernel_id : -1;
    belay__wire__reply__free_unpacked(reply, NULL);
    asked.has_got = true;
    if (is_sound)
        return kernel_id;
    belay_error_set(err, EPROTO, "the agent's answer makes no sense");
    return -1;
}

static void forget_file(void)
{
    vk_fd_close_own(asked.fd);
    asked.fd = -1;
    asked.kind = SHARE_NONE;
}

int shares_file(uint32_t kind, uint64_t device, uint64_t inode, struct belay_error *err)
{
    int fd;
    if (!asked.rank) /* it is no restart */
        return belay_error_set(err, ENOENT, "nothing is restored");
    if (asked.kind == kind && asked.device == device && asked.inode == inode)
        return asked.fd >= 0 ? asked.fd : belay_error_set(err, ENOENT, "the ranks do not share it");
    forget_file();
    ask(kind, device, inode, &fd, err);
    asked.kind = kind;
    asked.device = device;
    asked.inode = inode;
    asked.fd = (int)vk_fd_own(fd);
    return asked.fd;
}

int shares_segment(uint64_t inode, struct belay_error *err)
{
    int fd;
    return ask(SHARE_SEGMENT, 0, inode, &fd, err);
}

int shares_restore_end(struct belay_error *err)
{
    forget_file();
    if (!vk_sysv_restore_undo())
        return belay_error_set(err, ERANGE,
                               "the kernel does not take the semaphores' values to undo (SEM_UNDO)");
    return 0;
}

int shares_let_go(struct belay_error *err)
{
    int fd, result = !asked.has_got || ask(SHARE_NONE, 0, 0, &fd, err) == 0 ? 0 : -1;
    asked.rank = NULL;
    return result;
}
