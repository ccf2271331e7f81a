/*
 * vk_transfer.c - calls that transfer data and end early, with less than they were asked for, when a signal
 * comes in the middle: a write to a pipe, a receive with MSG_WAITALL. If the signal was ours they go on with
 * the rest. What the application passed (its vectors, its message headers) is not changed: a vector goes on
 * with the rest of the part that was cut, as a vector of its own, and then with the parts behind, where they
 * are.
 *
 * Only what would have waited is gone on with. A result may also be small because it is all there is: at the
 * end of a file, on a descriptor that does not block, for a datagram, at a message with descriptors.
 */
#include "mpi-layer/lower/vk_transfer.h"

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_sender.h"
#include "mpi-layer/lower/vk_width.h"

#define MOST_BYTES 0x7ffff000 /* MAX_RW_COUNT: of one call */
#define RWF_NOWAIT_FLAG 8
#define TERMINAL_BYTES 64 /* a read waits for no more, whatever VMIN says */
#define MEMORY_DEVICES 1  /* major number; of them: */
enum { DEVICE_ZERO = 5, DEVICE_FULL = 7, DEVICE_RANDOM = 8, DEVICE_URANDOM = 9 };

enum { A, B, C, D, E, F, NONE = -1 }; /* arguments of a system call */

enum form {
    BYTES,    /* address and count */
    FILES,    /* a count; the kernel moves what it is between two files */
    VECTOR,   /* struct iovec and their number */
    MESSAGE,  /* struct msghdr */
    MESSAGES, /* struct mmsghdr and their number */
};

static const struct shape {
    int nr;
    enum form form;
    int data, count;   /* numbers of arguments */
    int offset;        /* of a position that goes on, too */
    int message_flags; /* of MSG_ */
    bool is_input;
} shapes[] = {
    {SYS_write, BYTES, B, C, NONE, NONE, false},       {SYS_pwrite64, BYTES, B, C, D, NONE, false},
    {SYS_sendto, BYTES, B, C, NONE, D, false},         {SYS_read, BYTES, B, C, NONE, NONE, true},
    {SYS_recvfrom, BYTES, B, C, NONE, D, true},        {SYS_getrandom, BYTES, A, B, NONE, NONE, true},
    {SYS_writev, VECTOR, B, C, NONE, NONE, false},     {SYS_pwritev, VECTOR, B, C, D, NONE, false},
    {SYS_pwritev2, VECTOR, B, C, D, NONE, false},      {SYS_readv, VECTOR, B, C, NONE, NONE, true},
    {SYS_preadv, VECTOR, B, C, D, NONE, true},         {SYS_preadv2, VECTOR, B, C, D, NONE, true},
    {SYS_sendmsg, MESSAGE, B, NONE, NONE, C, false},   {SYS_recvmsg, MESSAGE, B, NONE, NONE, C, true},
    {SYS_sendmmsg, MESSAGES, B, C, NONE, D, false},    {SYS_recvmmsg, MESSAGES, B, C, NONE, D, true},
    {SYS_sendfile, FILES, NONE, D, NONE, NONE, false}, {SYS_splice, FILES, NONE, E, NONE, NONE, false},
};

static const struct shape *shape_of(long nr)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (shapes[i].nr == nr)
            return &shapes[i];
    return NULL;
}

bool vk_transfer_is(long nr)
{
    return shape_of(nr) != NULL;
}

static int64_t vector_bytes(const struct iovec *vector, uint64_t parts)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < parts; i++)
        bytes += vector[i].iov_len;
    return (int64_t)bytes;
}

static int64_t message_bytes(const struct msghdr *message)
{
    return vector_bytes(message->msg_iov, message->msg_iovlen);
}

/* As the kernel takes it (vk_width.c). */
static long argument(const struct wait *wait, int place)
{
    long args[6];
    for (int i = 0; i < 6; i++)
        args[i] = wait->args[i];
    vk_narrow(wait->nr, args);
    return args[place];
}

static struct mmsghdr *messages_of(const struct wait *wait)
{
    return (struct mmsghdr *)argument(wait, B);
}

/* Bytes that the call was made for, as many as one call can transfer. */
static int64_t bytes_wanted(const struct wait *wait, const struct shape *shape)
{
    int64_t bytes = 0;
    if (shape->form == VECTOR)
        bytes = vector_bytes((const struct iovec *)argument(wait, shape->data),
                             (uint64_t)argument(wait, shape->count));
    else if (shape->form == MESSAGE)
        bytes = message_bytes((const struct msghdr *)argument(wait, shape->data));
    else
        bytes = argument(wait, shape->count);
    return bytes < 0 || bytes > MOST_BYTES ? MOST_BYTES : bytes;
}

/* ---- would it have waited for more? ---- */

static long socket_option(long fd, int option)
{
    uint32_t value = 0, bytes = sizeof value;
    long result = raw_syscall(SYS_getsockopt, fd, SOL_SOCKET, option, (long)&value, (long)&bytes, 0);
    return result < 0 ? result : (long)value;
}

static bool waits_at_all(const struct wait *wait, const struct shape *shape, long fd)
{
    if (shape->message_flags != NONE && (argument(wait, shape->message_flags) & MSG_DONTWAIT))
        return false;
    if ((wait->nr == SYS_preadv2 || wait->nr == SYS_pwritev2) && (argument(wait, F) & RWF_NOWAIT_FLAG))
        return false;
    return !(raw3(SYS_fcntl, fd, F_GETFL, 0) & O_NONBLOCK);
}

/* An error of the socket is for the next call. */
static bool has_error(long fd)
{
    struct pollfd socket = {.fd = (int)fd};
    int64_t at_once[2] = {0, 0};
    return raw_syscall(SYS_ppoll, (long)&socket, 1, (long)at_once, 0, 8, 0) > 0 && (socket.revents & POLLERR);
}

/* A message of which some has been received: is it whole, whatever its length is? */
static bool is_message_over(const struct wait *wait)
{
    const struct msghdr *message = (const struct msghdr *)argument(wait, B);
    return wait->nr == SYS_recvmsg &&
           (message->msg_controllen || (message->msg_flags & (MSG_EOR | MSG_OOB | MSG_TRUNC | MSG_CTRUNC)));
}

/* A limit below what was asked for can be counted on in one buffer only. */
static int64_t limited(const struct wait *wait, const struct shape *shape, int64_t least)
{
    int64_t wanted = bytes_wanted(wait, shape);
    if (least >= wanted)
        return wanted;
    return shape->form == BYTES ? least : 0;
}

/* How many bytes a receive from a stream waits for. */
static int64_t bytes_awaited(const struct wait *wait, const struct shape *shape, long fd)
{
    if (shape->message_flags != NONE && (argument(wait, shape->message_flags) & MSG_WAITALL))
        return bytes_wanted(wait, shape);
    return limited(wait, shape, socket_option(fd, SO_RCVLOWAT));
}

/* A peek gives the beginning again. */
static bool is_peek(const struct wait *wait, const struct shape *shape)
{
    return shape->is_input && shape->message_flags != NONE &&
           (argument(wait, shape->message_flags) & MSG_PEEK);
}

static int64_t socket_awaits(const struct wait *wait, const struct shape *shape, long fd)
{
    if (socket_option(fd, SO_TYPE) != SOCK_STREAM || has_error(fd))
        return 0;
    if (!shape->is_input)
        return bytes_wanted(wait, shape);
    if (is_peek(wait, shape) && socket_option(fd, SO_DOMAIN) == AF_UNIX) /* takes what there is */
        return 0;
    return is_message_over(wait) ? 0 : bytes_awaited(wait, shape, fd);
}

static bool is_long_device(const struct stat *st)
{
    unsigned which = minor(st->st_rdev);
    return major(st->st_rdev) == MEMORY_DEVICES && (which == DEVICE_ZERO || which == DEVICE_FULL ||
                                                    which == DEVICE_RANDOM || which == DEVICE_URANDOM);
}

static int64_t device_awaits(const struct wait *wait, const struct shape *shape, long fd,
                             const struct stat *st)
{
    struct termios terminal;
    if (is_long_device(st))
        return bytes_wanted(wait, shape);
    if (raw3(SYS_ioctl, fd, TCGETS, &terminal) < 0)
        return 0;
    if (!shape->is_input)
        return bytes_wanted(wait, shape);
    int64_t least = terminal.c_lflag & ICANON ? 0 : terminal.c_cc[VMIN];
    return limited(wait, shape, least < TERMINAL_BYTES ? least : TERMINAL_BYTES);
}

/* What is in a pipe or a socket that is spliced; what comes later the call need not wait for. */
static bool has_more(long fd)
{
    int bytes = 0;
    return raw3(SYS_ioctl, fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

/* How many bytes, of all, the call waits for; 0: it takes what there is. */
static int64_t awaits(const struct wait *wait, const struct shape *shape)
{
    struct stat st;
    long fd = wait->nr == SYS_splice ? argument(wait, C) : argument(wait, A);
    if (wait->nr == SYS_getrandom)
        return bytes_wanted(wait, shape);
    if (raw2(SYS_fstat, fd, &st) < 0 || !waits_at_all(wait, shape, fd))
        return 0;
    if (wait->nr == SYS_splice)
        return !(argument(wait, F) & SPLICE_F_NONBLOCK) && has_more(argument(wait, A))
                   ? bytes_wanted(wait, shape)
                   : 0;
    if (wait->nr == SYS_sendfile) /* a pipe is filled once */
        return S_ISFIFO(st.st_mode) ? 0 : bytes_wanted(wait, shape);
    if (S_ISFIFO(st.st_mode))
        return shape->is_input ? 0 : bytes_wanted(wait, shape);
    if (S_ISSOCK(st.st_mode))
        return socket_awaits(wait, shape, fd);
    return S_ISCHR(st.st_mode) ? device_awaits(wait, shape, fd, &st) : 0;
}

/*
 * A receive of several messages that a signal ends after the first leaves the kernel's own number for that as
 * the socket's error, which is otherwise a real one, for the next call. Reading it clears it.
 */
#define KERNEL_RESTARTSYS 512

static bool was_receiving(const struct wait *wait)
{
    if ((argument(wait, D) & (MSG_DONTWAIT | MSG_WAITFORONE)) || !has_error(argument(wait, A)))
        return false;
    long error = socket_option(argument(wait, A), SO_ERROR);
    return error == KERNEL_RESTARTSYS || error == EINTR;
}

static bool is_sent_in_part(const struct wait *wait, int64_t messages)
{
    const struct mmsghdr *last = &messages_of(wait)[messages - 1];
    return wait->nr == SYS_sendmmsg && (int64_t)last->msg_len < message_bytes(&last->msg_hdr);
}

static bool may_messages_go_on(const struct wait *wait, const struct shape *shape, long result)
{
    int64_t done = wait->done + (wait->message_done ? 0 : result);
    if (!waits_at_all(wait, shape, argument(wait, A)))
        return false;
    if (wait->nr == SYS_recvmmsg)
        return done < argument(wait, C) && was_receiving(wait);
    return (wait->message_done || done < argument(wait, C) || is_sent_in_part(wait, done)) &&
           !has_error(argument(wait, A));
}

/* ---- the next part ---- */

/* The rest of a vector, behind `done` bytes: where it begins, how many parts of it, how many bytes. */
static void rest_of_vector(struct wait *wait, const struct iovec *vector, uint64_t parts, uint64_t done,
                           const struct iovec **rest, uint64_t *rest_parts)
{
    while (parts && done >= vector->iov_len) {
        done -= vector->iov_len;
        vector++;
        parts--;
    }
    if (parts && done) {
        struct iovec *part = (struct iovec *)wait->part;
        *part = (struct iovec){(char *)vector->iov_base + done, vector->iov_len - done};
        vector = part;
        parts = 1;
    }
    *rest = vector;
    *rest_parts = parts;
    wait->part_bytes = vector_bytes(vector, parts);
}

/* A message goes on without what was said with its beginning: the sender's name, descriptors. */
static void rest_of_message(struct wait *wait, const struct msghdr *message, int64_t done)
{
    struct msghdr *rest = (struct msghdr *)wait->message;
    const struct iovec *vector;
    uint64_t parts;
    rest_of_vector(wait, message->msg_iov, message->msg_iovlen, (uint64_t)done, &vector, &parts);
    if (wait->nr != SYS_recvmsg) {
        *rest = *message;
        rest->msg_control = NULL;
        rest->msg_controllen = 0;
    } else { /* as it was passed: vk_transfer_begin() */
        rest->msg_name = NULL;
        rest->msg_namelen = 0;
    }
    rest->msg_iov = (struct iovec *)(uintptr_t)vector;
    rest->msg_iovlen = parts;
    wait->call[B] = (long)rest;
}

static void rest_of_messages(struct wait *wait)
{
    struct mmsghdr *messages = messages_of(wait);
    wait->call_nr = wait->nr;
    if (wait->message_done) {
        wait->call_nr = SYS_sendmsg;
        wait->call[C] = argument(wait, D) | MSG_NOSIGNAL;
        rest_of_message(wait, &messages[wait->done - 1].msg_hdr, wait->message_done);
        return;
    }
    wait->call[B] = (long)(messages + wait->done);
    wait->call[C] = argument(wait, C) - wait->done;
    wait->part_bytes = wait->call[C];
}

/*
 * A connection that breaks in the middle of a call is no SIGPIPE, only one that was broken before. A pipe is
 * another matter.
 */
static void ask_for_no_signal(struct wait *wait, const struct shape *shape)
{
    if (shape->is_input || socket_option(argument(wait, A), SO_TYPE) < 0)
        return;
    if (wait->nr == SYS_sendto || wait->nr == SYS_sendmsg) {
        wait->call[shape->message_flags] |= MSG_NOSIGNAL;
    } else if (wait->nr == SYS_write) {
        wait->call_nr = SYS_sendto;
        wait->call[D] = MSG_NOSIGNAL;
        wait->call[E] = wait->call[F] = 0;
    } else if (shape->form == VECTOR) {
        struct msghdr *rest = (struct msghdr *)wait->message;
        *rest =
            (struct msghdr){.msg_iov = (struct iovec *)wait->call[B], .msg_iovlen = (size_t)wait->call[C]};
        wait->call_nr = SYS_sendmsg;
        wait->call[B] = (long)rest;
        wait->call[C] = MSG_NOSIGNAL;
    }
}

static void set_up_rest(struct wait *wait, const struct shape *shape)
{
    const struct iovec *vector;
    uint64_t parts;
    int64_t done = is_peek(wait, shape) ? 0 : wait->done;
    switch (shape->form) {
    case BYTES:
        wait->call[shape->data] = argument(wait, shape->data) + done;
        wait->call[shape->count] = wait->part_bytes = wait->wanted - done;
        break;
    case FILES:
        wait->call[shape->count] = wait->part_bytes = wait->wanted - wait->done;
        break;
    case VECTOR:
        rest_of_vector(wait, (const struct iovec *)argument(wait, shape->data),
                       (uint64_t)argument(wait, shape->count), (uint64_t)done, &vector, &parts);
        wait->call[shape->data] = (long)vector;
        wait->call[shape->count] = (long)parts;
        break;
    case MESSAGE:
        rest_of_message(wait, (const struct msghdr *)argument(wait, shape->data), done);
        break;
    case MESSAGES:
        rest_of_messages(wait);
        break;
    }
    if (shape->offset != NONE && argument(wait, shape->offset) != -1)
        wait->call[shape->offset] = argument(wait, shape->offset) + wait->done;
    if (wait->nr == SYS_recvfrom) /* the sender's name was told with the first part */
        wait->call[E] = wait->call[F] = 0;
    ask_for_no_signal(wait, shape);
}

/* A part is done: count it. */
static void account_messages(struct wait *wait, long result)
{
    struct mmsghdr *last;
    if (!wait->message_done)
        wait->done += result;
    last = &messages_of(wait)[wait->done - 1];
    if (wait->message_done)
        last->msg_len += (unsigned)result;
    wait->message_done = is_sent_in_part(wait, wait->done) ? (int64_t)last->msg_len : 0;
}

static void account(struct wait *wait, const struct shape *shape, long result)
{
    if (shape->form == MESSAGES)
        account_messages(wait, result);
    else if (is_peek(wait, shape))
        wait->done = result;
    else
        wait->done += result;
}

static bool is_complete(const struct wait *wait, const struct shape *shape)
{
    if (shape->form == MESSAGES)
        return !wait->message_done && wait->done >= argument(wait, C);
    return wait->done >= wait->wanted;
}

/* ---- as vk_transfer.h says ---- */

void vk_transfer_begin(struct wait *wait)
{
    wait->done = wait->message_done = wait->wanted = 0;
    wait->part_bytes = INT64_MAX; /* one part, so far */
    if (wait->nr == SYS_recvmsg && (uint64_t)argument(wait, B) >= MAP_PAGE_BYTES)
        *(struct msghdr *)wait->message = *(const struct msghdr *)argument(wait, B);
}

static bool waits_for_more(struct wait *wait, const struct shape *shape, long result, bool is_cut)
{
    if (!is_cut)
        return result == wait->part_bytes && !is_peek(wait, shape);
    if (shape->form == MESSAGES)
        return may_messages_go_on(wait, shape, result);
    wait->wanted = awaits(wait, shape);
    return true;
}

bool vk_transfer_goes_on(struct wait *wait, long result, bool is_cut)
{
    const struct shape *shape = shape_of(wait->nr);
    if (!shape || result <= 0)
        return false;
    bool is_more = waits_for_more(wait, shape, result, is_cut);
    account(wait, shape, result);
    if (!is_more || is_complete(wait, shape))
        return false;
    set_up_rest(wait, shape);
    return true;
}

bool vk_transfer_may_bring_fds(long nr, long message)
{
    return nr == SYS_recvmmsg || (nr == SYS_recvmsg && (uint64_t)message >= MAP_PAGE_BYTES &&
                                  ((const struct msghdr *)message)->msg_controllen);
}

/* Of several messages each may have some. */
void vk_transfer_note_passed(long nr, long message)
{
    if (nr == SYS_sendmmsg || (nr == SYS_sendmsg && (uint64_t)message >= MAP_PAGE_BYTES &&
                               ((const struct msghdr *)message)->msg_controllen))
        vk_fd_note_shared();
}

/* Descriptors that have come with a message are the application's; a process has the id that it knows. */
static void take_control(const struct msghdr *message)
{
    const uint64_t header = CMSG_ALIGN(sizeof(struct cmsghdr));
    for (uint64_t at = 0; at + header <= message->msg_controllen;) {
        struct cmsghdr *control = (struct cmsghdr *)((char *)message->msg_control + at);
        if (control->cmsg_len < header || control->cmsg_len > message->msg_controllen - at)
            return;
        const int *fds = (const int *)((const char *)control + header);
        uint64_t count = (control->cmsg_len - header) / sizeof *fds;
        bool are_fds = control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS;
        for (uint64_t i = 0; are_fds && i < count; i++)
            vk_fd_receive(fds[i]);
        vk_sender_received(control);
        at += CMSG_ALIGN(control->cmsg_len);
    }
}

void vk_transfer_end(const struct wait *wait, long result)
{
    const struct msghdr *rest = (const struct msghdr *)wait->message;
    struct msghdr *message = (struct msghdr *)argument(wait, B);
    if (result < 0 || !vk_is_own_process())
        return;
    if (wait->nr == SYS_recvmsg && wait->call[B] != argument(wait, B)) {
        message->msg_controllen = rest->msg_controllen;
        message->msg_flags |= rest->msg_flags;
    }
    if (wait->nr == SYS_recvmsg)
        take_control(message);
    for (long i = 0; wait->nr == SYS_recvmmsg && i < result; i++)
        take_control(&messages_of(wait)[i].msg_hdr);
}
