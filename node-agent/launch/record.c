#include "node-agent/launch/record.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/wire/status_file.h"
#include "node-agent/launch/epoch_state.h"
#include "node-agent/launch/record.pb-c.h"
#include "node-agent/launch/status.h"
#include "node-agent/shared/renew.h"

static uint8_t *pack_record(const struct job *job, size_t *bytes);
static int make_memfd(const uint8_t *bytes, size_t count);

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

void record_take_launch(struct job *job)
{
    Belay__Wire__JobOpen *launch = job->launch, *recorded = job->config;
    if (!launch)
        return;
    Belay__Wire__JobSettings *settings = launch->settings;
    launch->settings = recorded->settings;
    recorded->settings = settings;
    Belay__Wire__UndoFolder *undo = launch->undo; /* where files are kept does not change */
    launch->undo = recorded->undo;
    recorded->undo = undo;
    job->config = launch;
    job->launch = NULL;
    belay__wire__job_open__free_unpacked(recorded, NULL);
    record_save_again(job);
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

/* Messages that refer to the remains. */
struct remains_messages {
    Belay__Agent__RemainProcess *ranks, **rank_list, launcher;
    Belay__Agent__RemainFile *files, **file_list, session;
};

static void fill_process(Belay__Agent__RemainProcess *message, const struct remain_process *process)
{
    *message = (Belay__Agent__RemainProcess)BELAY__AGENT__REMAIN_PROCESS__INIT;
    message->pid = (uint32_t)process->pid;
    message->start = process->start;
}

static void fill_file(Belay__Agent__RemainFile *message, const struct remain *file)
{
    *message = (Belay__Agent__RemainFile)BELAY__AGENT__REMAIN_FILE__INIT;
    message->path = file->path;
    message->device = file->device;
    message->inode = file->inode;
}

/* Without memory they are not recorded. */
static void fill_remains(Belay__Agent__JobRecord *record, const struct remains *remains,
                         struct remains_messages *messages)
{
    messages->ranks = calloc(remains->rank_count + 1, sizeof *messages->ranks);
    messages->rank_list = calloc(remains->rank_count + 1, sizeof *messages->rank_list);
    messages->files = calloc(remains->count + 1, sizeof *messages->files);
    messages->file_list = calloc(remains->count + 1, sizeof *messages->file_list);
    if (!messages->ranks || !messages->rank_list || !messages->files || !messages->file_list)
        return;
    for (; record->n_ranks < remains->rank_count; record->n_ranks++) {
        messages->rank_list[record->n_ranks] = &messages->ranks[record->n_ranks];
        fill_process(&messages->ranks[record->n_ranks], &remains->ranks[record->n_ranks]);
    }
    for (; record->n_files < remains->count; record->n_files++) {
        messages->file_list[record->n_files] = &messages->files[record->n_files];
        fill_file(&messages->files[record->n_files], &remains->files[record->n_files]);
    }
    record->ranks = messages->rank_list;
    record->files = messages->file_list;
    fill_process(&messages->launcher, &remains->launcher);
    record->launcher = &messages->launcher;
    if (!remains->session.path)
        return;
    fill_file(&messages->session, &remains->session);
    record->session = &messages->session;
}

static void free_remains(const struct remains_messages *messages)
{
    free(messages->ranks);
    free(messages->rank_list);
    free(messages->files);
    free(messages->file_list);
}

/* One block of memory, to be freed; NULL: there are none, or no memory. */
static Belay__Agent__RenewedObject **fill_renewed(Belay__Agent__JobRecord *record,
                                                  const struct renewal *renewal)
{
    uint32_t count = renewal_ids(renewal, NULL, 0);
    count = count < RENEWED_IDS_MAX ? count : RENEWED_IDS_MAX;
    struct renewed_id *ids = count ? calloc(count, sizeof *ids) : NULL;
    Belay__Agent__RenewedObject **list = ids ? calloc(count, sizeof *list + sizeof **list) : NULL;
    Belay__Agent__RenewedObject *items = list ? (Belay__Agent__RenewedObject *)(void *)(list + count) : NULL;
    if (list)
        renewal_ids(renewal, ids, count);
    for (uint32_t i = 0; list && i < count; i++) {
        items[i] = (Belay__Agent__RenewedObject)BELAY__AGENT__RENEWED_OBJECT__INIT;
        items[i].kind = ids[i].kind;
        items[i].id = ids[i].id;
        items[i].kernel_id = ids[i].kernel_id;
        list[i] = &items[i];
    }
    free(ids);
    record->renewed = list;
    record->n_renewed = list ? count : 0;
    return list;
}

static uint8_t *pack_record(const struct job *job, size_t *bytes)
{
    Belay__Agent__JobRecord record = BELAY__AGENT__JOB_RECORD__INIT;
    struct remains_messages messages = {0};
    uint8_t *packed = NULL;
    record.config = job->config;
    record.status = status_make(job);
    record.undo_device = job->undo.id.device;
    record.undo_inode = job->undo.id.inode;
    record.undo_birth_ns = job->undo.id.birth_ns;
    fill_remains(&record, job->epoch ? &job->epoch->remains : &job->remains, &messages);
    Belay__Agent__RenewedObject **renewed = fill_renewed(&record, job->renewal);
    if (record.status) {
        *bytes = belay__agent__job_record__get_packed_size(&record);
        packed = malloc(*bytes ? *bytes : 1);
    }
    if (packed)
        belay__agent__job_record__pack(&record, packed);
    free(renewed);
    free_remains(&messages);
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

/* What became of the job; -1 with errno. */
static int write_status(const struct job *job)
{
    Belay__Wire__JobStatus *status = status_make(job);
    if (!status) {
        errno = ENOMEM;
        return -1;
    }
    int rc = status_file_write(job->agent->rundir, status), code = errno;
    belay__wire__job_status__free_unpacked(status, NULL);
    errno = code;
    return rc;
}

void record_write_status(struct job *job)
{
    char text[512];
    if (write_status(job) == 0)
        return;
    snprintf(text, sizeof text, "the final status of job \"%s\" cannot be written below %.200s: %s",
             job->name, job->agent->rundir, strerror(errno));
    log_warning("%s", text);
    job_tell_text(job, text);
}

static int remove_if_old(void *context, const char *job)
{
    struct agent *agent = context;
    char path[PATH_MAX];
    struct timespec now;
    struct stat st;
    clock_gettime(CLOCK_REALTIME, &now);
    if (job_find(agent, job) || status_file_path(path, sizeof path, agent->rundir, job) < 0 ||
        stat(path, &st) < 0 || now.tv_sec < st.st_mtim.tv_sec ||
        (uint64_t)(now.tv_sec - st.st_mtim.tv_sec) < agent->record_age_ms / 1000)
        return 0;
    log_info("job \"%s\": its record is old enough to go", job);
    status_file_remove(agent->rundir, job);
    return 0;
}

void record_remove_old(struct agent *agent)
{
    status_file_each(agent->rundir, remove_if_old, agent);
}
