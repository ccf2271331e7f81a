/* vk_undo.c - see vk_undo.h: files and their data. All state is the lower half's: a restart begins anew. */
#include "mpi-layer/lower/vk_undo.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mman.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "common/util/escape.h"
#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_held.h"
#include "mpi-layer/lower/vk_undo_note.h"

#define BUCKETS 1024
#define TABLE_BYTES (1ul << 30) /* of what there is to know at most, ... */
#define CHUNK_BYTES (1ul << 20) /* ... taken as it is needed: a program may limit its address space */
#define BLOCK_SHIFT 16          /* data are kept by blocks of 64 KiB, larger ones in files beyond 1 GiB */
#define MAX_BLOCKS 16384u
#define WAIT_ALL 0x40000000 /* __WALL */

#ifndef SEEK_DATA
#define SEEK_DATA 3
#define SEEK_HOLE 4
#endif

/* A file that was noted since the line. */
struct file {
    struct file *next;
    struct file_id id;
    uint64_t length;     /* when it was noted */
    uint64_t *blocks;    /* one bit for each block that was kept; NULL: none */
    uint32_t shift;      /* log2 of a block's bytes */
    bool is_new;         /* it was made since the line */
    bool is_settled;     /* nothing more has to be noted: it is new, or cannot be protected */
    bool has_attributes; /* they were noted */
};

/* A range of a file that is about to be lost. */
struct range {
    struct file *file;
    long reader;
    bool is_lent; /* the reader is the application's: its position stays as it is */
    const struct vk_undo_place *place;
};

/* Of the table, CHUNK_BYTES in all. They are kept from line to line. */
struct chunk {
    struct chunk *next;
    uint64_t reserved;
};

static struct {
    uint32_t lock;
    bool is_active;
    uint32_t rank;
    bool has_warned[VK_UNDO_REASONS];
    struct chunk *chunks, *chunk; /* the first, the one that is in use */
    char *chunk_next;             /* what is free of that */
    uint64_t chunks_bytes;
    struct file *buckets[BUCKETS];
    struct vk_undo_place place;
} undo;

char vk_undo_buffer[UNDO_DATA_BYTES];
const char vk_undo_itself[] = "";

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

/* ---- the table ---- */

long vk_undo_look(long folder, const char *name, struct vk_undo_facts *facts)
{
    struct statx st;
    long flags = AT_SYMLINK_NOFOLLOW | (name == vk_undo_itself ? AT_EMPTY_PATH : 0);
    long result = raw_syscall(SYS_statx, folder, (long)name, flags, FILE_ID_MASK, (long)&st, 0);
    if (result < 0)
        return result;
    facts->id = file_id_from(&st);
    facts->bytes = st.stx_size;
    facts->disk_bytes = st.stx_blocks * 512;
    facts->links = st.stx_nlink;
    facts->gid = st.stx_gid;
    return 0;
}

struct undo_attributes vk_undo_attributes_of(long folder, const char *name)
{
    struct statx st;
    long flags = AT_SYMLINK_NOFOLLOW | (name == vk_undo_itself ? AT_EMPTY_PATH : 0);
    if (raw_syscall(SYS_statx, folder, (long)name, flags, FILE_ID_MASK | STATX_MTIME, (long)&st, 0) < 0)
        return (struct undo_attributes){.changed_ns = UTIME_OMIT};
    return (struct undo_attributes){.mode = st.stx_mode & 07777u,
                                    .uid = st.stx_uid,
                                    .gid = st.stx_gid,
                                    .changed_s = st.stx_mtime.tv_sec,
                                    .changed_ns = st.stx_mtime.tv_nsec};
}

static bool take_chunk(struct chunk *chunk)
{
    undo.chunk = chunk;
    undo.chunk_next = chunk ? (char *)(chunk + 1) : NULL;
    return chunk;
}

static bool next_chunk(void)
{
    struct chunk **next = undo.chunk ? &undo.chunk->next : &undo.chunks;
    if (!*next && undo.chunks_bytes < TABLE_BYTES) {
        long at = raw_syscall(SYS_mmap, 0, CHUNK_BYTES, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        *next = at > 0 ? (struct chunk *)at : NULL;
        undo.chunks_bytes += at > 0 ? CHUNK_BYTES : 0;
    }
    return *next && take_chunk(*next);
}

static void *table_alloc(uint64_t bytes)
{
    bytes = (bytes + 15) & ~15ul;
    bool has_room = undo.chunk && undo.chunk_next + bytes <= (char *)undo.chunk + CHUNK_BYTES;
    if (!has_room && !next_chunk())
        return NULL;
    uint64_t *block = (uint64_t *)(void *)undo.chunk_next;
    undo.chunk_next += bytes;
    for (uint64_t i = 0; i < bytes / 8; i++)
        block[i] = 0; /* used before, at an earlier line */
    return block;
}

static struct file **bucket(const struct file_id *id)
{
    return &undo.buckets[(id->inode ^ id->inode >> 10 ^ id->device) % BUCKETS];
}

static struct file *find(const struct file_id *id)
{
    struct file *file = *bucket(id);
    while (file && !file_id_is_same(&file->id, id))
        file = file->next;
    return file;
}

static struct file *add(const struct vk_undo_facts *facts)
{
    struct file *file = table_alloc(sizeof *file);
    if (!file)
        return NULL;
    struct file **first = bucket(&facts->id);
    /* Complete before it can be found. */
    file->id = facts->id;
    file->length = facts->bytes;
    file->shift = BLOCK_SHIFT;
    while (file->length >> file->shift >= MAX_BLOCKS)
        file->shift++;
    file->next = *first;
    __atomic_store_n(first, file, __ATOMIC_RELEASE);
    return file;
}

/* With the last name goes its inode, whose number a new file may get. */
void vk_undo_forget(const struct vk_undo_facts *facts)
{
    struct file **at = bucket(&facts->id);
    while (*at && !file_id_is_same(&(*at)->id, &facts->id))
        at = &(*at)->next;
    if (*at && facts->links <= 1)
        *at = (*at)->next;
    vk_fd_forget_noted();
}

void vk_undo_add_new(const struct vk_undo_facts *facts)
{
    vk_undo_forget(facts);
    struct file *file = add(facts);
    if (file)
        file->is_new = file->is_settled = true;
}

bool vk_undo_is_new(const struct vk_undo_facts *facts)
{
    const struct file *file = find(&facts->id);
    return file && file->is_new;
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
    for (int i = 0; i < BUCKETS; i++)
        undo.buckets[i] = NULL;
    vk_fd_forget_noted();
    take_chunk(undo.chunks);
    vk_undo_log_line(line);
    vk_undo_room_line();
    vk_undo_unlock(mask);
}

/* ---- what cannot be protected ---- */

static const char *text_of(enum vk_undo_reason reason)
{
    switch (reason) {
    case VK_UNDO_UNREADABLE:
        return "it cannot be read";
    case VK_UNDO_LIMIT:
        return "more would have to be kept of it than --undo-limit allows";
    case VK_UNDO_TOTAL:
        return "more would have to be kept for the job than --undo-total allows";
    case VK_UNDO_FULL:
        return "the file system of the undo folder would get too full (--undo-dir)";
    case VK_UNDO_MEMORY:
        return "too little memory would be left, which the undo folder is in (--undo-dir)";
    case VK_UNDO_NOT_WRITTEN:
        return "its old content could not be written to the undo folder, which may be full (--undo-dir)";
    case VK_UNDO_NO_PATH:
        return "its path cannot be told, or is longer than 4095 bytes";
    case VK_UNDO_FOREIGN:
        return "it belongs to another user, and no link to it can be kept";
    default:
        return "it could not be kept";
    }
}

/* Once for each rank and reason: the first file tells what is to be done about it. */
static void warn(const char *path, enum vk_undo_reason reason)
{
    char text[ESCAPE_PATH_BYTES + 256], *at = text;
    if (undo.has_warned[reason])
        return;
    undo.has_warned[reason] = true;
    at = vk_text_put(at, "belay: ");
    escape_text(at, ESCAPE_PATH_BYTES, path);
    at += vk_text_length(at);
    at = vk_text_put(at, " is not protected: ");
    at = vk_text_put(at, text_of(reason));
    at = vk_text_put(at, "; a restart will find it as it is then\n");
    raw3(SYS_write, 2, text, at - text);
}

void vk_undo_give_up(const char *path, const struct file_id *id, enum vk_undo_reason reason)
{
    warn(path, reason);
    vk_undo_log(&(struct vk_undo_note){
        .kind = UNDO_UNPROTECTED, .mode = (uint32_t)reason, .id = *id, .path = path[0] == '/' ? path : "/"});
}

static void give_up_file(const struct range *range, enum vk_undo_reason reason)
{
    range->file->is_settled = true;
    if (vk_held_is(&range->file->id))
        vk_held_log(&(struct vk_undo_note){.kind = UNDO_UNPROTECTED, .id = range->file->id});
    vk_undo_give_up(range->place->path, &range->file->id, reason);
}

/* ---- data ---- */

/* Append what is to be known of the file. False: it cannot be, and the file is given up. */
static bool note(const struct range *range, struct vk_undo_note *what)
{
    what->id = range->file->id;
    what->folder = range->place->folder;
    what->path = range->place->path;
    bool is_held = vk_held_is(&what->id), is_noted = !is_held || vk_held_log(what) >= 0;
    if (is_held)
        what->mode |= UNDO_ALSO_HELD;
    if (is_noted && (!is_held || vk_held_is_pending()))
        is_noted = vk_undo_log(what) >= 0;
    if (!is_noted)
        give_up_file(range, VK_UNDO_NOT_WRITTEN);
    return is_noted;
}

/* Keep [from, to), which are data. Where it ends early, somebody else has cut it, and has noted it before. */
static bool keep_data(const struct range *range, uint64_t from, uint64_t to)
{
    enum vk_undo_reason reason = vk_undo_take_room(to - from);
    if (reason != VK_UNDO_NO_REASON) {
        give_up_file(range, reason);
        return false;
    }
    while (from < to) {
        uint64_t part = to - from < UNDO_DATA_BYTES ? to - from : UNDO_DATA_BYTES;
        long got = raw4(SYS_pread64, range->reader, vk_undo_buffer, part, from);
        if (got < 0)
            give_up_file(range, VK_UNDO_UNREADABLE);
        if (got <= 0)
            return got == 0;
        if (!note(range, &(struct vk_undo_note){.kind = UNDO_DATA,
                                                .offset = from,
                                                .data = {vk_undo_buffer},
                                                .data_bytes = {(uint64_t)got}}))
            return false;
        from += (uint64_t)got;
    }
    return true;
}

/* Keep [from, to) as it is: data, and holes, which cost nothing. */
static bool keep(const struct range *range, uint64_t from, uint64_t to)
{
    if (range->is_lent)
        return keep_data(range, from, to);
    while (from < to) {
        long data = raw3(SYS_lseek, range->reader, from, SEEK_DATA);
        uint64_t start = data >= 0 ? (uint64_t)data : data == -ENXIO ? to : from, end = to;
        if (start > to)
            start = to;
        if (start > from &&
            !note(range, &(struct vk_undo_note){.kind = UNDO_HOLE, .offset = from, .extent = start - from}))
            return false;
        long hole = start < to ? raw3(SYS_lseek, range->reader, start, SEEK_HOLE) : 0;
        if (hole > (long)start && (uint64_t)hole < end)
            end = (uint64_t)hole;
        if (start < to && !keep_data(range, start, end))
            return false;
        from = end;
    }
    return true;
}

static bool is_kept(const struct file *file, uint64_t block)
{
    return file->blocks && (file->blocks[block / 64] >> (block % 64) & 1);
}

static void keep_block(const struct range *range, uint64_t block)
{
    struct file *file = range->file;
    uint64_t from = block << file->shift, bytes = 1ul << file->shift;
    if (bytes > file->length - from)
        bytes = file->length - from;
    if (!file->blocks)
        file->blocks = table_alloc(((file->length >> file->shift) / 64 + 1) * 8);
    if (!file->blocks)
        give_up_file(range, VK_UNDO_LIMIT);
    else if (keep(range, from, from + bytes))
        file->blocks[block / 64] |= 1ul << (block % 64);
}

/* [from, to) of what the file was is about to be lost. */
static void keep_range(const struct range *range, uint64_t from, uint64_t to)
{
    struct file *file = range->file;
    if (to > file->length)
        to = file->length;
    for (uint64_t at = from; at < to && !file->is_settled; at = ((at >> file->shift) + 1) << file->shift)
        if (!is_kept(file, at >> file->shift))
            keep_block(range, at >> file->shift);
}

/* Nobody finds it again, and it was not there at the line; or its content is in the image. */
static bool is_lost(const struct vk_undo_facts *facts)
{
    return facts->links == 0 && !vk_held_is(&facts->id);
}

/* Files in which the kernel tells and takes settings (/proc, /sys): they hold nothing that could be kept. */
static bool is_of_the_kernel(long fd)
{
    static const uint32_t types[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC,        DEBUGFS_MAGIC,
                                     TRACEFS_MAGIC,    CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC};
    struct statfs fs;
    bool is_one = false;
    if (raw2(SYS_fstatfs, fd, &fs) < 0)
        return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        is_one |= (uint32_t)fs.f_type == types[i];
    return is_one;
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

/* ---- how it is read ---- */

/* A range that is to be kept, of the file that a descriptor of the application stands for. */
struct keeping {
    struct range *range;
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

/* By the descriptor, whatever is at its path; it may not be open to read. */
static void keep_opened(const void *with)
{
    const struct keeping *keeping = with;
    char link[40];
    vk_text_put_number(vk_text_put(link, "/proc/self/fd/"), (uint64_t)keeping->fd);
    long fd = raw4(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    keeping->range->reader = fd;
    keep_range(keeping->range, keeping->from, keeping->to);
    if (fd >= 0)
        raw1(SYS_close, fd);
}

/* ---- by an open descriptor ---- */

static void note_length(const struct range *range, long fd)
{
    struct undo_attributes attributes = vk_undo_attributes_of(fd, vk_undo_itself);
    note(range, &(struct vk_undo_note){.kind = UNDO_LENGTH,
                                       .offset = range->file->length,
                                       .data = {&attributes},
                                       .data_bytes = {sizeof attributes}});
}

static void fd_locked(long fd, const struct vk_undo_facts *facts, uint64_t offset, uint64_t bytes)
{
    struct range range = {.file = find(&facts->id), .place = &undo.place, .reader = -1};
    struct keeping keeping = {&range, fd, offset, end_of(offset, bytes)};
    bool is_first = !range.file;
    if (is_first)
        range.file = add(facts);
    if (!range.file) {
        vk_undo_give_up("a file", &facts->id, VK_UNDO_NOT_KEPT);
        return;
    }
    if (vk_undo_place_of_fd(fd, &undo.place) < 0) {
        vk_text_put(undo.place.path, "a file");
        give_up_file(&range, VK_UNDO_NO_PATH);
        return;
    }
    if (is_first)
        note_length(&range, fd);
    if (offset >= range.file->length || is_noted(range.file, keeping.from, keeping.to))
        return;
    range.is_lent = can_be_lent(fd, facts);
    range.reader = range.is_lent ? fd : -1;
    if (range.is_lent)
        keep_range(&range, keeping.from, keeping.to);
    else
        vk_undo_aside(keep_opened, &keeping);
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
    if (offset != VK_UNDO_HERE && offset != VK_UNDO_NEXT)
        return is_noted(file, offset, end_of(offset, bytes));
    long here = raw3(SYS_lseek, fd, 0, SEEK_CUR);
    return here >= 0 && is_noted(file, (uint64_t)here, end_of((uint64_t)here, bytes));
}

void vk_undo_fd(long fd, uint64_t offset, uint64_t bytes)
{
    struct vk_undo_facts facts;
    if (is_noted_of(fd, vk_fd_noted(fd), offset, bytes))
        return;
    if (!undo.is_active || !vk_is_rank() || vk_undo_look(fd, vk_undo_itself, &facts) < 0 ||
        !S_ISREG(facts.id.mode) || is_lost(&facts))
        return;
    const struct file *file = find(&facts.id);
    if (!file && is_of_the_kernel(fd))
        return;
    if (offset == VK_UNDO_HERE || offset == VK_UNDO_NEXT)
        offset = file && file->is_settled ? 0 : position(fd, offset, &facts);
    bool is_needless = is_noted(file, offset, end_of(offset, bytes));
    if (is_needless)
        vk_fd_set_noted(fd, file);
    if (is_needless || !vk_is_own_process())
        return;
    uint64_t mask = vk_undo_lock();
    fd_locked(fd, &facts, offset, bytes);
    vk_fd_set_noted(fd, find(&facts.id));
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

/* ---- attributes ---- */

static void attributes_locked(long fd, const struct vk_undo_facts *facts)
{
    struct undo_attributes attributes = vk_undo_attributes_of(fd, vk_undo_itself);
    struct file *file = find(&facts->id);
    if (!file && (file = add(facts)))
        file->is_settled = true; /* no file with data: those are noted first */
    if (!file || file->has_attributes || vk_undo_place_of_fd(fd, &undo.place) < 0)
        return;
    struct range range = {.file = file, .place = &undo.place, .reader = -1};
    file->has_attributes =
        note(&range, &(struct vk_undo_note){
                         .kind = UNDO_ATTRIBUTES, .data = {&attributes}, .data_bytes = {sizeof attributes}});
}

void vk_undo_attributes_fd(long fd)
{
    struct vk_undo_facts facts;
    if (!vk_undo_is_active() || vk_undo_look(fd, vk_undo_itself, &facts) < 0 || S_ISLNK(facts.id.mode) ||
        is_lost(&facts) || is_of_the_kernel(fd))
        return;
    if (S_ISDIR(facts.id.mode))
        VK->has_changed_folders = 1;
    if (S_ISREG(facts.id.mode))
        vk_undo_fd(fd, 0, 0);
    uint64_t mask = vk_undo_lock();
    if (!vk_undo_is_new(&facts))
        attributes_locked(fd, &facts);
    vk_undo_unlock(mask);
}

void vk_undo_attributes(long folder, const char *path, bool follows)
{
    if (!vk_undo_is_active())
        return;
    long fd = vk_fd_open(folder, path, O_PATH | O_CLOEXEC | (follows ? 0 : O_NOFOLLOW), 0);
    if (fd < 0)
        return;
    vk_undo_attributes_fd(fd);
    vk_fd_close(fd);
}
