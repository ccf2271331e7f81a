#include "node-agent/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/wire/message.h"
#include "node-agent/record.pb-c.h"
#include "node-agent/status.h"

#define PATH_BYTES 256

static uint8_t *pack_record(const struct job *job, size_t *bytes);
static int make_memfd(const uint8_t *bytes, size_t count);
static uint8_t *read_all(int fd, size_t *count);

int record_save(struct job *job, struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    size_t count = 0;
    uint8_t *bytes = pack_record(job, &count);
    int fd = bytes ? make_memfd(bytes, count) : -1;
    belay_error_errno(err, "cannot make the record of job \"%s\"", job->name);
    free(bytes);
    snprintf(name, sizeof name, "%s/job", job->name);
    if (fd < 0)
        return -1;
    if (keeper_put(job->agent->keeper, name, fd, err) < 0) {
        close(fd);
        return -1;
    }
    if (job->record_fd >= 0)
        close(job->record_fd);
    job->record_fd = fd;
    return 0;
}

void record_save_again(struct job *job)
{
    struct belay_error err;
    if (record_save(job, &err) == 0)
        return;
    belay_error_prefix(&err, "if the agent is lost, job \"%s\" goes on as it was recorded before", job->name);
    log_warning("%s", err.text);
    job_tell_text(job, err.text);
}

void record_drop(struct job *job)
{
    char name[KEEPER_NAME_BYTES];
    snprintf(name, sizeof name, "%s/job", job->name);
    if (job->record_fd < 0)
        return;
    keeper_drop(job->agent->keeper, name, NULL);
    close(job->record_fd);
    job->record_fd = -1;
}

static uint8_t *pack_record(const struct job *job, size_t *bytes)
{
    Belay__Agent__JobRecord record = BELAY__AGENT__JOB_RECORD__INIT;
    uint8_t *packed = NULL;
    record.config = job->config;
    record.status = status_make(job);
    record.undo_device = job->undo.id.device;
    record.undo_inode = job->undo.id.inode;
    record.undo_birth_ns = job->undo.id.birth_ns;
    if (record.status) {
        *bytes = belay__agent__job_record__get_packed_size(&record);
        packed = malloc(*bytes ? *bytes : 1);
    }
    if (packed)
        belay__agent__job_record__pack(&record, packed);
    belay__wire__job_status__free_unpacked(record.status, NULL);
    return packed;
}

static int make_memfd(const uint8_t *bytes, size_t count)
{
    int fd = memfd_create("belay-job", MFD_CLOEXEC);
    if (fd >= 0 && pwrite(fd, bytes, count, 0) != (ssize_t)count) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The whole file; the caller frees it. NULL with errno. */
static uint8_t *read_all(int fd, size_t *count)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return NULL;
    if (st.st_size < 0 || (uint64_t)st.st_size > RECORD_MAX_BYTES) {
        errno = EFBIG;
        return NULL;
    }
    uint8_t *bytes = malloc((size_t)st.st_size + 1);
    ssize_t got = bytes ? pread(fd, bytes, (size_t)st.st_size, 0) : -1;
    if (got != (ssize_t)st.st_size) {
        free(bytes);
        return NULL;
    }
    *count = (size_t)got;
    return bytes;
}

static void status_path(const struct agent *agent, const char *job, const char *suffix, char *path,
                        size_t room)
{
    snprintf(path, room, "%s/jobs/%s.status%s", agent->rundir, job, suffix);
}

/* Without records there is no folder of them. */
static void remove_folder(const struct agent *agent)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/jobs", agent->rundir);
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

/* Under a temporary name first, so that a reader sees a whole file or none. */
static int write_status(const struct job *job, const char *path)
{
    char folder[PATH_BYTES], partial[PATH_BYTES];
    Belay__Wire__JobStatus *status = status_make(job);
    size_t count = status ? belay__wire__job_status__get_packed_size(status) : 0;
    uint8_t *bytes = status ? malloc(count + 1) : NULL;
    if (bytes)
        belay__wire__job_status__pack(status, bytes);
    belay__wire__job_status__free_unpacked(status, NULL);
    snprintf(folder, sizeof folder, "%s/jobs", job->agent->rundir);
    mkdir(folder, 0700);
    status_path(job->agent, job->name, ".partial", partial, sizeof partial);
    int rc = bytes && write_file(partial, bytes, count) == 0 ? rename(partial, path) : -1, code = errno;
    free(bytes);
    if (rc < 0) {
        unlink(partial);
        remove_folder(job->agent);
    }
    errno = code;
    return rc;
}

void record_write_status(struct job *job)
{
    char path[PATH_BYTES], text[PATH_BYTES + 200];
    status_path(job->agent, job->name, "", path, sizeof path);
    if (write_status(job, path) == 0)
        return;
    snprintf(text, sizeof text, "what became of job \"%s\" cannot be written to %s: %s", job->name, path,
             strerror(errno));
    log_warning("%s", text);
    job_tell_text(job, text);
}

Belay__Wire__JobStatus *record_read_status(const struct agent *agent, const char *job)
{
    char path[PATH_BYTES];
    size_t count;
    if (!job_name_is_valid(job)) {
        errno = ENOENT;
        return NULL;
    }
    status_path(agent, job, "", path, sizeof path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return NULL;
    uint8_t *bytes = read_all(fd, &count);
    close(fd);
    if (!bytes)
        return NULL;
    Belay__Wire__JobStatus *status = belay__wire__job_status__unpack(NULL, count, bytes);
    free(bytes);
    if (status && !strcmp(status->job, job))
        return status;
    belay__wire__job_status__free_unpacked(status, NULL);
    errno = EBADMSG;
    return NULL;
}

bool record_remove_status(const struct agent *agent, const char *job)
{
    char path[PATH_BYTES];
    status_path(agent, job, "", path, sizeof path);
    bool was_there = unlink(path) == 0;
    remove_folder(agent);
    return was_there;
}

static void remove_if_old(void *context, const char *job)
{
    struct agent *agent = context;
    char path[PATH_BYTES];
    struct timespec now;
    struct stat st;
    status_path(agent, job, "", path, sizeof path);
    clock_gettime(CLOCK_REALTIME, &now);
    if (job_find(agent, job) || stat(path, &st) < 0 || now.tv_sec < st.st_mtim.tv_sec ||
        (uint64_t)(now.tv_sec - st.st_mtim.tv_sec) < agent->record_age_ms / 1000)
        return;
    log_info("job \"%s\": its record is old enough to go", job);
    record_remove_status(agent, job);
}

void record_remove_old(struct agent *agent)
{
    record_each_status(agent, remove_if_old, agent);
}

void record_each_status(const struct agent *agent, void (*each)(void *context, const char *job),
                        void *context)
{
    static const char suffix[] = ".status";
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/jobs", agent->rundir);
    struct dirent **names;
    int count = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char *name = names[i]->d_name;
        size_t length = strlen(name);
        if (length >= sizeof suffix && !strcmp(name + length - (sizeof suffix - 1), suffix)) {
            name[length - (sizeof suffix - 1)] = '\0';
            each(context, name);
        }
        free(names[i]);
    }
    if (count >= 0)
        free(names);
}
