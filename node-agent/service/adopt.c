/* adopt.c - takes up the jobs that an agent left with the keeper when it was killed. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/array.h"
#include "common/util/log.h"
#include "node-agent/job/membership.h"
#include "node-agent/launch/jobs.h"
#include "node-agent/launch/record.h"
#include "node-agent/launch/record.pb-c.h"
#include "node-agent/launch/status.h"
#include "node-agent/shared/renew.h"

/* One descriptor that the keeper holds. */
struct leftover {
    char name[KEEPER_NAME_BYTES];
    int fd; /* -1: taken over by somebody */
};

struct leftovers {
    struct leftover *items;
    size_t count, room;
    bool is_short; /* something could not be noted */
};

static bool is_lack(int code);
static void collect(void *context, const char *name, int fd);
static int take_job(struct agent *agent, struct leftovers *all, struct leftover *record,
                    struct belay_error *err);
static struct job *job_from_record(struct agent *agent, const char *name, int fd, struct belay_error *err);
static void take_remains(struct remains *remains, const Belay__Agent__JobRecord *record);
static struct renewal *take_renewed(const Belay__Agent__JobRecord *record);
static int take_made(struct job *job, int fd, struct belay_error *err);
static int take_images(struct job *job, struct leftovers *all, struct belay_error *err);
static void take_lines(struct job *job);
static int take_fd(struct leftovers *all, const char *name);

int record_adopt(struct agent *agent, struct belay_error *err)
{
    struct leftovers all = {0};
    struct belay_error why;
    int rc = keeper_list(agent->keeper, collect, &all, err);
    if (rc == 0 && all.is_short)
        rc = belay_error_set(err, ENOMEM, "no memory to take up what the keeper holds; nothing is lost");
    for (size_t i = 0; rc == 0 && i < all.count; i++) {
        size_t length = strlen(all.items[i].name);
        bool is_record = length > 4 && !strcmp(all.items[i].name + length - 4, "/job");
        if (!is_record || take_job(agent, &all, &all.items[i], &why) == 0)
            continue;
        if (is_lack(why.code))
            rc = belay_error_set(err, why.code, "job %.*s cannot be taken up now: %.400s; nothing is lost",
                                 (int)(length - 4), all.items[i].name, why.text);
        else
            log_warning("nothing of %.*s could be taken up: %s", (int)(length - 4), all.items[i].name,
                        why.text);
    }
    for (size_t i = 0; i < all.count; i++) {
        if (all.items[i].fd < 0)
            continue;
        if (rc == 0)
            keeper_drop(agent->keeper, all.items[i].name, NULL);
        close(all.items[i].fd);
    }
    free(all.items);
    return rc;
}

/* Of what there may be more tomorrow, or for an agent with other limits. */
static bool is_lack(int code)
{
    static const int lacks[] = {EAGAIN, EDQUOT, EFBIG, EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC, ETIMEDOUT};
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++)
        if (code == lacks[i])
            return true;
    return false;
}

static void collect(void *context, const char *name, int fd)
{
    struct leftovers *all = context;
    if (array_reserve(&all->items, all->count + 1, &all->room) < 0) {
        all->is_short = true;
        close(fd);
        return;
    }
    struct leftover *item = &all->items[all->count++];
    snprintf(item->name, sizeof item->name, "%s", name);
    item->fd = fd;
}

/*
 * It will go on with the job, from the start if there is no line: the numbers of epochs and lines that were
 * used, and what was written to standard output, are still the job's.
 */
static bool is_arbiter_alive(const struct job *job)
{
    pid_t pid = (pid_t)job->config->arbiter_pid;
    return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

static int take_job(struct agent *agent, struct leftovers *all, struct leftover *record,
                    struct belay_error *err)
{
    char name[JOB_NAME_BYTES], commits[KEEPER_NAME_BYTES], streams[KEEPER_NAME_BYTES];
    char epochs[KEEPER_NAME_BYTES], arbiter[KEEPER_NAME_BYTES], made[KEEPER_NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(record->name, "/"), record->name);
    snprintf(commits, sizeof commits, "%s/commits", name);
    struct job *job = job_from_record(agent, name, record->fd, err);
    if (!job)
        return -1;
    int fd = take_fd(all, commits);
    if (fd < 0) {
        belay_error_set(err, ENOENT, "it has no commit record");
        goto fail;
    }
    snprintf(epochs, sizeof epochs, "%s/epochs", name);
    snprintf(arbiter, sizeof arbiter, "%s/arbiter", name);
    snprintf(made, sizeof made, "%s" JOB_MADE, name);
    job->membership = membership_adopt(agent->keeper, name, job->config->node, take_fd(all, epochs),
                                       take_fd(all, arbiter), err);
    if (!job->membership || take_made(job, take_fd(all, made), err) < 0) {
        close(fd);
        goto fail;
    }
    job->store = store_adopt(agent->keeper, name, fd, membership_protected_line(job->membership),
                             membership_ranks_here(job->membership), err);
    if (!job->store || take_images(job, all, err) < 0)
        goto fail;
    bool has_line = store_newest_line(job->store) > 0;
    job->owes_files = !has_line && job_is_member(job) && undo_is_owing(&job->undo);
    job->is_awaited = is_arbiter_alive(job);
    if (!has_line && !job->owes_files && !job->is_awaited) {
        belay_error_set(err, ENOENT, "it has no committed line");
        goto fail;
    }
    snprintf(streams, sizeof streams, "%s/streams", name);
    fd = take_fd(all, streams);
    if (streams_adopt(&job->streams, fd, err) < 0)
        goto fail;
    take_lines(job);
    if (job->ranks == 0) /* recorded before any had come */
        job->ranks = store_held_ranks(job->store);
    snprintf(job->message, sizeof job->message, "the agent was killed while the job ran");
    if (job_add(job, err) < 0)
        goto fail;
    close(record->fd); /* of its name the keeper gets a new one below; what is still here is dropped there */
    record->fd = -1;
    if (job->config->arbiter_pid) /* which ends the launch with the agent, and may be gone itself */
        remains_end_ranks(&job->remains);
    log_info("job \"%s\" is taken up with line %llu", name,
             (unsigned long long)store_newest_line(job->store));
    job_end(job, JOB_STATE_LOST, true);
    return 0;
fail:
    job->owes_files = undo_has_begun(&job->undo); /* only the user gives them up */
    if (is_lack(err->code)) { /* the keeper goes on holding it, and its files stay as they are */
        keeper_detach(agent->keeper);
        agent->leaves_jobs = true;
    }
    job_forget(job);
    return -1;
}

static struct job *job_from_record(struct agent *agent, const char *name, int fd, struct belay_error *err)
{
    struct stat st;
    struct job *job = NULL;
    uint8_t *bytes = NULL;
    Belay__Agent__JobRecord *record = NULL;
    belay_error_set(err, EBADMSG, "its record is damaged");
    if (!job_name_is_valid(name) || fstat(fd, &st) < 0 || st.st_size > RECORD_MAX_BYTES)
        goto done;
    bytes = malloc((size_t)st.st_size + 1);
    if (!bytes)
        belay_error_set(err, ENOMEM, "no memory for its record");
    if (!bytes || pread(fd, bytes, (size_t)st.st_size, 0) != st.st_size)
        goto done;
    record = belay__agent__job_record__unpack(NULL, (size_t)st.st_size, bytes);
    if (!record || !record->config || !record->config->settings || !record->status)
        goto done;
    job = job_new(agent, name, record->config, err);
    if (job)
        job->undo.id = (struct file_id){.device = record->undo_device,
                                        .inode = record->undo_inode,
                                        .birth_ns = record->undo_birth_ns,
                                        .uid = geteuid(),
                                        .mode = S_IFDIR};
    if (job) {
        take_remains(&job->remains, record);
        job->renewal = take_renewed(record);
    }
    if (job && status_take(job, record->status) < 0) {
        if (errno != EBADMSG)
            belay_error_set(err, ENOMEM, "no memory for its record");
        job_forget(job);
        job = NULL;
    }
done:
    belay__agent__job_record__free_unpacked(record, NULL);
    free(bytes);
    return job;
}

static void take_remain(struct remain *to, const Belay__Agent__RemainFile *file)
{
    *to = (struct remain){.path = file->path, .device = file->device, .inode = file->inode};
}

static void take_remains(struct remains *remains, const Belay__Agent__JobRecord *record)
{
    struct remain remain;
    for (size_t i = 0; i < record->n_ranks; i++)
        remains_add_rank(remains, &(struct remain_process){.pid = (pid_t)record->ranks[i]->pid,
                                                           .start = record->ranks[i]->start});
    for (size_t i = 0; i < record->n_files; i++) {
        take_remain(&remain, record->files[i]);
        remains_add_file(remains, &remain);
    }
    if (record->launcher)
        remains->launcher =
            (struct remain_process){.pid = (pid_t)record->launcher->pid, .start = record->launcher->start};
    if (record->session) {
        take_remain(&remains->session, record->session);
        remains->session.path = strdup(record->session->path);
    }
}

/* NULL: nothing, or no memory. */
static struct renewal *take_renewed(const Belay__Agent__JobRecord *record)
{
    struct renewed_id *ids = record->n_renewed ? calloc(record->n_renewed, sizeof *ids) : NULL;
    for (size_t i = 0; ids && i < record->n_renewed; i++)
        ids[i] = (struct renewed_id){record->renewed[i]->kind, record->renewed[i]->id,
                                     record->renewed[i]->kernel_id};
    struct renewal *renewal = ids ? renewal_of_ids(ids, (uint32_t)record->n_renewed) : NULL;
    free(ids);
    return renewal;
}

/* What restarts have made since the record was written, if they have made anything (fd -1: not). */
static int take_made(struct job *job, int fd, struct belay_error *err)
{
    char name[KEEPER_NAME_BYTES];
    snprintf(name, sizeof name, "%s" JOB_MADE, job->name);
    if (fd < 0)
        return 0;
    struct made_list *list = made_list_map(fd, err);
    if (!list || keeper_put(job->agent->keeper, name, fd, err) < 0) {
        made_list_unmap(list);
        close(fd);
        return -1;
    }
    job->renewal = renewal_add_made(job->renewal, list);
    made_list_unmap(list);
    job->made_fd = fd;
    return 0;
}

/* What a descriptor of a line is called at the keeper, behind the name of its job. */
struct held_name {
    enum held_kind { HELD_IMAGE, HELD_DELTA, HELD_SPARE, HELD_PARCEL, HELD_KINDS } kind;
    uint64_t line;
    uint32_t number;
    bool is_copied;
};

static bool read_held_name(const char *text, struct held_name *name)
{
    static const char *const kinds[HELD_KINDS] = {"image", "delta", "spare", "parcel"};
    char kind[8];
    int end = 0;
    *name = (struct held_name){.kind = HELD_KINDS};
    if (sscanf(text, "/%7[a-z]/%" SCNu64 "/%" SCNu32 "%n", kind, &name->line, &name->number, &end) != 3)
        return false;
    for (int i = 0; i < HELD_KINDS; i++)
        if (!strcmp(kind, kinds[i]))
            name->kind = (enum held_kind)i;
    name->is_copied = !strcmp(text + end, PARCELS_COPIED);
    return name->kind != HELD_KINDS && (!text[end] || (name->kind == HELD_PARCEL && name->is_copied));
}

static int take_held(struct job *job, const struct held_name *name, int fd, struct belay_error *err)
{
    switch (name->kind) {
    case HELD_PARCEL:
        return parcels_adopt(&job->parcels, name->line, name->number, name->is_copied, fd, err);
    case HELD_SPARE:
        return store_adopt_spare(job->store, name->line, name->number, fd, err);
    default:
        return store_adopt_item(job->store, name->kind == HELD_DELTA, name->line, name->number, fd, err);
    }
}

/* What is of no use to the committed line, and not protected either, is dropped by the store. */
static int take_images(struct job *job, struct leftovers *all, struct belay_error *err)
{
    size_t length = strlen(job->name);
    for (size_t i = 0; i < all->count; i++) {
        struct leftover *item = &all->items[i];
        if (item->fd < 0 || strncmp(item->name, job->name, length))
            continue;
        struct held_name name;
        if (!read_held_name(item->name + length, &name))
            continue;
        int fd = item->fd;
        item->fd = -1;
        int rc = take_held(job, &name, fd, err);
        if (rc < 0)
            return -1;
    }
    return store_adopt_done(job->store, err);
}

/* The commit record knows of lines that ended after the job's record was saved. */
static void take_lines(struct job *job)
{
    size_t count;
    const struct commit_entry *entries = commits_entries(store_commits(job->store), &count);
    for (size_t i = 0; i < count; i++) {
        if (entries[i].line > job->last_line)
            job->last_line = entries[i].line;
        history_take_entry(&job->history, &entries[i]);
    }
}

static int take_fd(struct leftovers *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++) {
        if (all->items[i].fd >= 0 && !strcmp(all->items[i].name, name)) {
            int fd = all->items[i].fd;
            all->items[i].fd = -1;
            return fd;
        }
    }
    return -1;
}
