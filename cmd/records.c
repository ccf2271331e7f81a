#include "cmd/records.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/wire/message.h"

#define RECORD_SUFFIX ".status"

static const char *const ended_states[] = {"finished", "failed", "stopped", "lost"};

static int record_path(char path[PATH_MAX], const char *rundir, const char *job, struct belay_error *err)
{
    int used = snprintf(path, PATH_MAX, "%s/jobs/%s" RECORD_SUFFIX, rundir, job);
    return used < PATH_MAX ? 0
                           : belay_error_set(err, ENAMETOOLONG, "the path of %s's record is too long", job);
}

/* The whole file, at most as long as a message may be; the caller frees it. */
static uint8_t *read_file(const char *path, size_t *bytes)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    uint8_t *data = NULL;
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > MESSAGE_MAX_BYTES)
        errno = EBADMSG;
    else if ((data = malloc((size_t)st.st_size + 1)))
        *bytes = (size_t)read(fd, data, (size_t)st.st_size);
    int saved = errno;
    close(fd);
    errno = saved;
    if (data && *bytes == (size_t)st.st_size)
        return data;
    free(data);
    return NULL;
}

static bool has_ended(const char *state)
{
    for (size_t i = 0; i < sizeof ended_states / sizeof ended_states[0]; i++)
        if (!strcmp(state, ended_states[i]))
            return true;
    return false;
}

/* Replace a string of an unpacked message, which owns it. Keeps the old one if memory is short. */
static void replace_text(char **field, const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        return;
    if (*field != (char *)protobuf_c_empty_string)
        free(*field);
    *field = copy;
}

Belay__Wire__JobStatus *record_read(const char *rundir, const char *job, struct belay_error *err)
{
    char path[PATH_MAX];
    size_t bytes = 0;
    if (record_path(path, rundir, job, err))
        return NULL;
    uint8_t *data = read_file(path, &bytes);
    if (!data) {
        if (errno == ENOENT)
            belay_error_set(err, ENOENT, "there is no job %s in %s", job, rundir);
        else
            belay_error_errno(err, "cannot read %s", path);
        return NULL;
    }
    Belay__Wire__JobStatus *status = belay__wire__job_status__unpack(NULL, bytes, data);
    free(data);
    if (status && strcmp(status->job, job)) { /* another's, put in its place */
        belay__wire__job_status__free_unpacked(status, NULL);
        status = NULL;
    }
    if (!status) {
        belay_error_set(err, EBADMSG, "%s is damaged", path);
    } else if (!has_ended(status->state)) {
        replace_text(&status->state, "lost");
        replace_text(&status->message, "its agent has gone");
    }
    return status;
}

int records_visit(const char *rundir, int (*visit)(const char *job, void *context), void *context)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/jobs", rundir) >= PATH_MAX)
        return 0;
    DIR *directory = opendir(path);
    int rc = 0;
    for (struct dirent *entry; directory && rc == 0 && (entry = readdir(directory));) {
        size_t length = strlen(entry->d_name), suffix = strlen(RECORD_SUFFIX);
        if (entry->d_name[0] == '.' || length <= suffix ||
            strcmp(entry->d_name + length - suffix, RECORD_SUFFIX))
            continue;
        entry->d_name[length - suffix] = '\0';
        rc = visit(entry->d_name, context);
    }
    if (directory)
        closedir(directory);
    return rc;
}

int record_remove(const char *rundir, const char *job, struct belay_error *err)
{
    char path[PATH_MAX];
    if (record_path(path, rundir, job, err))
        return -1;
    if (unlink(path)) {
        if (errno == ENOENT)
            return belay_error_set(err, ENOENT, "there is no job %s in %s", job, rundir);
        return belay_error_errno(err, "cannot remove %s", path);
    }
    return 0;
}
