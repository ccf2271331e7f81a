/* held.c - see held.h. */
#include "mpi-layer/lower/held.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/util/array.h"
#include "common/util/escape.h"
#include "common/wire/undo.h"
#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/held_undo.h"
#include "mpi-layer/lower/reopen.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_held.h"

#define AT_ONCE 250 /* descriptors with a message: the kernel takes 253 */

/* What is in the parcel, the journal first. */
static struct {
    int *fds;
    size_t count, room;
} held;

/* What was put into the parcel at the line before: the same is not packed again. */
static struct content {
    struct file_id id;
    uint64_t description;
} * packed;
static size_t packed_count;

static int folder = -1;
static uid_t user; /* as whom files are opened, at this line */

void held_start(int undo_folder)
{
    folder = undo_folder;
}

static uint32_t add(int fd)
{
    if (array_reserve(&held.fds, held.count + 1, &held.room) < 0)
        return 0;
    held.fds[held.count++] = fd;
    return (uint32_t)held.count;
}

/* ---- which they are ---- */

/* The kernel says so of the name that was opened; there are files that are called so. */
static bool looks_deleted(const char *path)
{
    static const char ending[] = " (deleted)";
    size_t length = strlen(path), tail = sizeof ending - 1;
    return path[0] != '/' || (length > tail && !strcmp(path + length - tail, ending));
}

/* It has another name in the same folder, where a restart looks for it (reopen.h). */
static bool is_beside(const struct fd_record *record, const char *path)
{
    if (record->links == 0 || !S_ISREG(record->id.mode))
        return false;
    int found = reopen_find(&record->id, path);
    if (found >= 0)
        close(found);
    return found >= 0;
}

/* Permissions of a folder have been changed since it was opened, or it was opened with other rights. */
static bool may_be_opened(const struct fd_record *record, const char *path)
{
    int access = record->status_flags & O_ACCMODE;
    int wanted = (access == O_WRONLY ? 0 : R_OK) | (access == O_RDONLY ? 0 : W_OK);
    if (user == 0 || (record->status_flags & O_PATH))
        return true;
    if (record->id.uid == user) /* who may give himself all rights */
        return !VK->has_changed_folders || file_id_is_named(&record->id, path);
    return faccessat(AT_FDCWD, path, wanted, AT_EACCESS) == 0;
}

/*
 * A file in memory that may be sealed: what it is sealed against after the line could not be allowed again.
 * So the agent keeps what it holds, and makes another one of it (special.c), if it may read it.
 */
static bool may_be_sealed(const struct fd_record *record)
{
    struct statfs system;
    int seals = record->links == 0 && (record->id.mode & S_IRUSR) ? fcntl(record->fd, F_GET_SEALS) : -1;
    return seals >= 0 && !(seals & F_SEAL_SEAL) && fstatfs(record->fd, &system) == 0 &&
           system.f_type == TMPFS_MAGIC;
}

static bool has_to_be_held(const struct fd_record *record, const char *path)
{
    if (record->kind != FD_FILE || record->same_as >= 0 ||
        (!S_ISREG(record->id.mode) && !S_ISDIR(record->id.mode)) || !strncmp(path, "/proc/", 6))
        return false;
    if (looks_deleted(path) && !file_id_is_named(&record->id, path))
        return !may_be_sealed(record) && !is_beside(record, path);
    return !may_be_opened(record, path);
}

/* ---- the parcel ---- */

static bool send_part(int sock, const int *fds, size_t count)
{
    char byte = 0, room[CMSG_SPACE(AT_ONCE * sizeof *fds)] = "";
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = room,
                             .msg_controllen = CMSG_SPACE(count * sizeof *fds)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof *fds);
    memcpy(CMSG_DATA(head), fds, count * sizeof *fds);
    return sendmsg(sock, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

/* A socket that holds them all, or -1. */
static int pack(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return -1;
    bool is_sent = true;
    for (size_t at = 0; at < held.count && is_sent; at += AT_ONCE)
        is_sent = send_part(pair[0], held.fds + at, held.count - at < AT_ONCE ? held.count - at : AT_ONCE);
    close(pair[0]);
    if (!is_sent)
        close(pair[1]);
    return is_sent ? pair[1] : -1;
}

static struct content content_of(int fd)
{
    struct content content = {.description = vk_fd_description(fd)};
    file_id_at(fd, "", &content.id);
    return content;
}

/* As at the line before? Notes what is packed now. */
static bool is_packed(void)
{
    struct content *now = calloc(held.count + 1, sizeof *now);
    if (!now)
        return false;
    for (size_t i = 0; i < held.count; i++)
        now[i] = content_of(held.fds[i]);
    bool is_same = packed_count == held.count && !memcmp(packed, now, held.count * sizeof *now);
    free(packed);
    packed = now;
    packed_count = held.count;
    return is_same && GATE->control->parcel_fd > 0;
}

static void drop_parcel(void)
{
    vk_fd_close_own(GATE->control->parcel_fd > 0 ? GATE->control->parcel_fd : -1);
    GATE->control->parcel_fd = 0;
}

static bool make_parcel(void)
{
    if (is_packed())
        return true;
    drop_parcel();
    int sock = (int)vk_fd_own(pack());
    if (sock < 0)
        packed_count = 0;
    else
        GATE->control->parcel_fd = sock;
    return sock > 0;
}

/* ---- at a line ---- */

/* The journal: a file of the undo folder that has no name. */
static int make_journal(void)
{
    char name[64];
    if (vk_held_journal() >= 0 || folder < 0)
        return (int)vk_held_journal();
    int fd = openat(folder, ".", O_TMPFILE | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) {
        snprintf(name, sizeof name, UNDO_HELD "%ld", (long)getpid());
        fd = openat(folder, name, O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
        unlinkat(folder, name, 0);
    }
    vk_held_set_journal(vk_fd_own(fd));
    return (int)vk_held_journal();
}

/* What is in the journal so far is of no use to this line, and of none at all once this line is committed. */
static void note_journal(void)
{
    int fd = (int)vk_held_journal();
    off_t bytes = lseek(fd, 0, SEEK_END);
    if (!vk_held_is_pending())
        fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)VK->held_journal_bytes);
    VK->held_journal_bytes = bytes > 0 ? (uint64_t)bytes : 0;
    vk_held_set_line(GATE->control->line);
}

static int open_lost_cwd(void)
{
    char path[sizeof VK->cwd];
    struct file_id id;
    if (file_id_at(AT_FDCWD, ".", &id))
        return -1;
    bool has_path = getcwd(path, sizeof path) && file_id_is_named(&id, path);
    return has_path ? -1 : open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Once for each rank. */
static void say_lost(const char *path)
{
    static bool is_said;
    char text[400], shown[ESCAPE_PATH_BYTES];
    if (is_said)
        return;
    is_said = true;
    snprintf(text, sizeof text,
             "%.200s is open, no path leads to it, and it cannot be kept open elsewhere: a "
             "restart would be refused",
             escape_text(shown, sizeof shown, path));
    GATE->say(text);
}

/* What has no name is kept by the agent then (special.c). */
static void hold_none(struct fd_record *records, size_t count, const char *text)
{
    drop_parcel();
    packed_count = 0;
    VK->held_cwd = 0;
    for (size_t i = 0; i < count; i++) {
        if (records[i].held && (records[i].links > 0 || !S_ISREG(records[i].id.mode)))
            say_lost(text + records[i].path);
        records[i].held = 0;
    }
}

void held_note(struct fd_record *records, size_t count, const char *text)
{
    vk_held_clear();
    VK->held_cwd = 0;
    user = geteuid();
    held.count = 1; /* the journal's */
    if (!held.fds && !(held.count = 0) && !add(-1))
        return;
    for (size_t i = 0; i < count; i++)
        if (has_to_be_held(&records[i], text + records[i].path) && (records[i].held = add(records[i].fd)) &&
            S_ISREG(records[i].id.mode))
            vk_held_add(&records[i].id);
    int cwd = open_lost_cwd();
    if (cwd >= 0)
        VK->held_cwd = add(cwd);
    bool is_any = held.count > 1;
    if (is_any)
        held.fds[0] = make_journal();
    if (!is_any || held.fds[0] < 0 || !make_parcel()) {
        hold_none(records, count, text);
        vk_held_clear();
    } else {
        note_journal();
    }
    if (cwd >= 0)
        close(cwd);
}

/* ---- in a restart ---- */

/* What one message brings; false: there is no more. Nothing is taken out: another restart may come. */
static bool receive_part(int sock)
{
    char byte, room[CMSG_SPACE(AT_ONCE * sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    if (recvmsg(sock, &message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1)
        return false;
    const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    size_t count = head && head->cmsg_type == SCM_RIGHTS ? (head->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
        add(fd);
    }
    return true;
}

/* Out of the way of the numbers that the program wants. */
static void move_away(int from)
{
    for (size_t i = 0; i < held.count; i++) {
        int fd = fcntl(held.fds[i], F_DUPFD_CLOEXEC, from);
        close(held.fds[i]);
        held.fds[i] = fd;
    }
}

int held_open(int parcel, struct belay_error *err)
{
    int start = 0, above = 3;
    held.count = 0;
    if (parcel < 0)
        return 0;
    setsockopt(parcel, SOL_SOCKET, SO_PEEK_OFF, &start, sizeof start);
    while (receive_part(parcel))
        ;
    for (uint64_t i = 0; i < VK->fd_count; i++)
        above = VK->fds[i].fd >= above ? VK->fds[i].fd + 1 : above;
    move_away(above);
    if (held.count == 0 || held_undo(held.fds, held.count, VK->held_journal_bytes, err))
        return held.count ? -1
                          : belay_error_set(err, EPROTO, "open files without a name are not there any more");
    vk_held_set_journal(vk_fd_own(held.fds[0]));
    held.fds[0] = -1;
    for (uint64_t i = 0; i < VK->fd_count; i++)
        if (VK->fds[i].held && S_ISREG(VK->fds[i].id.mode))
            vk_held_add(&VK->fds[i].id);
    return 0;
}

int held_fd(uint32_t number)
{
    return number && number <= held.count ? held.fds[number - 1] : -1;
}

void held_close(void)
{
    for (size_t i = 0; i < held.count; i++)
        if (held.fds[i] >= 0)
            close(held.fds[i]);
    held.count = 0;
}
