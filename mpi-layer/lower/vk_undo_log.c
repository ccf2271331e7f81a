/*
 * vk_undo_log.c - the log of what files were: where it is, and how an entry gets there (common/wire/undo.h).
 *
 * Its state is the lower half's: after a restart everything begins anew. The folders are known by their
 * descriptors, so that nobody can put others in their place while the rank runs; those and the log's are out
 * of the way of the numbers that the application uses.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_fd.h"
#include "mpi-layer/lower/vk_undo_note.h"

static struct {
    long job_folder; /* of the job; -1: none */
    uint32_t rank;
    uint64_t line;
    long folder;        /* of this line, -1: not open yet */
    long fd;            /* of this line's log, -1: not made yet */
    uint64_t log_bytes; /* its length */
    uint64_t kept;      /* files set aside at this line */
    uint64_t last_stored_ns, last_time_ns;
} journal = {.job_folder = -1, .folder = -1, .fd = -1};

uint64_t vk_text_length(const char *text)
{
    uint64_t length = 0;
    while (text[length])
        length++;
    return length;
}

/* Both return where the text ends, and end it. */
char *vk_text_put(char *at, const char *text)
{
    while (*text)
        *at++ = *text++;
    *at = 0;
    return at;
}

char *vk_text_put_number(char *at, uint64_t number)
{
    char digits[24];
    int count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count > 0)
        *at++ = digits[--count];
    *at = 0;
    return at;
}

void vk_undo_log_start(long folder, uint32_t rank)
{
    journal.job_folder = folder;
    journal.rank = rank;
}

static void close_one(long *fd)
{
    vk_fd_close_own(*fd);
    *fd = -1;
}

void vk_undo_log_line(uint64_t line)
{
    close_one(&journal.fd);
    close_one(&journal.folder);
    journal.line = line;
    journal.log_bytes = journal.kept = 0;
}

long vk_undo_log_folder(void)
{
    char name[24];
    if (journal.folder >= 0)
        return journal.folder;
    if (!vk_is_own_process()) /* vk_undo_aside(): what it opens is gone with it */
        return -EBADF;
    vk_text_put_number(name, journal.line);
    long result = raw3(SYS_mkdirat, journal.job_folder, name, 0700);
    if (result < 0 && result != -EEXIST)
        return result;
    raw3(SYS_fchmodat, journal.job_folder, name, 0700); /* whatever the program's umask is */
    journal.folder =
        vk_fd_own(vk_fd_open(journal.job_folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0));
    return journal.folder;
}

static long write_head(void)
{
    struct undo_head head = {
        .magic = UNDO_HEAD_MAGIC, .version = UNDO_VERSION, .rank = journal.rank, .line = journal.line};
    long result = vk_undo_append(journal.fd, 0, &(struct iovec){&head, sizeof head}, 1);
    if (result < 0)
        close_one(&journal.fd);
    else
        journal.log_bytes = sizeof head;
    return result;
}

static long open_log(void)
{
    char name[32];
    if (journal.fd >= 0)
        return 0;
    if (!vk_is_own_process()) /* as above */
        return -EBADF;
    long folder = vk_undo_log_folder();
    if (folder < 0)
        return folder;
    vk_text_put(vk_text_put_number(name, journal.rank), ".log");
    long fd = vk_fd_open(folder, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fd;
    raw2(SYS_fchmod, fd, 0600);
    journal.fd = vk_fd_own(fd);
    journal.log_bytes = (uint64_t)raw3(SYS_lseek, journal.fd, 0, SEEK_END);
    if (!journal.log_bytes)
        return write_head();
    journal.kept = journal.log_bytes; /* an earlier program of this process has kept fewer files */
    return 0;
}

/* By the job's clock, as nearly as this node knows it. */
static uint64_t next_time(void)
{
    const struct control *control = GATE->control;
    int64_t ahead_ns = control ? __atomic_load_n(&control->clock_ahead_ns, __ATOMIC_ACQUIRE) : 0;
    struct timespec now;
    raw2(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
    uint64_t time_ns = (uint64_t)(now.tv_sec * 1000000000ll + now.tv_nsec + ahead_ns);
    journal.last_time_ns = time_ns > journal.last_time_ns ? time_ns : journal.last_time_ns + 1;
    return journal.last_time_ns;
}

/*
 * By the clock of the log's file system: that of its server, if it has one. A change that another rank makes
 * once it has seen ours is noted later by the same clock, whatever the hosts' clocks say. The ranks of one
 * machine, which have no lease, have a better clock in common: that one cannot be set.
 */
static uint64_t next_stored_time(void)
{
    struct stat st;
    if (!GATE->control || __atomic_load_n(&GATE->control->lease_until_ns, __ATOMIC_RELAXED) == 0)
        return 0;
    if (raw4(SYS_utimensat, journal.fd, 0, 0 /* now */, 0) == 0 && raw2(SYS_fstat, journal.fd, &st) == 0) {
        uint64_t stored_ns = (uint64_t)st.st_ctim.tv_sec * 1000000000u + (uint64_t)st.st_ctim.tv_nsec;
        journal.last_stored_ns = stored_ns > journal.last_stored_ns ? stored_ns : journal.last_stored_ns;
    }
    return journal.last_stored_ns;
}

/* What tells of other entries, or of files that are given up, takes little and is never left out. */
static bool has_room_for(const struct vk_undo_note *note, uint64_t bytes)
{
    bool is_extra = note->kind == UNDO_MADE || note->kind == UNDO_WITHDRAWN || note->kind == UNDO_UNPROTECTED;
    return is_extra || vk_undo_take_room(bytes) == VK_UNDO_NO_REASON;
}

long vk_undo_log(const struct vk_undo_note *note)
{
    long result = open_log();
    if (result < 0)
        return result;
    struct undo_entry entry = {.magic = UNDO_MAGIC,
                               .kind = note->kind,
                               .stored_ns = next_stored_time(),
                               .time_ns = next_time(),
                               .offset = note->offset,
                               .extent = note->extent,
                               .data_bytes = note->data_bytes[0] + note->data_bytes[1],
                               .id = note->id,
                               .folder = note->folder,
                               .mode = note->mode,
                               .path_bytes = (uint32_t)vk_text_length(note->path) + 1};
    struct iovec parts[] = {{&entry, sizeof entry},
                            {(void *)(uintptr_t)note->path, entry.path_bytes},
                            {(void *)(uintptr_t)note->data[0], note->data_bytes[0]},
                            {(void *)(uintptr_t)note->data[1], note->data_bytes[1]}};
    uint64_t bytes = sizeof entry + entry.path_bytes + entry.data_bytes;
    if (!has_room_for(note, bytes - entry.data_bytes))
        return -ENOSPC;
    result = vk_undo_append(journal.fd, journal.log_bytes, parts, 4);
    if (result < 0)
        return result;
    journal.log_bytes += bytes;
    return (long)entry.time_ns;
}

void vk_undo_log_kept(char name[UNDO_KEPT_NAME_BYTES], uint64_t *number)
{
    open_log(); /* which tells what names are free; without it nothing that is kept can be noted */
    *number = journal.kept++;
    char *at = vk_text_put(vk_text_put_number(name, journal.rank), "-");
    vk_text_put(vk_text_put_number(at, *number), ".kept");
}

long vk_undo_log_job(void)
{
    return journal.job_folder;
}

long vk_undo_log_held(uint64_t inode, char name[UNDO_KEPT_NAME_BYTES])
{
    char *at = vk_text_put(vk_text_put_number(vk_text_put(name, UNDO_HELD), journal.rank), "-");
    vk_text_put_number(at, inode);
    return journal.job_folder < 0 ? -ENOENT : 0;
}
