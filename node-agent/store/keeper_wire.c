/* keeper_wire.c - the keeper's datagrams, as both sides need them. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/wire/message.h"
#include "node-agent/store/keeper.h"

int keeper_send(int sock, const char *text, int fd)
{
    return message_sendmsg(sock, text, strlen(text), &fd, fd >= 0 ? 1 : 0) < 0 ? -1 : 0;
}

ssize_t keeper_receive(int sock, char *text, int *fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(MESSAGE_MAX_FDS * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = text, .iov_len = KEEPER_MESSAGE_BYTES - 1};
    struct msghdr msg = {.msg_iov = &part,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof control.bytes};
    int fds[MESSAGE_MAX_FDS];
    ssize_t got;

    *fd = -1;
    do {
        got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return -1;
    unsigned count = message_take_fds(&msg, fds);
    for (unsigned i = 1; i < count; i++)
        close(fds[i]);
    if (count)
        *fd = fds[0];
    else if (msg.msg_flags & MSG_CTRUNC)
        *fd = KEEPER_FD_LOST;
    text[got] = '\0';
    return got;
}
