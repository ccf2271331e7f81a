/* sockets.c - see sockets.h. */
#include "mpi-layer/lower/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "mpi-layer/lower/fd_notes.h"
#include "mpi-layer/lower/fd_record.h"
#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/socket_queue.h"
#include "mpi-layer/lower/vk_fd.h"

#define SETTINGS 8
#define NOTE_MAGIC 0x72696170656b6f73ull /* it is no note of endpoints.h */

struct socket_note {
    uint64_t magic;
    uint64_t inodes[2]; /* of both ends, the smaller one first */
    int32_t type;
    int32_t is_ended;      /* its other end is closed */
    int32_t is_shut;       /* nothing more comes in */
    int32_t is_write_shut; /* SOCK_DGRAM: nothing more may be sent */
    int32_t passes_credentials;
    int32_t has_error; /* its other end was closed with something unread: ECONNRESET, once */
    int32_t is_alone;  /* ... which it has been told already: it has no other end any more (SOCK_DGRAM) */
    int32_t room[2];   /* SO_SNDBUF, SO_RCVBUF */
    int32_t peek_offset;
    int32_t lowest_mark; /* SO_RCVLOWAT */
    int32_t settings[SETTINGS];
    struct linger linger;
    struct timeval timeouts[2];
    uint64_t bytes; /* of messages behind it, a uint32_t with its length before each */
};

static const int room_options[2] = {SO_SNDBUF, SO_RCVBUF};
static const int timeout_options[2] = {SO_SNDTIMEO, SO_RCVTIMEO};
/* What is a number, does not matter to what is in the socket, and is set again if a new socket has another.
 */
static const int settings[SETTINGS] = {SO_PRIORITY,      SO_KEEPALIVE, SO_TIMESTAMP_OLD, SO_TIMESTAMPNS_OLD,
                                       SO_TIMESTAMP_NEW, SO_BROADCAST, SO_PASSSEC,       SO_MARK};

/* ---- noting ---- */

static void get(int fd, int option, void *value, size_t bytes)
{
    socklen_t length = (socklen_t)bytes;
    getsockopt(fd, SOL_SOCKET, option, value, &length);
}

static void set(int fd, int option, const void *value, size_t bytes)
{
    setsockopt(fd, SOL_SOCKET, option, value, (socklen_t)bytes);
}

/*
 * To peek takes the error that waits, except from a stream that holds something. Nobody could give it back:
 * nothing is noted if there are messages behind it.
 */
static size_t note_behind_error(const struct socket_queue *queue, size_t used)
{
    int left = 0;
    if (ioctl(queue->record->fd, FIONREAD, &left) || (left > 0 && queue->type != SOCK_STREAM))
        return 0;
    return left > 0 ? socket_queue_note(queue, used) : used;
}

/* Among all of the network namespace. */
static bool is_listed(uint64_t inode)
{
    char line[512];
    uint64_t found = 0;
    FILE *list = fopen("/proc/net/unix", "re");
    while (list && found != inode && fgets(line, sizeof line, list))
        sscanf(line, "%*s %*s %*s %*s %*s %*s %" SCNu64, &found);
    if (list)
        fclose(list);
    return !list || found == inode;
}

/* Nothing that a socket for datagrams can be asked tells that its other end is closed. */
static bool has_lost_its_other_end(const struct fd_record *record, int type, short revents)
{
    uint64_t other = vk_fd_other_end(record->fd);
    if (type != SOCK_DGRAM)
        return revents & POLLHUP;
    return fd_notes_find(record->id.device, other) < 0 && !is_listed(other);
}

/*
 * A socket for datagrams does not tell its other end that it was shut for writing, nor anybody else: a
 * message that cannot be read from memory is refused for the one reason or the other. With credentials it
 * would get an address.
 */
static bool is_write_shut(int fd)
{
    int passes = 0, none = 0;
    char *unreadable = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (unreadable == MAP_FAILED)
        return false;
    get(fd, SO_PASSCRED, &passes, sizeof passes);
    set(fd, SO_PASSCRED, &none, sizeof none);
    bool is_shut = send(fd, unreadable, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == -1 && errno == EPIPE;
    set(fd, SO_PASSCRED, &passes, sizeof passes);
    munmap(unreadable, 1);
    return is_shut;
}

/* A descriptor of the other end by which messages could be sent anew; -1: there is none. */
static int writer_of(const struct fd_record *record, const struct socket_note *note)
{
    int fd = note->is_ended || note->is_shut || note->type == SOCK_STREAM
                 ? -1
                 : fd_notes_find(record->id.device, vk_fd_other_end(record->fd));
    return fd >= 0 && note->type == SOCK_DGRAM && is_write_shut(fd) ? -1 : fd;
}

static size_t note_queue(const struct fd_record *record, const struct socket_note *note, bool is_any)
{
    struct socket_queue queue = {
        .record = record, .type = note->type, .writer = -1, .reserve = fd_notes_reserve};
    if (note->has_error)
        return note_behind_error(&queue, sizeof *note);
    if (!is_any) {
        socket_queue_is_empty(record);
        return sizeof *note;
    }
    queue.writer = writer_of(record, note);
    return socket_queue_note(&queue, sizeof *note);
}

static bool is_connected(int fd)
{
    struct sockaddr_un address;
    socklen_t length = sizeof address;
    return getpeername(fd, (struct sockaddr *)&address, &length) == 0;
}

static void note_ends(struct socket_note *note, uint64_t one, uint64_t other)
{
    note->inodes[0] = one < other ? one : other;
    note->inodes[1] = one < other ? other : one;
}

void sockets_note(struct fd_record *record)
{
    struct socket_note note = {.magic = NOTE_MAGIC};
    struct pollfd state = {.fd = record->fd, .events = POLLIN | POLLRDHUP};
    vk_fd_find_other_end(record->fd);
    if (!vk_fd_other_end(record->fd) || poll(&state, 1, 0) < 0)
        return;
    note_ends(&note, record->id.inode, vk_fd_other_end(record->fd));
    get(record->fd, SO_TYPE, &note.type, sizeof note.type);
    get(record->fd, SO_PASSCRED, &note.passes_credentials, sizeof note.passes_credentials);
    for (int i = 0; i < 2; i++) {
        get(record->fd, room_options[i], &note.room[i], sizeof note.room[i]);
        get(record->fd, timeout_options[i], &note.timeouts[i], sizeof note.timeouts[i]);
    }
    for (int i = 0; i < SETTINGS; i++)
        get(record->fd, settings[i], &note.settings[i], sizeof note.settings[i]);
    get(record->fd, SO_LINGER, &note.linger, sizeof note.linger);
    get(record->fd, SO_RCVLOWAT, &note.lowest_mark, sizeof note.lowest_mark);
    note.peek_offset = -1;
    get(record->fd, SO_PEEK_OFF, &note.peek_offset, sizeof note.peek_offset);
    note.is_ended = has_lost_its_other_end(record, note.type, state.revents);
    note.is_alone = note.type == SOCK_DGRAM && !is_connected(record->fd);
    note.is_shut = (state.revents & POLLRDHUP) != 0;
    note.has_error = (state.revents & POLLERR) != 0;
    note.is_write_shut = note.type == SOCK_DGRAM && !note.has_error && is_write_shut(record->fd);
    size_t used = note_queue(record, &note, state.revents & POLLIN);
    char *details = fd_notes_reserve(used);
    if (!used || !details)
        return;
    note.bytes = used - sizeof note;
    memcpy(details, &note, sizeof note);
    fd_notes_commit(record, used);
}

/* ---- restoring ---- */

/* Of each end the first descriptor, by pairs. */
static const struct fd_record **sockets;
static size_t socket_count;

static struct socket_note note_of(const struct fd_record *record)
{
    struct socket_note note;
    memcpy(&note, VK->fd_text + record->text, sizeof note);
    return note;
}

static bool is_noted(const struct fd_record *record)
{
    return record->kind == FD_SOCKET && record->same_as < 0 &&
           record->text_bytes >= sizeof(struct socket_note) && note_of(record).magic == NOTE_MAGIC &&
           record->text_bytes == sizeof(struct socket_note) + note_of(record).bytes;
}

static int compare_pairs(const void *left, const void *right)
{
    struct socket_note one = note_of(*(const struct fd_record *const *)left),
                       other = note_of(*(const struct fd_record *const *)right);
    return memcmp(one.inodes, other.inodes, sizeof one.inodes);
}

static void sort_sockets(void)
{
    sockets = calloc(VK->fd_count + 1, sizeof *sockets);
    for (uint64_t i = 0; sockets && i < VK->fd_count; i++)
        if (is_noted(&VK->fds[i]))
            sockets[socket_count++] = &VK->fds[i];
    if (sockets)
        qsort(sockets, socket_count, sizeof *sockets, compare_pairs);
}

static const struct fd_record *other_end(const struct fd_record *record)
{
    if (!sockets)
        sort_sockets();
    const struct fd_record **at =
        sockets ? bsearch(&record, sockets, socket_count, sizeof *sockets, compare_pairs) : NULL;
    if (!at)
        return NULL;
    for (const struct fd_record **near = at > sockets ? at - 1 : at; near < sockets + socket_count; near++) {
        if (near > at + 1)
            break;
        if (*near != record && compare_pairs(near, &record) == 0)
            return *near;
    }
    return NULL;
}

static void set_settings(int fd, const struct socket_note *note)
{
    const struct linger none = {0};
    for (int i = 0; i < SETTINGS; i++) {
        int now = 0;
        get(fd, settings[i], &now, sizeof now);
        if (now != note->settings[i])
            set(fd, settings[i], &note->settings[i], sizeof now);
    }
    if (memcmp(&note->linger, &none, sizeof none))
        set(fd, SO_LINGER, &note->linger, sizeof note->linger);
    if (note->lowest_mark > 1)
        set(fd, SO_RCVLOWAT, &note->lowest_mark, sizeof note->lowest_mark);
    if (note->peek_offset >= 0)
        set(fd, SO_PEEK_OFF, &note->peek_offset, sizeof note->peek_offset);
}

static void set_options(int fd, const struct socket_note *note)
{
    set_settings(fd, note);
    for (int i = 0; i < 2; i++) {
        int half = note->room[i] / 2, now = 0; /* the kernel doubles what is asked for */
        get(fd, room_options[i], &now, sizeof now);
        if (now != note->room[i])
            set(fd, room_options[i], &half, sizeof half);
        set(fd, timeout_options[i], &note->timeouts[i], sizeof note->timeouts[i]);
    }
    if (note->passes_credentials)
        set(fd, SO_PASSCRED, &note->passes_credentials, sizeof note->passes_credentials);
}

/* What an end was, but for its number. `writer` is its other end. */
static bool fill(int fd, int writer, const struct fd_record *record)
{
    struct socket_note note = note_of(record);
    set_options(fd, &note); /* first: messages get their senders' names if they are wanted */
    return socket_queue_fill(writer, VK->fd_text + record->text + sizeof note, note.bytes);
}

static bool place(int fd, const struct fd_record *record)
{
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    if (note_of(record).is_alone)
        connect(fd, &nowhere, sizeof nowhere);
    if (note_of(record).is_shut)
        shutdown(fd, SHUT_RD);
    if (note_of(record).is_write_shut)
        shutdown(fd, SHUT_WR);
    if (fd_record_place(fd, record) < 0)
        return false;
    vk_fd_find_other_end(record->fd);
    fcntl(record->fd, F_SETFL, record->status_flags);
    return true;
}

/* A new pair, out of the way of the numbers that the two want. */
static bool make_pair(int type, int above, int ends[2])
{
    int low[2];
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, low))
        return false;
    for (int i = 0; i < 2; i++) {
        ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, above + 1);
        close(low[i]);
    }
    vk_fd_note_pair(ends);
    return ends[0] >= 0 && ends[1] >= 0;
}

bool sockets_are_whole(const struct fd_record *record)
{
    return is_noted(record) && (note_of(record).is_ended || other_end(record));
}

void sockets_forget(void)
{
    free(sockets);
    sockets = NULL;
    socket_count = 0;
}

bool sockets_restore(const struct fd_record *record)
{
    int ends[2];
    if (!is_noted(record))
        return false;
    struct socket_note note = note_of(record);
    const struct fd_record *other = other_end(record);
    if (other && other < record) /* was made with its other end */
        return vk_fd_other_end(record->fd) != 0;
    if ((!other && !note.is_ended) ||
        !make_pair(note.type, other && other->fd > record->fd ? other->fd : record->fd, ends))
        return false;
    bool is_filled = fill(ends[0], ends[1], record) && (!other || fill(ends[1], ends[0], other));
    if (is_filled && other)
        return place(ends[0], record) && place(ends[1], other);
    if (note.has_error) /* closing what holds something unread makes the error */
        is_filled &= send(ends[0], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
    close(ends[1]);
    if (is_filled)
        return place(ends[0], record);
    close(ends[0]);
    return false;
}
