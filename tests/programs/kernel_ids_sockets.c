/* kernel_ids_sockets.c - ids by sockets: credentials, peers, owners of descriptors (kernel_ids.h). */
#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/programs/kernel_ids.h"

union control {
    char bytes[CMSG_SPACE(sizeof(struct ucred))];
    struct cmsghdr header;
};

static long received_from(int fd)
{
    union control control;
    char byte;
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    if (recvmsg(fd, &message, 0) != 1)
        return failed();
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    struct ucred sender;
    if (!header || header->cmsg_type != SCM_CREDENTIALS)
        return -1;
    memcpy(&sender, CMSG_DATA(header), sizeof sender);
    return whose(sender.pid);
}

long credentials(void)
{
    return write(ids.pair[0], "x", 1) == 1 ? received_from(ids.pair[1]) : failed();
}

static struct msghdr with_credentials(struct iovec *data, union control *control, pid_t pid)
{
    struct ucred sender = {pid, getuid(), getgid()};
    struct msghdr message = {.msg_iov = data, .msg_iovlen = 1};
    memset(control, 0, sizeof *control);
    message.msg_control = control;
    message.msg_controllen = sizeof *control;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){CMSG_LEN(sizeof sender), SOL_SOCKET, SCM_CREDENTIALS};
    memcpy(CMSG_DATA(header), &sender, sizeof sender);
    return message;
}

long own_credentials(void)
{
    union control control;
    struct iovec data = {(char[]){'y'}, 1};
    struct msghdr message = with_credentials(&data, &control, ids.self);
    long sent = sendmsg(ids.pair[0], &message, 0);
    struct ucred kept;
    memcpy(&kept, CMSG_DATA(&control.header), sizeof kept);
    if (sent != 1 || kept.pid != ids.self) /* what the program has filled stays */
        return failed();
    return received_from(ids.pair[1]);
}

long many_credentials(void)
{
    union control got[2];
    char bytes[2];
    struct iovec room[2] = {{bytes, 1}, {bytes + 1, 1}};
    struct mmsghdr in[2];
    long answer = 0;
    memset(in, 0, sizeof in);
    for (int i = 0; i < 2; i++) {
        in[i].msg_hdr = (struct msghdr){.msg_iov = &room[i], .msg_iovlen = 1};
        in[i].msg_hdr.msg_control = &got[i];
        in[i].msg_hdr.msg_controllen = sizeof got[i];
    }
    if (write(ids.pair[0], "y", 1) != 1 || write(ids.pair[0], "z", 1) != 1 ||
        recvmmsg(ids.pair[1], in, 2, 0, NULL) != 2)
        return failed();
    for (int i = 0; i < 2; i++) {
        struct ucred sender = {0, 0, 0};
        struct cmsghdr *header = CMSG_FIRSTHDR(&in[i].msg_hdr);
        if (header)
            memcpy(&sender, CMSG_DATA(header), sizeof sender);
        answer = 10 * answer + whose(sender.pid);
    }
    return answer;
}

long peer_of(int fd)
{
    struct ucred other = {0, 0, 0};
    socklen_t bytes = sizeof other;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &bytes) ? failed() : whose(other.pid);
}

long pair_peer(void)
{
    return peer_of(ids.pair[0]) + 10 * peer_of(ids.pair[1]);
}

long connection_peer(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&ids.address, sizeof ids.address))
        return failed();
    int other = accept4(ids.listener, NULL, NULL, SOCK_CLOEXEC);
    long answer = peer_of(fd) + 10 * peer_of(other);
    close(fd);
    close(other);
    return answer;
}

long socket_group(void)
{
    int id = -ids.group, old = 0, fd = ids.pair[0];
    if (ioctl(fd, FIOSETOWN, &id) || ioctl(fd, FIOGETOWN, &old) || fcntl(fd, F_GETOWN) != -ids.group)
        return failed();
    id = ids.self;
    if (ioctl(fd, SIOCSPGRP, &id) || ioctl(fd, SIOCGPGRP, &id))
        return failed();
    return whose(-old) + 10 * whose(id);
}

long group_owner(void)
{
    struct f_owner_ex owner = {F_OWNER_PGRP, ids.group};
    if (fcntl(ids.asynchronous[0], F_SETOWN_EX, &owner))
        return failed();
    owner = (struct f_owner_ex){0, 0};
    if (fcntl(ids.asynchronous[0], F_GETOWN_EX, &owner) || fcntl(ids.asynchronous[0], F_GETOWN) != -ids.group)
        return failed();
    return whose(owner.pid) + 10 * owner.type;
}
