#include "common/wire/status_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/job_file.h"

static const struct job_file file = {.ending = ".status"};

int status_file_path(char *path, size_t path_bytes, const char *rundir, const char *job)
{
    return job_file_path(&file, path, path_bytes, rundir, job);
}

Belay__Wire__JobStatus *status_file_read(const char *rundir, const char *job)
{
    size_t count = 0;
    uint8_t *bytes = job_file_read(&file, rundir, job, &count);
    if (!bytes)
        return NULL;
    Belay__Wire__JobStatus *status = belay__wire__job_status__unpack(NULL, count, bytes);
    free(bytes);
    if (status && !strcmp(status->job, job)) /* else another's, put in its place */
        return status;
    belay__wire__job_status__free_unpacked(status, NULL);
    errno = EBADMSG;
    return NULL;
}

int status_file_write(const char *rundir, const Belay__Wire__JobStatus *status)
{
    size_t count = belay__wire__job_status__get_packed_size(status);
    uint8_t *bytes = malloc(count + 1);
    if (!bytes)
        return -1;
    belay__wire__job_status__pack(status, bytes);
    int rc = job_file_write(&file, rundir, status->job, bytes, count), code = errno;
    free(bytes);
    errno = code;
    return rc;
}

int status_file_remove(const char *rundir, const char *job)
{
    return job_file_remove(&file, rundir, job);
}

int status_file_each(const char *rundir, int (*visit)(void *context, const char *job), void *context)
{
    return job_file_each(&file, rundir, visit, context);
}
