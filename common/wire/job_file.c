#include "common/wire/job_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/wire/job_name.h"
#include "common/wire/message.h"

#define FOLDER "jobs"
#define PARTIAL ".partial"

static int make_path(char *path, size_t path_bytes, const char *rundir, const char *job, const char *ending,
                     const char *more);
static uint8_t *read_file(const char *path, size_t *count);
static int write_file(const char *path, const uint8_t *bytes, size_t count, bool is_durable);
static int sync_folder(const char *rundir);
static void remove_folder(const char *rundir);

int job_file_path(const struct job_file *file, char *path, size_t path_bytes, const char *rundir,
                  const char *job)
{
    return make_path(path, path_bytes, rundir, job, file->ending, "");
}

uint8_t *job_file_read(const struct job_file *file, const char *rundir, const char *job, size_t *count)
{
    char path[PATH_MAX];
    if (!job_name_is_valid(job)) {
        errno = ENOENT;
        return NULL;
    }
    return job_file_path(file, path, sizeof path, rundir, job) == 0 ? read_file(path, count) : NULL;
}

/* Under a temporary name first. */
int job_file_write(const struct job_file *file, const char *rundir, const char *job, const uint8_t *bytes,
                   size_t count)
{
    static uint64_t writes; /* of this process, for the fault point */
    char path[PATH_MAX], partial[PATH_MAX], folder[PATH_MAX];
    if (job_file_path(file, path, sizeof path, rundir, job) < 0 ||
        make_path(partial, sizeof partial, rundir, job, file->ending, PARTIAL) < 0)
        return -1;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    if (fault_hit("record.write", -1, ++writes)) {
        errno = EIO;
        return -1;
    }
    mkdir(folder, 0700); /* it may be there */
    int rc = write_file(partial, bytes, count, file->is_durable);
    if (rc == 0)
        rc = rename(partial, path);
    if (rc == 0)
        return file->is_durable ? sync_folder(rundir) : 0;
    int code = errno;
    unlink(partial);
    remove_folder(rundir);
    errno = code;
    return -1;
}

int job_file_remove(const struct job_file *file, const char *rundir, const char *job)
{
    char path[PATH_MAX], partial[PATH_MAX];
    if (job_file_path(file, path, sizeof path, rundir, job) < 0)
        return -1;
    bool had_partial =
        make_path(partial, sizeof partial, rundir, job, file->ending, PARTIAL) == 0 && unlink(partial) == 0;
    int rc = unlink(path), code = errno;
    remove_folder(rundir);
    errno = code;
    return rc < 0 && had_partial && code == ENOENT ? 0 : rc;
}

/* Also jobs of which an interrupted write has left something, so that it is found and removed. */
static bool take_job_name(char *name, const char *ending)
{
    static const char *const tails[] = {"", PARTIAL};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        size_t length = strlen(name), tail = strlen(tails[i]), end = strlen(ending);
        if (length <= end + tail || strcmp(name + length - tail, tails[i]) != 0 ||
            strncmp(name + length - tail - end, ending, end) != 0)
            continue;
        name[length - tail - end] = '\0';
        return job_name_is_valid(name);
    }
    return false;
}

int job_file_each(const struct job_file *file, const char *rundir,
                  int (*visit)(void *context, const char *job), void *context)
{
    char path[PATH_MAX], last[JOB_NAME_BYTES] = "";
    struct dirent **names;
    int rc = 0;
    if (snprintf(path, sizeof path, "%s/" FOLDER, rundir) >= PATH_MAX)
        return 0;
    int count = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char *name = names[i]->d_name;
        if (rc == 0 && take_job_name(name, file->ending) && strcmp(name, last) != 0) {
            snprintf(last, sizeof last, "%s", name);
            rc = visit(context, name);
        }
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    return rc;
}

static int make_path(char *path, size_t path_bytes, const char *rundir, const char *job, const char *ending,
                     const char *more)
{
    int length = snprintf(path, path_bytes, "%s/" FOLDER "/%s%s%s", rundir, job, ending, more);
    if (length >= 0 && (size_t)length < path_bytes)
        return 0;
    errno = ENAMETOOLONG;
    return -1;
}

/* At most as long as a message may be. */
static uint8_t *read_file(const char *path, size_t *count)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    uint8_t *data = NULL;
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > MESSAGE_MAX_BYTES)
        errno = EBADMSG;
    else if ((data = malloc((size_t)st.st_size + 1)))
        *count = (size_t)read(fd, data, (size_t)st.st_size);
    int code = errno;
    close(fd);
    errno = code;
    if (data && *count == (size_t)st.st_size)
        return data;
    free(data);
    return NULL;
}

/* All of it, or nothing. */
static int write_file(const char *path, const uint8_t *bytes, size_t count, bool is_durable)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    ssize_t put = write(fd, bytes, count);
    bool is_whole = put == (ssize_t)count;
    if (put >= 0 && !is_whole)
        errno = ENOSPC;
    is_whole = is_whole && (!is_durable || fsync(fd) == 0);
    int code = errno, closed = close(fd); /* some file systems tell only now that there is no room */
    if (!is_whole)
        errno = code;
    return is_whole && closed == 0 ? 0 : -1;
}

/* The new name lasts as the file does. */
static int sync_folder(const char *rundir)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/" FOLDER, rundir) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int rc = fsync(fd), code = errno;
    close(fd);
    errno = code;
    return rc;
}

/* Without records there is no folder of them. */
static void remove_folder(const char *rundir)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/" FOLDER, rundir) < PATH_MAX)
        rmdir(path); /* fails while others are there */
}
