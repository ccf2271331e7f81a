/*
 * vk_undo_log.c - the log of what files were: where it is, and how an entry gets there (common/wire/undo.h).
 *
 * Its state is the lower half's: after a restart everything begins anew. The descriptor of the log is out of
 * the way of the numbers that the application uses.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>

#include "common/wire/undo.h"
#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_undo.h"

#define LOG_FD_FROM 600

static struct {
    char folder[UNDO_PATH_BYTES]; /* of the job */
    uint32_t rank;
    uint64_t line;
    long fd;              /* of this line's log, -1: not made yet */
    uint64_t log_bytes;   /* its length */
    uint64_t kept;        /* files set aside at this line */
    uint64_t last_time_ns;
} journal = {.fd = -1};

uint64_t vk_text_length(const char *text)
{
    uint64_t length = 0;
    while (text[length])
        length++;
    return length;
}

void vk_undo_log_start(const char *folder, uint32_t rank)
{
    uint64_t length = vk_text_length(folder);
    for (uint64_t i = 0; i <= length && i < sizeof journal.folder; i++)
        journal.folder[i] = folder[i];
    journal.folder[sizeof journal.folder - 1] = 0;
    journal.rank = rank;
}

void vk_undo_log_line(uint64_t line)
{
    if (journal.fd >= 0)
        raw1(SYS_close, journal.fd);
    journal.fd = -1;
    journal.line = line;
    journal.log_bytes = journal.kept = 0;
}

static char *put_text(char *at, const char *text)
{
    while (*text)
        *at++ = *text++;
    return at;
}

static char *put_number(char *at, uint64_t number)
{
    char digits[24];
    int count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

/* FOLDER/LINE/RANK: what the names of this rank's files begin with. NULL: too long. */
static char *put_stem(char path[], bool with_rank)
{
    if (vk_text_length(journal.folder) > UNDO_PATH_BYTES - 80)
        return NULL;
    char *at = put_text(path, journal.folder);
    *at++ = '/';
    at = put_number(at, journal.line);
    if (with_rank) {
        *at++ = '/';
        at = put_number(at, journal.rank);
    }
    *at = 0;
    return at;
}

static long open_log(void)
{
    static char path[UNDO_PATH_BYTES];
    if (journal.fd >= 0)
        return 0;
    if (!put_stem(path, false))
        return -ENAMETOOLONG;
    long result = raw2(SYS_mkdir, path, 0700);
    if (result < 0 && result != -EEXIST)
        return result;
    *put_text(put_stem(path, true), ".log") = 0;
    long fd = raw4(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return fd;
    long high = raw3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, LOG_FD_FROM);
    if (high >= 0)
        raw1(SYS_close, fd);
    journal.fd = high >= 0 ? high : fd;
    journal.log_bytes = (uint64_t)raw3(SYS_lseek, journal.fd, 0, SEEK_END);
    journal.kept = journal.log_bytes; /* an earlier program of this process has kept fewer files */
    return 0;
}

static uint64_t next_time(void)
{
    struct timespec now;
    raw2(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    uint64_t time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    journal.last_time_ns = time_ns > journal.last_time_ns ? time_ns : journal.last_time_ns + 1;
    return journal.last_time_ns;
}

long vk_undo_log(const struct vk_undo_note *note)
{
    long result = open_log();
    if (result < 0)
        return result;
    struct undo_entry entry = {.magic = UNDO_MAGIC,
                               .kind = note->kind,
                               .time_ns = next_time(),
                               .offset = note->offset,
                               .data_bytes = note->data_bytes,
                               .mode = note->mode,
                               .path_bytes = (uint32_t)vk_text_length(note->path) + 1};
    struct iovec parts[] = {{&entry, sizeof entry},
                            {(void *)(uintptr_t)note->path, entry.path_bytes},
                            {(void *)(uintptr_t)note->data, note->data_bytes}};
    uint64_t bytes = sizeof entry + entry.path_bytes + note->data_bytes;
    result = raw3(SYS_writev, journal.fd, parts, 3);
    if (result == (long)bytes) {
        journal.log_bytes += bytes;
        return 0;
    }
    raw2(SYS_ftruncate, journal.fd, journal.log_bytes);
    return result < 0 ? result : -ENOSPC;
}

long vk_undo_log_kept(char path[], uint64_t *number)
{
    long result = open_log();
    if (result < 0)
        return result;
    *number = journal.kept++;
    char *at = put_stem(path, true);
    *at++ = '-';
    at = put_number(at, *number);
    *put_text(at, ".kept") = 0;
    return 0;
}

long vk_undo_path_of_fd(long fd, char path[])
{
    char link[40];
    *put_number(put_text(link, "/proc/self/fd/"), (uint64_t)fd) = 0;
    long length = raw3(SYS_readlink, link, path, UNDO_PATH_BYTES - 1);
    if (length < 0)
        return length;
    path[length] = 0;
    return path[0] == '/' ? 0 : -EINVAL;
}

long vk_undo_absolute(long folder, const char *name, char path[])
{
    uint64_t used = 0, length = vk_text_length(name);
    if (name[0] != '/') {
        long result = folder == AT_FDCWD ? raw2(SYS_getcwd, path, UNDO_PATH_BYTES)
                                         : vk_undo_path_of_fd(folder, path);
        if (result < 0)
            return result;
        used = vk_text_length(path);
        path[used++] = '/';
    }
    if (used + length >= UNDO_PATH_BYTES)
        return -ENAMETOOLONG;
    *put_text(path + used, name) = 0;
    return 0;
}
