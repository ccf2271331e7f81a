/*
 * vk_undo.c - see vk_undo.h: the lock, lines, and files that are changed by a descriptor. All state is the
 * lower half's: a restart begins anew.
 */
#include "mpi-layer/lower/vk_undo.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_undo_note.h"

#define WAIT_ALL 0x40000000 /* __WALL */

static struct {
    uint32_t lock;
    bool is_active;
    uint32_t rank;
    struct vk_undo_place place;
} undo;

/* ---- the lock ---- */

uint64_t vk_undo_lock(void)
{
    uint64_t all = ~0ul, mask = 0;
    raw4(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, &all, &mask, 8);
    while (__atomic_exchange_n(&undo.lock, 1, __ATOMIC_ACQUIRE))
        raw0(SYS_sched_yield);
    return mask;
}

void vk_undo_unlock(uint64_t mask)
{
    __atomic_store_n(&undo.lock, 0, __ATOMIC_RELEASE);
    raw4(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, &mask, 0, 8);
}

bool vk_undo_is_active(void)
{
    return undo.is_active && vk_is_rank() && vk_is_own_process();
}

void vk_undo_start(long folder, uint32_t rank, uint64_t limit_bytes, uint64_t total_bytes)
{
    if (folder < 0)
        return;
    undo.rank = rank;
    vk_undo_room_start(limit_bytes, total_bytes);
    undo.is_active = true;
    vk_undo_log_start(folder, rank);
}

void vk_undo_begin_line(uint64_t line)
{
    uint64_t mask = vk_undo_lock();
    vk_undo_files_line();
    vk_undo_log_line(line);
    vk_undo_room_line();
    vk_undo_unlock(mask);
}

/* Where an open descriptor will write next. */
static uint64_t position(long fd, uint64_t offset, const struct vk_undo_facts *facts)
{
    bool appends = offset == VK_UNDO_HERE && (raw3(SYS_fcntl, fd, F_GETFL, 0) & O_APPEND);
    return appends ? facts->bytes : (uint64_t)raw3(SYS_lseek, fd, 0, SEEK_CUR);
}

static uint64_t end_of(uint64_t offset, uint64_t bytes)
{
    return offset + bytes < offset ? UINT64_MAX : offset + bytes;
}

/* ---- how it is read ---- */

/* A range that is to be kept, of the file that a descriptor of the application stands for. */
struct keeping {
    struct vk_undo_range *range;
    long fd;
    uint64_t from, to;
};

/* Without a look for its holes, which would move the descriptor's position. */
static bool can_be_lent(long fd, const struct vk_undo_facts *facts)
{
    long flags = raw3(SYS_fcntl, fd, F_GETFL, 0);
    bool can_read = flags >= 0 && (flags & O_ACCMODE) != O_WRONLY && !(flags & (O_DIRECT | O_PATH));
    return can_read && facts->disk_bytes >= facts->bytes;
}

static void run_and_leave(void (*what)(const void *with), const void *with)
    __attribute__((noreturn, noinline));

static void run_and_leave(void (*what)(const void *with), const void *with)
{
    raw2(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
    what(with);
    raw1(SYS_exit, 0);
    __builtin_unreachable();
}

/*
 * Like vfork(2): this thread goes on when the child is gone, which has run on the same memory. Its end makes
 * no signal, so that the application's waits do not find it. The child's descriptors are gone with it: the
 * folder in which it asks for room is opened before.
 */
void vk_undo_aside(void (*what)(const void *with), const void *with)
{
    vk_undo_log_folder();
    long child = raw_syscall(SYS_clone, CLONE_VM | CLONE_VFORK, 0, 0, 0, 0, 0);
    if (child == 0)
        run_and_leave(what, with);
    if (child < 0)
        what(with);
    else
        raw4(SYS_wait4, child, 0, WAIT_ALL, 0);
}

/* By the program's descriptor. When the program has read the file last stays as it was. */
static void keep_lent(const struct keeping *keeping)
{
    struct undo_attributes before = vk_undo_attributes_of(keeping->fd, vk_undo_itself), now;
    vk_undo_keep_range(keeping->range, keeping->from, keeping->to);
    now = vk_undo_attributes_of(keeping->fd, vk_undo_itself);
    const struct timespec times[2] = {{before.read_s, before.read_ns}, {0, UTIME_OMIT}};
    if (now.read_s != before.read_s || now.read_ns != before.read_ns)
        raw4(SYS_utimensat, keeping->fd, 0, times, 0);
}

/* By the descriptor, whatever is at its path; it may not be open to read. */
static void keep_opened(const void *with)
{
    const struct keeping *keeping = with;
    char link[40];
    vk_text_put_number(vk_text_put(link, "/proc/self/fd/"), (uint64_t)keeping->fd);
    long fd = raw4(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOATIME, 0);
    if (fd == -EPERM) /* somebody else's file */
        fd = raw4(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    keeping->range->reader = fd;
    vk_undo_keep_range(keeping->range, keeping->from, keeping->to);
    if (fd >= 0)
        raw1(SYS_close, fd);
}

/* ---- by an open descriptor ---- */

static void note_length(const struct vk_undo_range *range, long fd)
{
    struct undo_attributes attributes = vk_undo_attributes_of(fd, vk_undo_itself);
    attributes.read_ns = UTIME_OMIT;
    vk_undo_keep_note(range, &(struct vk_undo_note){.kind = UNDO_LENGTH,
                                                    .offset = range->file->length,
                                                    .data = {&attributes},
                                                    .data_bytes = {sizeof attributes}});
}

static void fd_locked(long fd, const struct vk_undo_facts *facts, uint64_t offset, uint64_t bytes)
{
    struct vk_undo_range range = {.file = vk_undo_find(&facts->id), .place = &undo.place, .reader = -1};
    struct keeping keeping = {&range, fd, offset, end_of(offset, bytes)};
    bool is_first = !range.file;
    if (is_first)
        range.file = vk_undo_add(facts);
    if (!range.file) {
        vk_undo_give_up("a file", &facts->id, VK_UNDO_NOT_KEPT);
        return;
    }
    if (vk_undo_place_of_fd(fd, &undo.place) < 0) {
        vk_text_put(undo.place.path, "a file");
        vk_undo_give_up_file(&range, VK_UNDO_NO_PATH);
        return;
    }
    if (is_first)
        note_length(&range, fd);
    if (offset >= range.file->length || vk_undo_is_kept(range.file, keeping.from, keeping.to))
        return;
    range.is_lent = can_be_lent(fd, facts);
    range.reader = range.is_lent ? fd : -1;
    if (range.is_lent)
        keep_lent(&keeping);
    else
        vk_undo_aside(keep_opened, &keeping);
}

/*
 * The same for a descriptor by which the file was noted. One that appends needs no look at where it will: up
 * to its length at the line, nothing of the file is overwritten.
 */
static bool is_noted_of(long fd, const struct vk_undo_file *file, uint64_t offset, uint64_t bytes)
{
    if (!file)
        return false;
    if (file->is_settled || file->length == 0)
        return true;
    if (offset != VK_UNDO_HERE && offset != VK_UNDO_NEXT)
        return vk_undo_is_kept(file, offset, end_of(offset, bytes));
    long here = raw3(SYS_lseek, fd, 0, SEEK_CUR);
    return here >= 0 && vk_undo_is_kept(file, (uint64_t)here, end_of((uint64_t)here, bytes));
}

void vk_undo_fd(long fd, uint64_t offset, uint64_t bytes)
{
    struct vk_undo_facts facts;
    if (is_noted_of(fd, vk_fd_noted(fd), offset, bytes))
        return;
    if (!undo.is_active || !vk_is_rank() || vk_undo_look(fd, vk_undo_itself, &facts) < 0 ||
        !S_ISREG(facts.id.mode) || vk_undo_is_lost(&facts))
        return;
    const struct vk_undo_file *file = vk_undo_find(&facts.id);
    if (!file && vk_undo_is_of_the_kernel(fd))
        return;
    if (offset == VK_UNDO_HERE || offset == VK_UNDO_NEXT)
        offset = file && file->is_settled ? 0 : position(fd, offset, &facts);
    bool is_needless = vk_undo_is_kept(file, offset, end_of(offset, bytes));
    if (is_needless)
        vk_fd_set_noted(fd, file);
    if (is_needless || !vk_is_own_process())
        return;
    uint64_t mask = vk_undo_lock();
    fd_locked(fd, &facts, offset, bytes);
    vk_fd_set_noted(fd, vk_undo_find(&facts.id));
    vk_undo_unlock(mask);
}

void vk_undo_path(const char *path, uint64_t offset, uint64_t bytes)
{
    struct vk_undo_facts facts;
    if (!vk_undo_is_active())
        return;
    long fd = vk_fd_open(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (vk_undo_look(fd, vk_undo_itself, &facts) == 0 && S_ISREG(facts.id.mode))
        vk_undo_fd(fd, offset, bytes);
    vk_fd_close(fd);
}
