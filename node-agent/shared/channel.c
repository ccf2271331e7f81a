#include "node-agent/shared/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/pipe_content.h"

#define FDINFO_BYTES 1024

static bool note_pipe(struct object *object, int fd);
static bool note_event(struct object *object);
static int open_pipe(const struct shared_record *record, const char *path, int *other,
                     struct belay_error *err);
static int renew_event(const struct shared_record *record, const char *contents, struct belay_error *err);

/* Opened anew, a FIFO would let go those who wait for somebody to open it: the rank's own descriptor is used.
 */
bool channel_note(struct object *object)
{
    if (object->key.kind == SHARED_EVENT)
        return note_event(object);
    int process = pidfd_open(object->pid, 0);
    int fd = process >= 0 ? pidfd_getfd(process, object->fd, 0) : -1;
    bool is_noted = fd >= 0 && note_pipe(object, fd);
    if (fd >= 0)
        close(fd);
    if (process >= 0)
        close(process);
    return is_noted;
}

int channel_renew(const struct shared_record *record, const char *path, const char *contents, int *other,
                  struct belay_error *err)
{
    char unwanted[4096];
    *other = -1;
    if (record->kind == SHARED_EVENT)
        return renew_event(record, contents, err);
    int fd = open_pipe(record, path, other, err);
    if (fd < 0)
        return -1;
    int writer = *other >= 0 ? *other : fd;
    while (read(fd, unwanted, sizeof unwanted) > 0) /* of the launch that was lost */
        ;
    if (record->limit_bytes > 0)
        fcntl(fd, F_SETPIPE_SZ, (int)record->limit_bytes);
    if (pipe_content_write(writer, contents, record->bytes) == 0)
        return fd;
    belay_error_errno(err, "the pipe %.300s cannot be filled again", path);
    close(fd);
    if (*other >= 0)
        close(*other);
    return -1;
}

static bool note_pipe(struct object *object, int fd)
{
    struct stat st;
    char *pieces;
    int capacity = fcntl(fd, F_GETPIPE_SZ);
    if (capacity < 0 || fstat(fd, &st) < 0)
        return false;
    ssize_t bytes = pipe_content_read(fd, &pieces);
    if (bytes < 0)
        return false;
    object->content.memory = pieces;
    object->content.bytes = (size_t)bytes;
    object->record.limit_bytes = (uint64_t)capacity;
    object->record.mode = st.st_mode & 07777;
    object->record.uid = st.st_uid;
    object->record.gid = st.st_gid;
    if (object->path[0] != '/' || access(object->path, F_OK) < 0)
        object->record.flags |= SHARED_HAS_NO_NAME;
    return true;
}

/* "eventfd-count: 5 ... eventfd-semaphore: 0": the count is in hex. */
static bool note_event(struct object *object)
{
    char name[64], text[FDINFO_BYTES];
    snprintf(name, sizeof name, "/proc/%d/fdinfo/%d", (int)object->pid, object->fd);
    int file = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t got = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0)
        close(file);
    text[got > 0 ? got : 0] = '\0';
    const char *count = strstr(text, "eventfd-count:"), *semaphore = strstr(text, "eventfd-semaphore:");
    const char *flags = strstr(text, "flags:");
    uint64_t *value = malloc(sizeof *value);
    if (!count || !value) {
        free(value);
        return false;
    }
    *value = strtoull(count + strlen("eventfd-count:"), NULL, 16);
    if (semaphore && atoi(semaphore + strlen("eventfd-semaphore:")))
        object->record.flags |= SHARED_COUNTS_DOWN;
    object->record.mode = flags ? (uint32_t)strtoul(flags + strlen("flags:"), NULL, 8) & O_NONBLOCK : 0;
    object->content.memory = (const char *)value;
    object->content.bytes = sizeof *value;
    return true;
}

/* A FIFO is opened for both, so that it neither waits nor ends before the ranks have it. */
static int open_pipe(const struct shared_record *record, const char *path, int *other,
                     struct belay_error *err)
{
    struct stat st;
    int ends[2];
    if (record->flags & SHARED_HAS_NO_NAME) {
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
            return belay_error_errno(err, "cannot make a pipe");
        *other = ends[1];
        return ends[0];
    }
    int fd = open(path, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && mkfifo(path, (mode_t)record->mode & 0777) == 0)
        fd = open(path, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return belay_error_errno(err, "the FIFO %.300s cannot be opened again", path);
    if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && st.st_uid == record->uid)
        return fd;
    close(fd);
    return belay_error_set(err, EPERM, "%.300s is not the FIFO that ranks had open", path);
}

static int renew_event(const struct shared_record *record, const char *contents, struct belay_error *err)
{
    uint64_t value;
    int flags = (record->flags & SHARED_COUNTS_DOWN ? EFD_SEMAPHORE : 0) |
                (record->mode & O_NONBLOCK ? EFD_NONBLOCK : 0);
    int fd = eventfd(0, flags | EFD_CLOEXEC);
    memcpy(&value, contents, sizeof value);
    if (fd >= 0 && (!value || write(fd, &value, sizeof value) == sizeof value))
        return fd;
    belay_error_errno(err, "cannot make an eventfd again");
    if (fd >= 0)
        close(fd);
    return -1;
}
