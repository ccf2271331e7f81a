/* endpoints.c - see endpoints.h. */
#include "mpi-layer/lower/endpoints.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/util/escape.h"
#include "common/util/file_id.h"
#include "mpi-layer/lower/fd_notes.h"
#include "mpi-layer/lower/fd_record.h"
#include "mpi-layer/lower/reopen.h"

#define NOTE_MAGIC 0x746e696f70646e65ull /* it is no note of sockets.h */
#define BACKLOG 4096                     /* the kernel takes its own limit, net.core.somaxconn */
#define CONNECT_MS 5000                  /* to oneself */

/* What is a number, and is set again if a new socket has another. */
static const struct option {
    int family; /* AF_UNSPEC: all */
    int level, name;
} options[] = {
    {AF_UNSPEC, SOL_SOCKET, SO_REUSEADDR},
    {AF_UNSPEC, SOL_SOCKET, SO_REUSEPORT},
    {AF_UNSPEC, SOL_SOCKET, SO_KEEPALIVE},
    {AF_UNSPEC, SOL_SOCKET, SO_BROADCAST},
    {AF_UNSPEC, SOL_SOCKET, SO_OOBINLINE},
    {AF_UNSPEC, SOL_SOCKET, SO_PASSCRED},
    {AF_UNSPEC, SOL_SOCKET, SO_PRIORITY},
    {AF_UNSPEC, SOL_SOCKET, SO_RCVLOWAT},
    {AF_UNSPEC, SOL_SOCKET, SO_DONTROUTE},
    {AF_UNSPEC, SOL_SOCKET, SO_TIMESTAMP_OLD},
    {AF_INET, IPPROTO_IP, IP_TOS},
    {AF_INET, IPPROTO_IP, IP_TTL},
    {AF_INET, IPPROTO_IP, IP_PKTINFO},
    {AF_INET, IPPROTO_IP, IP_MULTICAST_TTL},
    {AF_INET, IPPROTO_IP, IP_MULTICAST_LOOP},
    {AF_INET6, IPPROTO_IPV6, IPV6_V6ONLY},
    {AF_INET6, IPPROTO_IPV6, IPV6_UNICAST_HOPS},
    {AF_INET6, IPPROTO_IPV6, IPV6_MULTICAST_HOPS},
    {AF_INET6, IPPROTO_IPV6, IPV6_MULTICAST_LOOP},
    {AF_INET6, IPPROTO_IPV6, IPV6_RECVPKTINFO},
    {AF_UNSPEC, IPPROTO_TCP, TCP_NODELAY},
    {AF_UNSPEC, IPPROTO_TCP, TCP_KEEPIDLE},
    {AF_UNSPEC, IPPROTO_TCP, TCP_KEEPINTVL},
    {AF_UNSPEC, IPPROTO_TCP, TCP_KEEPCNT},
    {AF_UNSPEC, IPPROTO_TCP, TCP_USER_TIMEOUT},
    {AF_UNSPEC, IPPROTO_TCP, TCP_DEFER_ACCEPT},
    {AF_NETLINK, SOL_NETLINK, NETLINK_EXT_ACK},
};
#define OPTIONS (sizeof options / sizeof *options)

static const int room_options[2] = {SO_SNDBUF, SO_RCVBUF};
static const int timeout_options[2] = {SO_SNDTIMEO, SO_RCVTIMEO};

struct endpoint_note {
    uint64_t magic;
    int32_t family, type, protocol;
    int32_t is_listening, is_connected;
    int32_t is_ended; /* it was connected once */
    int32_t unread;   /* bytes that have come; unless it is a stream: has anything come, or anybody? */
    int32_t room[2];
    int32_t values[OPTIONS];
    uint32_t own_bytes, other_bytes; /* of the addresses; 0: it has none */
    uint32_t mode;                   /* of its file; 0: it has none (any more) */
    struct linger linger;
    struct timeval timeouts[2];
    struct file_id file; /* AF_UNIX: what its name leads to */
    struct sockaddr_storage own, other;
};

static bool get(int fd, int level, int name, void *value, size_t bytes)
{
    socklen_t length = (socklen_t)bytes;
    return getsockopt(fd, level, name, value, &length) == 0;
}

static bool concerns(const struct option *option, const struct endpoint_note *note)
{
    bool is_tcp = option->level == IPPROTO_TCP;
    bool is_here = option->family == AF_UNSPEC || option->family == note->family;
    return is_here && (!is_tcp || (note->protocol == IPPROTO_TCP && note->family != AF_UNIX));
}

static bool is_stream(const struct endpoint_note *note)
{
    return note->type == SOCK_STREAM || note->type == SOCK_SEQPACKET;
}

/* ---- noting ---- */

static bool is_known_family(int family)
{
    return family == AF_INET || family == AF_INET6 || family == AF_UNIX || family == AF_NETLINK;
}

/* Of AF_UNIX: does it have a name in the file system? It is not ended by a zero if it is as long as can be.
 */
static bool path_of(const struct endpoint_note *note, char path[sizeof(struct sockaddr_un)])
{
    const struct sockaddr_un *own = (const struct sockaddr_un *)&note->own;
    size_t start = offsetof(struct sockaddr_un, sun_path);
    if (note->family != AF_UNIX || note->own_bytes <= start || !own->sun_path[0])
        return false;
    size_t length = note->own_bytes - start;
    length = length < sizeof own->sun_path ? length : sizeof own->sun_path;
    memcpy(path, own->sun_path, length);
    path[length] = 0;
    return true;
}

static void note_file(struct endpoint_note *note)
{
    char path[sizeof(struct sockaddr_un)];
    struct stat st;
    if (path_of(note, path) && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) &&
        file_id_at(AT_FDCWD, path, &note->file) == 0)
        note->mode = st.st_mode & 0777;
}

static void note_names(int fd, struct endpoint_note *note)
{
    socklen_t bytes = sizeof note->own;
    if (getsockname(fd, (struct sockaddr *)&note->own, &bytes) == 0)
        note->own_bytes = bytes < sizeof note->own ? bytes : sizeof note->own;
    bytes = sizeof note->other;
    if (note->family != AF_NETLINK && getpeername(fd, (struct sockaddr *)&note->other, &bytes) == 0) {
        note->other_bytes = bytes < sizeof note->other ? bytes : sizeof note->other;
        note->is_connected = 1;
    }
    note_file(note);
}

static void note_state(int fd, struct endpoint_note *note)
{
    struct pollfd state = {.fd = fd, .events = POLLRDHUP};
    get(fd, SOL_SOCKET, SO_ACCEPTCONN, &note->is_listening, sizeof note->is_listening);
    if (!is_stream(note) || note->is_listening) {
        state.events |= POLLIN; /* also told of one that will get nothing any more */
        note->unread = poll(&state, 1, 0) == 1 && (state.revents & (POLLIN | POLLRDHUP)) == POLLIN;
        return;
    }
    note->is_ended = poll(&state, 1, 0) == 1 && (state.revents & POLLHUP) && (state.revents & POLLRDHUP);
    ioctl(fd, FIONREAD, &note->unread);
}

static void note_options(int fd, struct endpoint_note *note)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (concerns(&options[i], note))
            get(fd, options[i].level, options[i].name, &note->values[i], sizeof note->values[i]);
    for (int i = 0; i < 2; i++) {
        get(fd, SOL_SOCKET, room_options[i], &note->room[i], sizeof note->room[i]);
        get(fd, SOL_SOCKET, timeout_options[i], &note->timeouts[i], sizeof note->timeouts[i]);
    }
    get(fd, SOL_SOCKET, SO_LINGER, &note->linger, sizeof note->linger);
}

/* As when the program begins to listen (trap.c), for what it was given as listening. */
static void let_port_go(int fd, const struct endpoint_note *note)
{
    int on = 1;
    if (note->protocol == IPPROTO_TCP && note->is_listening)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

void endpoints_note(struct fd_record *record)
{
    struct endpoint_note found;
    memset(&found, 0, sizeof found); /* what is between its parts is saved as well */
    found.magic = NOTE_MAGIC;
    char *note = fd_notes_reserve(sizeof found);
    if (!note || !get(record->fd, SOL_SOCKET, SO_DOMAIN, &found.family, sizeof found.family) ||
        !get(record->fd, SOL_SOCKET, SO_TYPE, &found.type, sizeof found.type) ||
        !get(record->fd, SOL_SOCKET, SO_PROTOCOL, &found.protocol, sizeof found.protocol) ||
        !is_known_family(found.family))
        return;
    note_state(record->fd, &found);
    note_names(record->fd, &found);
    let_port_go(record->fd, &found);
    note_options(record->fd, &found);
    memcpy(note, &found, sizeof found);
    fd_notes_commit(record, sizeof found);
}

/* ---- restoring ---- */

static bool is_noted(const struct fd_record *record, struct endpoint_note *note)
{
    if (record->kind != FD_SOCKET || record->same_as >= 0 || record->text_bytes != sizeof *note)
        return false;
    memcpy(note, VK->fd_text + record->text, sizeof *note);
    return note->magic == NOTE_MAGIC;
}

static bool is_connection(const struct endpoint_note *note)
{
    return is_stream(note) && (note->is_connected || note->is_ended);
}

bool endpoints_are_whole(const struct fd_record *record)
{
    struct endpoint_note note;
    return is_noted(record, &note) && (!is_connection(&note) || (note.is_ended && !note.unread));
}

static void set_options(int fd, const struct endpoint_note *note)
{
    const struct linger none = {0};
    for (size_t i = 0; i < OPTIONS; i++) {
        int now = note->values[i];
        if (concerns(&options[i], note) && get(fd, options[i].level, options[i].name, &now, sizeof now) &&
            now != note->values[i])
            setsockopt(fd, options[i].level, options[i].name, &note->values[i], sizeof now);
    }
    for (int i = 0; i < 2; i++) {
        int half = note->room[i] / 2, now = note->room[i]; /* the kernel doubles what is asked for */
        if (get(fd, SOL_SOCKET, room_options[i], &now, sizeof now) && now != note->room[i] &&
            !is_stream(note))
            setsockopt(fd, SOL_SOCKET, room_options[i], &half, sizeof half);
        setsockopt(fd, SOL_SOCKET, timeout_options[i], &note->timeouts[i], sizeof note->timeouts[i]);
    }
    if (memcmp(&note->linger, &none, sizeof none))
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &note->linger, sizeof note->linger);
}

/*
 * The file that the former process has left is in the way. It is removed only if it is that one, or what an
 * earlier restart from the same line has made of it, and nobody listens there.
 */
static bool make_way(const struct endpoint_note *note, const char *path)
{
    struct stat st;
    int probe = socket(AF_UNIX, note->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_used = probe >= 0 && connect(probe, (const struct sockaddr *)&note->own, note->own_bytes) == 0;
    if (probe >= 0)
        close(probe);
    if (lstat(path, &st))
        return errno == ENOENT;
    return !is_used && S_ISSOCK(st.st_mode) && note->mode && reopen_is_same(path, &note->file) &&
           unlink(path) == 0;
}

/* For another restart from the same line, which knows the former file; where there is no list, it goes
 * without. */
static void note_made(const struct endpoint_note *note, const char *path)
{
    struct belay_error err;
    struct file_id now;
    int list = reopen_lock_list(&err);
    if (list >= 0 && file_id_at(AT_FDCWD, path, &now) == 0)
        reopen_replace(&note->file, &now);
    reopen_unlock_list(list);
}

static bool bind_file(int fd, const struct endpoint_note *note, const char *path)
{
    if (!make_way(note, path) || bind(fd, (const struct sockaddr *)&note->own, note->own_bytes))
        return false;
    if (!note->mode)
        return unlink(path) == 0;
    note_made(note, path);
    return chmod(path, note->mode) == 0;
}

/* Former connections of the port, which are still in the kernel for a while, must not forbid it. */
static bool bind_port(int fd, const struct endpoint_note *note)
{
    int on = 1, was = 0;
    get(fd, SOL_SOCKET, SO_REUSEADDR, &was, sizeof was);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool is_bound = bind(fd, (const struct sockaddr *)&note->own, note->own_bytes) == 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &was, sizeof was);
    return is_bound;
}

static bool has_port(const struct endpoint_note *note)
{
    const struct sockaddr_in *own =
        (const struct sockaddr_in *)&note->own; /* IPv6 has it in the same place */
    return note->own_bytes && own->sin_port;
}

static bool bind_again(int fd, const struct endpoint_note *note)
{
    char path[sizeof(struct sockaddr_un)];
    struct sockaddr_nl groups;
    switch (note->family) {
    case AF_UNIX:
        if (path_of(note, path))
            return bind_file(fd, note, path);
        return note->own_bytes <= sizeof(sa_family_t) ||
               bind(fd, (const struct sockaddr *)&note->own, note->own_bytes) == 0;
    case AF_NETLINK: /* programs compare the number; if another process has it now, the kernel chooses one */
        memcpy(&groups, &note->own, sizeof groups);
        if ((!groups.nl_pid && !groups.nl_groups) ||
            bind(fd, (const struct sockaddr *)&groups, sizeof groups) == 0)
            return true;
        groups.nl_pid = 0;
        return bind(fd, (const struct sockaddr *)&groups, sizeof groups) == 0;
    default:
        return !has_port(note) || bind_port(fd, note) ||
               note->is_connected; /* who sends needs no certain one */
    }
}

/* Datagrams have the same receiver again, if he is there; else they are refused, as they would be. */
static bool make_again(int fd, const struct endpoint_note *note)
{
    if (!bind_again(fd, note))
        return false;
    if (note->is_connected)
        connect(fd, (const struct sockaddr *)&note->other, note->other_bytes);
    return !note->is_listening || listen(fd, BACKLOG) == 0;
}

/* ---- connections ---- */

/* Closing what holds something unread tells the other end. */
static int break_pair(const struct endpoint_note *note)
{
    int ends[2];
    if (socketpair(AF_UNIX, note->type | SOCK_CLOEXEC, 0, ends))
        return -1;
    if (!note->is_ended)
        send(ends[0], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    close(ends[1]);
    return ends[0];
}

static socklen_t loopback(int family, struct sockaddr_storage *address)
{
    struct sockaddr_in *four = (struct sockaddr_in *)address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
    memset(address, 0, sizeof *address);
    address->ss_family = (sa_family_t)family;
    if (family == AF_INET)
        four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        six->sin6_addr = in6addr_loopback;
    return family == AF_INET ? sizeof *four : sizeof *six;
}

/* The end of a connection to oneself that is broken off (RST). */
static bool connect_and_break(int fd, int listener)
{
    const struct linger at_once = {1, 0};
    struct sockaddr_storage address;
    struct pollfd arrives = {.fd = listener, .events = POLLIN}, tells = {.fd = fd, .events = POLLIN};
    socklen_t bytes = sizeof address;
    if (getsockname(listener, (struct sockaddr *)&address, &bytes) ||
        connect(fd, (struct sockaddr *)&address, bytes) || poll(&arrives, 1, CONNECT_MS) != 1)
        return false;
    int other = accept(listener, NULL, NULL);
    setsockopt(other, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(other);
    return other >= 0 && poll(&tells, 1, CONNECT_MS) == 1;
}

static int break_connection(const struct endpoint_note *note)
{
    struct sockaddr_storage address;
    socklen_t bytes = loopback(note->family, &address);
    int listener = socket(note->family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(note->family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_broken = listener >= 0 && fd >= 0 && bind(listener, (struct sockaddr *)&address, bytes) == 0 &&
                     listen(listener, 1) == 0 && connect_and_break(fd, listener);
    if (listener >= 0)
        close(listener);
    if (!is_broken && fd >= 0)
        close(fd);
    return is_broken ? fd : -1;
}

static void say_unread(const struct fd_record *record, const struct endpoint_note *note, int messages)
{
    char path[ESCAPE_PATH_BYTES];
    escape_text(path, sizeof path, fd_record_path(record));
    dprintf(messages, "belay: descriptor %d (%s) of the program: %s are lost\n", record->fd, path,
            note->is_listening ? "connections that it had not accepted" : "messages that it had not read");
}

static void say_broken(const struct fd_record *record, int messages)
{
    char path[ESCAPE_PATH_BYTES];
    escape_text(path, sizeof path, fd_record_path(record));
    dprintf(messages,
            "belay: descriptor %d (%s) of the program is not restored: its connection is broken, as if the "
            "other side "
            "had ended it\n",
            record->fd, path);
}

bool endpoints_restore(const struct fd_record *record, int messages)
{
    struct endpoint_note note;
    if (!is_noted(record, &note))
        return false;
    bool is_broken = is_connection(&note);
    int error, fd = !is_broken               ? socket(note.family, note.type | SOCK_CLOEXEC, note.protocol)
                    : note.family == AF_UNIX ? break_pair(&note)
                                             : break_connection(&note);
    if (fd < 0)
        return false;
    set_options(fd, &note); /* some have to be there before it is bound */
    if ((!is_broken && !make_again(fd, &note)) || fd_record_place(fd, record) < 0) {
        close(fd);
        return false;
    }
    fcntl(record->fd, F_SETFL, record->status_flags);
    if (note.is_ended) /* the program has been told */
        get(record->fd, SOL_SOCKET, SO_ERROR, &error, sizeof error);
    if (!endpoints_are_whole(record))
        say_broken(record, messages);
    else if (!is_broken && note.unread)
        say_unread(record, &note, messages);
    return true;
}
