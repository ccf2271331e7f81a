/* vk_undo.c - see vk_undo.h. All of its state is the lower half's: a restart begins with empty tables. */
#include "mpi-layer/lower/vk_undo.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <sys/stat.h>

#include "common/wire/undo.h"
#include "mpi-layer/lower/vk.h"

#define BUCKETS 1024
#define TABLE_BYTES (1ul << 30) /* of address space; what is used of it is what there is to know */
#define BLOCK_SHIFT 16          /* data are kept by blocks of 64 KiB, larger ones in files beyond 1 GiB */
#define MAX_BLOCKS 16384u
#define BUFFER_BYTES (256u << 10)

/* A file that was noted since the line. */
struct file {
    struct file *next;
    uint64_t device, inode;
    uint64_t length;  /* when it was noted */
    uint64_t *blocks; /* one bit for each block that was kept; NULL: none */
    uint32_t shift;   /* log2 of a block's bytes */
    bool is_settled;  /* nothing more has to be noted: it is new since the line, or cannot be protected */
};

static struct {
    uint32_t lock;
    bool is_active;
    uint32_t rank;
    uint64_t limit_bytes, kept_bytes;
    bool has_warned;
    char *table, *table_next;
    struct file *buckets[BUCKETS];
    char path[UNDO_PATH_BYTES], second_path[UNDO_PATH_BYTES], kept_path[UNDO_PATH_BYTES];
    char buffer[BUFFER_BYTES];
} undo;

/* ---- the lock: with all signals blocked, or a handler that writes to a file would wait for itself ---- */

static uint64_t lock(void)
{
    uint64_t all = ~0ul, mask = 0;
    raw4(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, &all, &mask, 8);
    while (__atomic_exchange_n(&undo.lock, 1, __ATOMIC_ACQUIRE))
        raw0(SYS_sched_yield);
    return mask;
}

static void unlock(uint64_t mask)
{
    __atomic_store_n(&undo.lock, 0, __ATOMIC_RELEASE);
    raw4(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, &mask, 0, 8);
}

static bool is_active(void)
{
    return undo.is_active && vk_is_rank() && vk_is_own_process();
}

/* ---- the table ---- */

static void *table_alloc(uint64_t bytes)
{
    bytes = (bytes + 15) & ~15ul;
    if (!undo.table || undo.table_next + bytes > undo.table + TABLE_BYTES)
        return NULL;
    uint64_t *block = (uint64_t *)(void *)undo.table_next;
    undo.table_next += bytes;
    for (uint64_t i = 0; i < bytes / 8; i++)
        block[i] = 0; /* used before, at an earlier line */
    return block;
}

static struct file **bucket(uint64_t device, uint64_t inode)
{
    return &undo.buckets[(inode ^ inode >> 10 ^ device) % BUCKETS];
}

static struct file *find(const struct stat *st)
{
    struct file *file = *bucket(st->st_dev, st->st_ino);
    while (file && (file->inode != st->st_ino || file->device != st->st_dev))
        file = file->next;
    return file;
}

static struct file *add(const struct stat *st)
{
    struct file *file = table_alloc(sizeof *file);
    if (!file)
        return NULL;
    struct file **first = bucket(st->st_dev, st->st_ino);
    /* Complete before it can be found. */
    file->device = st->st_dev;
    file->inode = st->st_ino;
    file->length = (uint64_t)st->st_size;
    file->shift = BLOCK_SHIFT;
    while (file->length >> file->shift >= MAX_BLOCKS)
        file->shift++;
    file->next = *first;
    __atomic_store_n(first, file, __ATOMIC_RELEASE);
    return file;
}

/* Its name is going, and with the last one its inode, whose number a new file may get. */
static void forget(const struct stat *st)
{
    struct file **at = bucket(st->st_dev, st->st_ino);
    while (*at && ((*at)->inode != st->st_ino || (*at)->device != st->st_dev))
        at = &(*at)->next;
    if (*at && st->st_nlink <= 1)
        *at = (*at)->next;
    vk_fd_forget_noted();
}

void vk_undo_start(const char *folder, uint32_t rank, uint64_t limit_bytes)
{
    if (!folder[0])
        return;
    long at = raw_syscall(SYS_mmap, 0, TABLE_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    undo.table = undo.table_next = at > 0 ? (char *)at : NULL;
    undo.rank = rank;
    undo.limit_bytes = limit_bytes;
    undo.is_active = true;
    vk_undo_log_start(folder, rank);
}

void vk_undo_begin_line(uint64_t line)
{
    uint64_t mask = lock();
    for (int i = 0; i < BUCKETS; i++)
        undo.buckets[i] = NULL;
    vk_fd_forget_noted();
    undo.table_next = undo.table;
    undo.kept_bytes = 0;
    vk_undo_log_line(line);
    unlock(mask);
}

/* ---- what cannot be protected ---- */

static uint64_t say_part(char *text, uint64_t used, uint64_t room, const char *part)
{
    while (*part && used < room)
        text[used++] = *part++;
    return used;
}

/* Once for each rank: the first file tells what is to be done about it. */
static void warn(const char *path, const char *reason)
{
    char text[768];
    uint64_t used = 0;
    if (undo.has_warned)
        return;
    undo.has_warned = true;
    used = say_part(text, used, sizeof text - 1, "belay: ");
    used = say_part(text, used, sizeof text - 256, path);
    used = say_part(text, used, sizeof text - 1, reason);
    text[used++] = '\n';
    raw3(SYS_write, 2, text, used);
}

static void note(const struct vk_undo_note *what)
{
    if (vk_undo_log(what) < 0)
        warn(what->path, " is not protected: what it was could not be written to the undo folder, which may "
                         "be full (--undo-dir); a restart will find it as it is then");
}

static bool is_within_limit(const char *path, uint64_t more_bytes)
{
    if (undo.kept_bytes + more_bytes <= undo.limit_bytes)
        return true;
    warn(path, " is not protected: more would have to be kept of it than --undo-limit allows; a restart will "
               "find it as it is then");
    return false;
}

/* ---- data ---- */

/* Keep [offset, offset + bytes) as it is. False: not all of it could be kept. */
static bool keep_data(long fd, const char *path, uint64_t offset, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes;) {
        uint64_t part = bytes - done < BUFFER_BYTES ? bytes - done : BUFFER_BYTES;
        long got = raw4(SYS_pread64, fd, undo.buffer, part, offset + done);
        if (got < 0)
            return false;
        if (got == 0) /* somebody else has cut it, and has noted it before */
            return true;
        note(&(struct vk_undo_note){.kind = UNDO_DATA,
                                    .offset = offset + done,
                                    .path = path,
                                    .data = undo.buffer,
                                    .data_bytes = (uint64_t)got});
        done += (uint64_t)got;
    }
    return true;
}

static bool is_kept(const struct file *file, uint64_t block)
{
    return file->blocks && (file->blocks[block / 64] >> (block % 64) & 1);
}

static void keep_block(struct file *file, long fd, const char *path, uint64_t block)
{
    uint64_t offset = block << file->shift, bytes = 1ul << file->shift;
    if (bytes > file->length - offset)
        bytes = file->length - offset;
    if (!file->blocks)
        file->blocks = table_alloc(((file->length >> file->shift) / 64 + 1) * 8);
    if (!file->blocks || !is_within_limit(path, bytes)) {
        file->is_settled = true;
        return;
    }
    if (!keep_data(fd, path, offset, bytes)) {
        warn(path, " is not protected: it cannot be read; a restart will find it as it is then");
        file->is_settled = true;
    }
    undo.kept_bytes += bytes;
    file->blocks[block / 64] |= 1ul << (block % 64);
}

/* [from, to) of what the file was is about to be lost; fd may be read. */
static void keep_range(struct file *file, long fd, const char *path, uint64_t from, uint64_t to)
{
    if (to > file->length)
        to = file->length;
    for (uint64_t at = from; at < to && !file->is_settled; at = ((at >> file->shift) + 1) << file->shift)
        if (!is_kept(file, at >> file->shift))
            keep_block(file, fd, path, at >> file->shift);
}

static struct file *note_length(const struct stat *st, const char *path)
{
    struct file *file = add(st);
    if (file)
        note(&(struct vk_undo_note){.kind = UNDO_LENGTH, .offset = (uint64_t)st->st_size, .path = path});
    return file;
}

static bool is_nameless(const struct stat *st)
{
    return st->st_nlink == 0; /* its content is in the image, or it is not restored at all */
}

/* Where an open descriptor will write next. */
static uint64_t position(long fd, const struct stat *st)
{
    long flags = raw3(SYS_fcntl, fd, F_GETFL, 0);
    return flags & O_APPEND ? (uint64_t)st->st_size : (uint64_t)raw3(SYS_lseek, fd, 0, SEEK_CUR);
}

static uint64_t end_of(uint64_t offset, uint64_t bytes)
{
    return offset + bytes < offset ? UINT64_MAX : offset + bytes;
}

static void fd_locked(long fd, const struct stat *st, uint64_t offset, uint64_t bytes)
{
    struct file *file = find(st);
    if (vk_undo_path_of_fd(fd, undo.path) < 0 || (!file && !(file = note_length(st, undo.path))) ||
        offset >= file->length)
        return;
    long reader = raw4(SYS_openat, AT_FDCWD, undo.path, O_RDONLY | O_CLOEXEC, 0);
    keep_range(file, reader, undo.path, offset, end_of(offset, bytes));
    raw1(SYS_close, reader);
}

/* Has all been noted that has to be? Without the lock: files are added, never freed while threads run. */
static bool is_noted(const struct file *file, uint64_t from, uint64_t to)
{
    if (!file || file->is_settled)
        return file;
    if (to > file->length)
        to = file->length;
    for (uint64_t at = from; at < to; at = ((at >> file->shift) + 1) << file->shift)
        if (!is_kept(file, at >> file->shift))
            return false;
    return true;
}

/*
 * The same for a descriptor by which the file was noted. One that appends needs no look at where it will: up
 * to its length at the line, nothing of the file is overwritten.
 */
static bool is_noted_of(long fd, const struct file *file, uint64_t offset, uint64_t bytes)
{
    if (!file)
        return false;
    if (file->is_settled || file->length == 0)
        return true;
    if (offset != VK_UNDO_HERE)
        return is_noted(file, offset, end_of(offset, bytes));
    long here = raw3(SYS_lseek, fd, 0, SEEK_CUR);
    return here >= 0 && is_noted(file, (uint64_t)here, end_of((uint64_t)here, bytes));
}

void vk_undo_fd(long fd, uint64_t offset, uint64_t bytes)
{
    struct stat st;
    if (is_noted_of(fd, vk_fd_noted(fd), offset, bytes))
        return;
    if (!undo.is_active || !vk_is_rank() || raw2(SYS_fstat, fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        is_nameless(&st))
        return;
    const struct file *file = find(&st);
    if (offset == VK_UNDO_HERE)
        offset = file && file->is_settled ? 0 : position(fd, &st);
    bool is_needless = is_noted(file, offset, end_of(offset, bytes));
    if (is_needless)
        vk_fd_set_noted(fd, file);
    if (is_needless || !vk_is_own_process())
        return;
    uint64_t mask = lock();
    fd_locked(fd, &st, offset, bytes);
    vk_fd_set_noted(fd, find(&st));
    unlock(mask);
}

static void path_at(long folder, const char *path, uint64_t offset, uint64_t bytes)
{
    long fd = raw4(SYS_openat, folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0)
        warn(path, " is not protected: it cannot be read; a restart will find it as it is then");
    if (fd < 0)
        return;
    vk_undo_fd(fd, offset, bytes);
    raw1(SYS_close, fd);
}

void vk_undo_path(const char *path, uint64_t offset, uint64_t bytes)
{
    struct stat st;
    if (is_active() && raw4(SYS_newfstatat, AT_FDCWD, path, &st, 0) == 0 && S_ISREG(st.st_mode))
        path_at(AT_FDCWD, path, offset, bytes);
}

/* ---- names ---- */

static long stat_at(long folder, const char *path, struct stat *st)
{
    return raw4(SYS_newfstatat, folder, path, st, AT_SYMLINK_NOFOLLOW);
}

static void note_created(long folder, const char *path)
{
    if (vk_undo_absolute(folder, path, undo.path) == 0)
        note(&(struct vk_undo_note){.kind = UNDO_CREATED, .path = undo.path});
}

bool vk_undo_open(long folder, const char *path, long flags)
{
    struct stat st;
    if (!(flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE || !is_active())
        return false;
    long result = raw4(SYS_newfstatat, folder, path, &st, 0);
    if (result == 0 && (flags & O_TRUNC) && S_ISREG(st.st_mode))
        path_at(folder, path, 0, VK_UNDO_WHOLE);
    if (result != -ENOENT || !(flags & O_CREAT))
        return false;
    bool is_link = stat_at(folder, path, &st) == 0; /* to nothing: the file is made where it points */
    if (!is_link) {
        uint64_t mask = lock();
        note_created(folder, path);
        unlock(mask);
    }
    return true;
}

void vk_undo_created(long fd)
{
    struct stat st;
    if (fd < 0 || raw2(SYS_fstat, fd, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    uint64_t mask = lock();
    forget(&st);
    struct file *file = add(&st);
    if (file)
        file->is_settled = true;
    if (vk_undo_path_of_fd(fd, undo.path) == 0) /* once more, by the name without symbolic links */
        note(&(struct vk_undo_note){.kind = UNDO_CREATED, .path = undo.path});
    unlock(mask);
}

void vk_undo_create(long folder, const char *path)
{
    struct stat st;
    if (!is_active() || stat_at(folder, path, &st) != -ENOENT)
        return;
    uint64_t mask = lock();
    note_created(folder, path);
    unlock(mask);
}

static long copy_data(long from, long to)
{
    for (;;) {
        long got = raw3(SYS_read, from, undo.buffer, BUFFER_BYTES);
        if (got <= 0)
            return got;
        if (raw3(SYS_write, to, undo.buffer, got) != got)
            return -ENOSPC;
    }
}

/* A second name for the file costs nothing; on another file system it has to be copied. */
static long set_aside(long folder, const char *name, const struct stat *st)
{
    long result = raw_syscall(SYS_linkat, folder, (long)name, AT_FDCWD, (long)undo.kept_path, 0, 0);
    if (result == 0)
        return 0;
    if (!is_within_limit(undo.path, (uint64_t)st->st_size))
        return -EFBIG;
    long from = raw4(SYS_openat, folder, name, O_RDONLY | O_CLOEXEC, 0);
    if (from < 0)
        return from;
    long to = raw4(SYS_openat, AT_FDCWD, undo.kept_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    result = to < 0 ? to : copy_data(from, to);
    raw1(SYS_close, from);
    if (to >= 0)
        raw1(SYS_close, to);
    undo.kept_bytes += (uint64_t)st->st_size;
    return result;
}

static void note_removed_file(long folder, const char *name, const struct stat *st)
{
    uint64_t number;
    const struct file *file = find(st);
    bool is_new = file && file->is_settled;
    forget(st);
    if (is_new)
        return;
    long result = vk_undo_log_kept(undo.kept_path, &number);
    if (result == 0)
        result = set_aside(folder, name, st);
    if (result == 0)
        note(&(struct vk_undo_note){.kind = UNDO_REMOVED,
                                    .offset = number,
                                    .mode = st->st_mode & 07777,
                                    .path = undo.path});
    else
        warn(undo.path, " is not protected: it could not be kept; a restart will not find it again");
}

static void note_removed(long folder, const char *name)
{
    struct stat st;
    if (stat_at(folder, name, &st) < 0 || vk_undo_absolute(folder, name, undo.path) < 0)
        return;
    if (S_ISREG(st.st_mode)) {
        note_removed_file(folder, name, &st);
    } else if (S_ISLNK(st.st_mode)) {
        long length = raw4(SYS_readlinkat, folder, name, undo.buffer, UNDO_PATH_BYTES);
        note(&(struct vk_undo_note){.kind = UNDO_LINK,
                                    .path = undo.path,
                                    .data = undo.buffer,
                                    .data_bytes = length > 0 ? (uint64_t)length : 0});
    } else if (S_ISDIR(st.st_mode)) {
        note(&(struct vk_undo_note){.kind = UNDO_FOLDER, .mode = st.st_mode & 07777, .path = undo.path});
    }
}

void vk_undo_remove(long folder, const char *path)
{
    if (!is_active())
        return;
    uint64_t mask = lock();
    note_removed(folder, path);
    unlock(mask);
}

void vk_undo_rename(long from_folder, const char *from, long to_folder, const char *to, long flags)
{
    struct stat old, new;
    if (!is_active() || stat_at(from_folder, from, &old) < 0)
        return;
    long result = stat_at(to_folder, to, &new);
    bool is_same = result == 0 && old.st_ino == new.st_ino && old.st_dev == new.st_dev;
    if (is_same || (result < 0 && result != -ENOENT))
        return;
    uint64_t mask = lock();
    if (result == 0 && !flags)
        note_removed(to_folder, to);
    if (vk_undo_absolute(from_folder, from, undo.path) == 0 &&
        vk_undo_absolute(to_folder, to, undo.second_path) == 0)
        note(&(struct vk_undo_note){.kind = UNDO_RENAMED,
                                    .mode = (uint32_t)flags,
                                    .path = undo.path,
                                    .data = undo.second_path,
                                    .data_bytes = vk_text_length(undo.second_path) + 1});
    unlock(mask);
}
