/* terminals.c - see terminals.h. */
#include "mpi-layer/lower/terminals.h"

#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/util/array.h"
#include "mpi-layer/lower/fd_notes.h"
#include "mpi-layer/lower/fd_record.h"
#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_undo_note.h"

#define MASTER_DEVICE makedev(5, 2) /* /dev/ptmx: admin-guide/devices.txt of the kernel */
#define SLAVE_MAJOR 136
#define QUEUE_BYTES (128u << 10) /* more than the kernel holds for one direction */
#define KERNEL_LARGEFILE 0100000 /* which open(2) adds by itself; O_LARGEFILE is 0 here */
#define TRIES_MAX 256            /* numbers of others that are passed over */

/* Two ways: what the program has written to the master and the slave has not read yet, and back. */
enum way { TO_SLAVE = 0, TO_MASTER, WAYS };

/* Of a master. The bytes of both ways are behind it. */
struct terminal_note {
    uint32_t number; /* of /dev/pts */
    int32_t is_locked, is_packet;
    int32_t was_open; /* another process has the slave open, or had it, and the program has not */
    uint32_t bytes[WAYS];
    struct winsize size;
    struct termios2 mode;
};

/* ---- which they are ---- */

static bool is_master(const struct fd_record *record)
{
    return S_ISCHR(record->id.mode) && record->rdev == MASTER_DEVICE;
}

static int number_of(int master)
{
    int number;
    return ioctl(master, TIOCGPTN, &number) ? -1 : number;
}

static uint64_t device_of_slave(unsigned number)
{
    return makedev(SLAVE_MAJOR, number);
}

/* ---- what is in the queues ---- */

/* Both sides, for the time in which bytes are moved. */
struct sides {
    int fds[WAYS]; /* where what goes this way comes out: the slave, the master */
    int flags[WAYS];
    struct termios2 mode;
};

/* Nothing is done to the bytes; whether they come by lines stays as it is, or the kernel makes one line of
 * all. */
static struct termios2 mode_as_it_is(const struct termios2 *mode, bool by_lines)
{
    struct termios2 plain = *mode;
    plain.c_iflag = plain.c_oflag = 0;
    plain.c_lflag = by_lines ? mode->c_lflag & ICANON : 0;
    memset(plain.c_cc, 0, sizeof plain.c_cc); /* _POSIX_VDISABLE; VMIN and VTIME: nobody waits */
    plain.c_cc[VEOL] = by_lines ? mode->c_cc[VEOL] : 0;
    plain.c_cc[VEOL2] = by_lines ? mode->c_cc[VEOL2] : 0;
    return plain;
}

static bool open_sides(struct sides *sides, int slave, int master)
{
    sides->fds[TO_SLAVE] = slave;
    sides->fds[TO_MASTER] = master;
    for (int i = 0; i < WAYS; i++) {
        sides->flags[i] = fcntl(sides->fds[i], F_GETFL);
        fcntl(sides->fds[i], F_SETFL, sides->flags[i] | O_NONBLOCK);
    }
    return ioctl(master, TCGETS2, &sides->mode) == 0;
}

static void close_sides(const struct sides *sides)
{
    ioctl(sides->fds[TO_MASTER], TCSETS2, &sides->mode);
    for (int i = 0; i < WAYS; i++)
        fcntl(sides->fds[i], F_SETFL, sides->flags[i]);
}

/* poll(2) also waits until the kernel has carried what was written to the other side. */
static bool holds_something(int fd)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};
    return poll(&look, 1, 0) == 1 && (look.revents & POLLIN);
}

static uint32_t take_out(int fd, char *to)
{
    uint32_t used = 0;
    ssize_t got;
    while (used < QUEUE_BYTES && holds_something(fd) && (got = read(fd, to + used, QUEUE_BYTES - used)) > 0)
        used += (uint32_t)got;
    return used;
}

static bool put_in(int fd, const char *from, uint32_t bytes)
{
    ssize_t put = 0;
    for (uint32_t at = 0; at < bytes; at += (uint32_t)put)
        if ((put = write(fd, from + at, bytes - at)) <= 0)
            return false;
    return true;
}

/* The bytes of both ways, one behind the other, which are put in at the ends that they come from. */
static bool fill(const struct sides *sides, const char *from, const uint32_t bytes[WAYS])
{
    int slave = sides->fds[TO_SLAVE], master = sides->fds[TO_MASTER];
    struct termios2 plain = mode_as_it_is(&sides->mode, true);
    ioctl(master, TCSETS2, &plain);
    bool is_done =
        put_in(master, from, bytes[TO_SLAVE]) && put_in(slave, from + bytes[TO_SLAVE], bytes[TO_MASTER]);
    holds_something(slave); /* it has arrived */
    holds_something(master);
    return is_done;
}

/* Of a line that is not complete nobody is told while the slave is read by lines. */
static void note_queues(struct terminal_note *note, char *to, int master, int slave)
{
    struct sides sides;
    if (!open_sides(&sides, slave, master))
        return;
    struct termios2 plain = mode_as_it_is(&sides.mode, false);
    bool by_lines = sides.mode.c_lflag & ICANON;
    if (by_lines)
        ioctl(master, TCSETS2, &plain);
    note->bytes[TO_SLAVE] = take_out(slave, to);
    note->bytes[TO_MASTER] = take_out(master, to + note->bytes[TO_SLAVE]);
    if (note->bytes[TO_SLAVE] || note->bytes[TO_MASTER])
        fill(&sides, to, note->bytes);
    close_sides(&sides);
}

/* ---- noting ---- */

/* A terminal that is another session's is in use by others; the program's own has this process in it. */
static bool is_used_by_others(int master)
{
    pid_t session;
    return ioctl(master, TIOCGSID, &session) == 0 && session != getsid(0);
}

static bool has_hung_up(int master)
{
    struct pollfd look = {.fd = master};
    return poll(&look, 1, 0) == 1 && (look.revents & POLLHUP);
}

static void note_master(struct fd_record *record, unsigned number)
{
    struct terminal_note note = {.number = number};
    int slave = fd_notes_next_device(-1, device_of_slave(number)), opened = -1;
    bool is_foreign = is_used_by_others(record->fd);
    ioctl(record->fd, TIOCGPTLCK, &note.is_locked);
    ioctl(record->fd, TIOCGPKT, &note.is_packet);
    ioctl(record->fd, TIOCGWINSZ, &note.size);
    note.was_open = slave < 0 && (is_foreign || has_hung_up(record->fd));
    if (note.was_open && !is_foreign && !note.is_locked) /* closed again, it is as it was */
        slave = opened = ioctl(record->fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    char *details = fd_notes_reserve(sizeof note + WAYS * QUEUE_BYTES);
    bool is_noted = details && ioctl(record->fd, TCGETS2, &note.mode) == 0;
    if (is_noted && slave >= 0 && !is_foreign && !note.is_packet)
        note_queues(&note, details + sizeof note, record->fd, slave);
    if (opened >= 0)
        close(opened);
    if (!is_noted)
        return;
    memcpy(details, &note, sizeof note);
    fd_notes_commit(record, sizeof note + note.bytes[TO_SLAVE] + note.bytes[TO_MASTER]);
}

/* The master of a slave, among all that were noted; -1: it is not in the program. */
static int master_of(const struct fd_record *record)
{
    int number, master = -1;
    while ((master = fd_notes_next_device(master, MASTER_DEVICE)) >= 0)
        if ((number = number_of(master)) >= 0 && device_of_slave((unsigned)number) == record->rdev)
            return master;
    return -1;
}

void terminals_note(struct fd_record *record)
{
    int number = is_master(record) ? number_of(record->fd) : -1;
    bool is_slave = major(record->rdev) == SLAVE_MAJOR && (master_of(record) >= 0 || has_hung_up(record->fd));
    if (number < 0 && !is_slave)
        return;
    record->kind = FD_TERMINAL;
    if (number >= 0)
        note_master(record, (unsigned)number);
}

/* ---- restoring ---- */

/* The slaves that are kept open until all have been restored, by the records of their masters. */
static struct keeper {
    const struct fd_record *master;
    int slave; /* -1: none */
} * keepers;
static size_t keeper_count, keeper_room;

static struct terminal_note note_of(const struct fd_record *record)
{
    struct terminal_note note;
    memcpy(&note, VK->fd_text + record->text, sizeof note);
    return note;
}

static bool is_noted(const struct fd_record *record)
{
    if (record->kind != FD_TERMINAL || !is_master(record) || record->same_as >= 0 ||
        record->text_bytes < sizeof(struct terminal_note))
        return false;
    struct terminal_note note = note_of(record);
    return record->text_bytes == sizeof note + note.bytes[TO_SLAVE] + note.bytes[TO_MASTER];
}

/* The kernel gives the lowest number that is free: those below the wanted one are taken for the time. */
static int open_numbered(const char *path, int flags, unsigned number)
{
    int others[TRIES_MAX], count = 0, fd;
    while ((fd = open(path, flags | O_NOCTTY | O_CLOEXEC)) >= 0 && (unsigned)number_of(fd) < number &&
           count < TRIES_MAX)
        others[count++] = fd;
    for (int i = 0; i < count; i++)
        close(others[i]);
    return fd >= 0 ? fd : open(path, flags | O_NOCTTY | O_CLOEXEC);
}

/* Ranks that do so at a time would take each other's numbers. */
static int open_master(const struct fd_record *record, unsigned number)
{
    int folder = openat((int)vk_undo_log_job(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0)
        flock(folder, LOCK_EX);
    int fd = open_numbered(fd_record_path(record), record->status_flags & (O_ACCMODE | O_NONBLOCK), number);
    if (folder >= 0)
        close(folder);
    return fd;
}

static bool has_slaves(unsigned number)
{
    for (uint64_t i = 0; i < VK->fd_count; i++)
        if (VK->fds[i].kind == FD_TERMINAL && VK->fds[i].rdev == device_of_slave(number))
            return true;
    return false;
}

/* Returns a slave (-1: none is needed), or -2 if what was in the queues is not all there. */
static int set_up(int master, const struct terminal_note *note, const char *bytes)
{
    struct sides sides;
    int unlocked = 0, slave = -1;
    uint32_t count = note->bytes[TO_SLAVE] + note->bytes[TO_MASTER];
    ioctl(master, TIOCSPTLCK, &unlocked);
    if (note->was_open || count || has_slaves(note->number))
        slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    ioctl(master, TCSETS2, &note->mode);
    ioctl(master, TIOCSWINSZ, &note->size);
    if (!count)
        return slave;
    bool is_filled = slave >= 0 && open_sides(&sides, slave, master) && fill(&sides, bytes, note->bytes);
    if (slave >= 0)
        close_sides(&sides);
    if (!is_filled && slave >= 0)
        close(slave);
    return is_filled ? slave : -2;
}

/* Behind all that the program wants. */
static int end_of_numbers(void)
{
    int end = 0;
    for (uint64_t i = 0; i < VK->fd_count; i++)
        end = VK->fds[i].fd >= end ? VK->fds[i].fd + 1 : end;
    return end;
}

static bool restore_master(const struct fd_record *record, int messages)
{
    if (!is_noted(record) || array_reserve(&keepers, keeper_count + 1, &keeper_room) < 0)
        return false;
    struct terminal_note note = note_of(record);
    int master = open_master(record, note.number);
    if (master < 0)
        return false;
    if ((unsigned)number_of(master) != note.number)
        dprintf(messages,
                "belay: the terminal /dev/pts/%u of the program is /dev/pts/%d now: its number is taken\n",
                note.number, number_of(master));
    int slave = set_up(master, &note, VK->fd_text + record->text + sizeof note);
    if (slave == -2)
        dprintf(messages, "belay: what nobody had read yet of the terminal /dev/pts/%u is lost\n",
                note.number);
    int above = slave < 0 ? -1 : fcntl(slave, F_DUPFD_CLOEXEC, end_of_numbers());
    if (slave >= 0)
        close(slave);
    keepers[keeper_count++] = (struct keeper){record, above};
    return fd_record_place(master, record) >= 0;
}

/* The record of a slave's master; NULL: that was not noted. */
static const struct fd_record *find_master(const struct fd_record *record)
{
    for (uint64_t i = 0; i < VK->fd_count; i++)
        if (is_noted(&VK->fds[i]) && device_of_slave(note_of(&VK->fds[i]).number) == record->rdev)
            return &VK->fds[i];
    return NULL;
}

/* Without O_CLOEXEC, which would be seen among its flags. */
static bool open_slave(int master, const struct fd_record *record)
{
    int flags = record->status_flags & (O_ACCMODE | O_NONBLOCK | KERNEL_LARGEFILE);
    int slave = ioctl(master, TIOCGPTPEER, flags | O_NOCTTY);
    return slave >= 0 && fd_record_place(slave, record) >= 0;
}

/* Its master is closed for good: any other terminal of which that is so is as good. */
static bool restore_hung_up(const struct fd_record *record)
{
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), unlocked = 0;
    bool is_open = master >= 0 && ioctl(master, TIOCSPTLCK, &unlocked) == 0 && open_slave(master, record);
    if (master >= 0 && master != record->fd) /* else the slave is in its place by now */
        close(master);
    return is_open;
}

bool terminals_restore(const struct fd_record *record, int messages)
{
    const struct fd_record *master = is_master(record) ? record : find_master(record);
    if (!master)
        return restore_hung_up(record);
    if (!vk_fd_is_made(master->fd) && !restore_master(master, messages))
        return false;
    return master == record || open_slave(master->fd, record);
}

void terminals_restore_end(void)
{
    for (size_t i = 0; i < keeper_count; i++) {
        const struct fd_record *master = keepers[i].master;
        struct terminal_note note = note_of(master);
        ioctl(master->fd, TIOCSPTLCK, &note.is_locked);
        ioctl(master->fd, TIOCPKT, &note.is_packet);
        if (keepers[i].slave >= 0)
            close(keepers[i].slave);
    }
    free(keepers);
    keepers = NULL;
    keeper_count = keeper_room = 0;
}
