#include "common/wire/status_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/wire/job_name.h"
#include "common/wire/message.h"

#define FOLDER "jobs"
#define SUFFIX ".status"

int status_file_path(char *path, size_t path_bytes, const char *rundir, const char *job, const char *ending)
{
    int length = snprintf(path, path_bytes, "%s/" FOLDER "/%s" SUFFIX "%s", rundir, job, ending);
    if (length >= 0 && (size_t)length < path_bytes)
        return 0;
    errno = ENAMETOOLONG;
    return -1;
}

/* The whole file, at most as long as a message may be; the caller frees it. */
static uint8_t *read_file(const char *path, size_t *bytes)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    uint8_t *data = NULL;
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > MESSAGE_MAX_BYTES)
        errno = EBADMSG;
    else if ((data = malloc((size_t)st.st_size + 1)))
        *bytes = (size_t)read(fd, data, (size_t)st.st_size);
    int code = errno;
    close(fd);
    errno = code;
    if (data && *bytes == (size_t)st.st_size)
        return data;
    free(data);
    return NULL;
}

Belay__Wire__JobStatus *status_file_read(const char *rundir, const char *job)
{
    char path[PATH_MAX];
    size_t bytes = 0;
    if (!job_name_is_valid(job)) {
        errno = ENOENT;
        return NULL;
    }
    uint8_t *data =
        status_file_path(path, sizeof path, rundir, job, "") == 0 ? read_file(path, &bytes) : NULL;
    if (!data)
        return NULL;
    Belay__Wire__JobStatus *status = belay__wire__job_status__unpack(NULL, bytes, data);
    free(data);
    if (status && !strcmp(status->job, job)) /* else another's, put in its place */
        return status;
    belay__wire__job_status__free_unpacked(status, NULL);
    errno = EBADMSG;
    return NULL;
}

/* Without records there is no folder of them. */
static void remove_folder(const char *rundir)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/" FOLDER, rundir) < PATH_MAX)
        rmdir(path); /* fails while others are there */
}

/* All of it, or nothing. */
static int write_file(const char *path, const uint8_t *bytes, size_t count)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    ssize_t put = write(fd, bytes, count);
    if (put >= 0 && put < (ssize_t)count)
        errno = ENOSPC;
    int code = errno, closed = close(fd); /* some file systems tell only now that there is no room */
    if (put != (ssize_t)count)
        errno = code;
    return put == (ssize_t)count && closed == 0 ? 0 : -1;
}

static int make_paths(const char *rundir, const char *job, char path[PATH_MAX], char partial[PATH_MAX])
{
    char folder[PATH_MAX];
    if (status_file_path(path, PATH_MAX, rundir, job, "") < 0 ||
        status_file_path(partial, PATH_MAX, rundir, job, ".partial") < 0)
        return -1;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    mkdir(folder, 0700); /* it may be there */
    return 0;
}

/* Under a temporary name first. */
int status_file_write(const char *rundir, const Belay__Wire__JobStatus *status)
{
    char path[PATH_MAX], partial[PATH_MAX];
    if (make_paths(rundir, status->job, path, partial) < 0)
        return -1;
    size_t count = belay__wire__job_status__get_packed_size(status);
    uint8_t *bytes = malloc(count + 1);
    if (bytes)
        belay__wire__job_status__pack(status, bytes);
    int rc = bytes && write_file(partial, bytes, count) == 0 ? rename(partial, path) : -1, code = errno;
    free(bytes);
    if (rc < 0) {
        unlink(partial);
        remove_folder(rundir);
    }
    errno = code;
    return rc;
}

int status_file_remove(const char *rundir, const char *job)
{
    char path[PATH_MAX];
    if (status_file_path(path, sizeof path, rundir, job, "") < 0)
        return -1;
    int rc = unlink(path), code = errno;
    remove_folder(rundir);
    errno = code;
    return rc;
}

int status_file_each(const char *rundir, int (*visit)(void *context, const char *job), void *context)
{
    char path[PATH_MAX];
    struct dirent **names;
    int rc = 0;
    if (snprintf(path, sizeof path, "%s/" FOLDER, rundir) >= PATH_MAX)
        return 0;
    int count = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char *name = names[i]->d_name;
        size_t length = strlen(name), suffix = strlen(SUFFIX);
        if (rc == 0 && length > suffix && !strcmp(name + length - suffix, SUFFIX)) {
            name[length - suffix] = '\0';
            if (job_name_is_valid(name))
                rc = visit(context, name);
        }
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    return rc;
}
