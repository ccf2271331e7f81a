#include "tests/histories/channels/pass.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
};

int pass_send(int socket, int fd)
{
    char byte = 'p';
    union control control = {.room = ""};
    struct iovec piece = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

int pass_receive(int socket)
{
    char byte;
    int fd;
    union control control = {.room = ""};
    struct iovec piece = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.room};
    ssize_t got = recvmsg(socket, &message, 0);
    struct cmsghdr *header = got == 1 ? CMSG_FIRSTHDR(&message) : NULL;
    if (!header || header->cmsg_type != SCM_RIGHTS) {
        errno = got < 0 ? errno : ENOMSG;
        return -1;
    }
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

int pass_to_oneself(int fd)
{
    int pair[2], got = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        return -1;
    if (pass_send(pair[0], fd) == 0)
        got = pass_receive(pair[1]);
    int error = errno;
    close(pair[0]);
    close(pair[1]);
    errno = error;
    return got;
}
