#include "node-agent/undo/plan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/array.h"
#include "node-agent/undo/folder.h"

/* While logs are read. */
struct reading {
    struct plan *plan;
    struct belay_error *err;
    uint64_t first_line;
};

/* ---- what is known of files ---- */

static struct plan_file **bucket(const struct plan *plan, const struct file_id *id)
{
    uint64_t mixed = (id->inode ^ id->device) * 0x9e3779b97f4a7c15ull;
    return (struct plan_file **)(uintptr_t)&plan->files[mixed >> 52];
}

struct plan_file *plan_find(const struct plan *plan, const struct file_id *id)
{
    struct plan_file *file = *bucket(plan, id);
    while (file && !file_id_is_same(&file->id, id))
        file = file->next;
    return file;
}

struct plan_file *plan_file(struct plan *plan, const struct file_id *id)
{
    struct plan_file *file = plan_find(plan, id);
    if (file || !(file = calloc(1, sizeof *file)))
        return file;
    struct plan_file **first = bucket(plan, id);
    file->id = *id;
    file->next = *first;
    *first = file;
    return file;
}

static int mark(struct plan *plan, const struct file_id *id, unsigned marks)
{
    struct plan_file *file = id->inode ? plan_file(plan, id) : NULL;
    if (file)
        file->marks |= marks;
    return file || !id->inode ? 0 : -1;
}

/* ---- entries ---- */

static struct plan_step *add(struct plan *plan, const struct plan_step *step)
{
    if (array_reserve(&plan->steps, plan->count + 1, &plan->room) < 0)
        return NULL;
    plan->steps[plan->count] = *step;
    return &plan->steps[plan->count++];
}

/* The entry of the same log that was made at a time; they ascend. */
static struct plan_step *find_in_log(const struct plan *plan, const struct plan_log *log, uint64_t time_ns)
{
    for (size_t i = plan->count; i-- > 0 && plan->steps[i].log == log;)
        if (plan->steps[i].entry.time_ns <= time_ns)
            return plan->steps[i].entry.time_ns == time_ns ? &plan->steps[i] : NULL;
    return NULL;
}

/* Something was made: as it was announced, or behind a link. */
static int take_made(struct plan *plan, const struct plan_step *step)
{
    const struct undo_entry *entry = &step->entry;
    struct plan_step *announced =
        entry->offset ? find_in_log(plan, step->log, entry->offset) : add(plan, step);
    if (!announced)
        return entry->offset ? 0 : -1;
    announced->entry.kind = UNDO_MADE;
    announced->entry.id = entry->id;
    return entry->mode & UNDO_MADE_LINK ? 0 : mark(plan, &entry->id, PLAN_MADE);
}

static int take(struct plan *plan, const struct plan_step *step)
{
    struct plan_step *withdrawn;
    switch (step->entry.kind) {
    case UNDO_MADE:
        return take_made(plan, step);
    case UNDO_WITHDRAWN:
        withdrawn = find_in_log(plan, step->log, step->entry.offset);
        if (withdrawn)
            withdrawn->entry.kind = UNDO_NONE;
        return 0;
    case UNDO_UNPROTECTED:
        if (mark(plan, &step->entry.id, PLAN_UNPROTECTED) < 0)
            return -1;
        break;
    default:
        break;
    }
    return add(plan, step) ? 0 : -1;
}

static bool is_sound(const struct undo_entry *entry)
{
    return entry->magic == UNDO_MAGIC && entry->kind > UNDO_NONE && entry->kind < UNDO_KINDS &&
           entry->path_bytes >= 2 && entry->path_bytes <= UNDO_PATH_BYTES &&
           entry->data_bytes <= UNDO_DATA_BYTES && entry->offset <= INT64_MAX && entry->extent <= INT64_MAX;
}

/* All whole entries. A rank that was killed may have left the last one cut short. */
static int read_entries(struct plan *plan, const struct plan_log *log, uint64_t bytes,
                        struct belay_error *err)
{
    struct plan_step step = {.log = log};
    struct undo_entry *entry = &step.entry;
    for (uint64_t at = sizeof(struct undo_head); bytes - at >= sizeof *entry;) {
        if (pread(log->fd, entry, sizeof *entry, (off_t)at) != sizeof *entry)
            return belay_error_errno(err, "an undo log of rank %" PRIu32 " cannot be read", log->rank);
        if (!is_sound(entry))
            return belay_error_set(err, EBADMSG,
                                   "the undo log of rank %" PRIu32 " at line %" PRIu64 " is damaged",
                                   log->rank, log->line);
        at += sizeof *entry;
        if (entry->path_bytes + entry->data_bytes > bytes - at)
            return 0;
        step.at = at;
        step.stored_ns = entry->stored_ns;
        step.time_ns = entry->time_ns;
        if (take(plan, &step) < 0)
            return belay_error_set(err, ENOMEM, "no memory to put files back as they were at the line");
        at += entry->path_bytes + entry->data_bytes;
    }
    return 0;
}

/* ---- logs ---- */

static int read_log(struct plan *plan, const struct plan_log *log, struct belay_error *err)
{
    struct stat st;
    struct undo_head head;
    if (!folder_is_own(log->fd, S_IFREG) || fstat(log->fd, &st) < 0)
        return belay_error_set(err, EPERM, "an undo log of rank %" PRIu32 " is not ours", log->rank);
    ssize_t got = pread(log->fd, &head, sizeof head, 0);
    if (got < 0)
        return belay_error_errno(err, "an undo log of rank %" PRIu32 " cannot be read", log->rank);
    if (got < (ssize_t)sizeof head) /* its rank was killed as it began */
        return 0;
    if (head.magic != UNDO_HEAD_MAGIC || head.version != UNDO_VERSION || head.rank != log->rank ||
        head.line != log->line)
        return belay_error_set(err, EBADMSG,
                               "the undo log of rank %" PRIu32 " at line %" PRIu64
                               " is damaged, or of another version",
                               log->rank, log->line);
    return read_entries(plan, log, (uint64_t)st.st_size, err);
}

static int add_log(struct reading *reading, uint64_t line, uint32_t rank, int fd)
{
    struct plan_log *log = fd < 0 ? NULL : calloc(1, sizeof *log);
    if (!log) {
        belay_error_errno(reading->err, "an undo log of rank %" PRIu32 " cannot be opened", rank);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    *log = (struct plan_log){.next = reading->plan->logs, .line = line, .rank = rank, .fd = fd};
    reading->plan->logs = log;
    return read_log(reading->plan, log, reading->err);
}

static int read_line(void *context, uint64_t line, int folder)
{
    struct reading *reading = context;
    struct dirent **names;
    if (line < reading->first_line)
        return 0;
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
    int count =
        copy < 0 || !folder_is_own(copy, S_IFDIR) ? -1 : scandirat(copy, ".", &names, NULL, alphasort);
    if (count < 0)
        rc = belay_error_errno(reading->err, "the undo folder of line %" PRIu64 " cannot be read", line);
    for (int i = 0; i < count; i++) {
        uint32_t rank;
        int end = 0;
        const char *name = names[i]->d_name;
        bool is_log = sscanf(name, "%" SCNu32 ".log%n", &rank, &end) == 1 && end > 0 && !name[end];
        if (is_log && rc == 0)
            rc = add_log(reading, line, rank,
                         openat(copy, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    if (copy >= 0)
        close(copy);
    return rc;
}

/* In one log they ascend; between two that tell of the same moment, any order that is always the same. */
static int compare_latest_first(const void *left, const void *right)
{
    const struct plan_step *one = left, *other = right;
    if (one->stored_ns != other->stored_ns)
        return one->stored_ns < other->stored_ns ? 1 : -1;
    if (one->time_ns != other->time_ns)
        return one->time_ns < other->time_ns ? 1 : -1;
    if (one->log->line != other->log->line)
        return one->log->line < other->log->line ? 1 : -1;
    if (one->log->rank != other->log->rank)
        return one->log->rank < other->log->rank ? 1 : -1;
    return one->at < other->at ? 1 : one->at > other->at ? -1 : 0;
}

/* Steps that have come to nothing are left out. */
static void sort(struct plan *plan)
{
    size_t used = 0;
    for (size_t i = 0; i < plan->count; i++)
        if (plan->steps[i].entry.kind != UNDO_NONE)
            plan->steps[used++] = plan->steps[i];
    plan->count = used;
    if (used > 0)
        qsort(plan->steps, used, sizeof *plan->steps, compare_latest_first);
}

/* The last one in the list is the earliest. */
static int mark_removed(struct plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->steps[i].entry.kind != UNDO_REMOVED)
            continue;
        struct plan_file *file = plan_file(plan, &plan->steps[i].entry.id);
        if (!file)
            return -1;
        file->removed = &plan->steps[i];
    }
    return 0;
}

int plan_read(int folder, uint64_t first_line, struct plan *plan, struct belay_error *err)
{
    struct reading reading = {.plan = plan, .err = err, .first_line = first_line};
    *plan = (struct plan){0};
    if (err)
        err->text[0] = '\0';
    int rc = folder_each_line(folder, read_line, &reading);
    if (rc < 0 && err && !err->text[0])
        belay_error_errno(err, "the undo directory cannot be read");
    if (rc == 0) {
        sort(plan);
        rc = mark_removed(plan);
        if (rc < 0)
            belay_error_set(err, ENOMEM, "no memory to put files back as they were at the line");
    }
    if (rc < 0)
        plan_release(plan);
    return rc;
}

void plan_release(struct plan *plan)
{
    for (struct plan_log *log = plan->logs, *next; log; log = next) {
        next = log->next;
        close(log->fd);
        free(log);
    }
    for (size_t i = 0; i < PLAN_BUCKETS; i++)
        for (struct plan_file *file = plan->files[i], *next; file; file = next) {
            next = file->next;
            free(file);
        }
    free(plan->steps);
    *plan = (struct plan){0};
}

/* ---- what is in a log ---- */

static int read_text(const struct plan_step *step, uint64_t at, char *text, size_t bytes)
{
    ssize_t got = pread(step->log->fd, text, bytes, (off_t)at);
    if (got == (ssize_t)bytes)
        return 0;
    if (got >= 0)
        errno = EBADMSG;
    return -1;
}

int plan_path(const struct plan_step *step, char path[UNDO_PATH_BYTES])
{
    size_t bytes = step->entry.path_bytes;
    if (read_text(step, step->at, path, bytes) < 0)
        return -1;
    if (path[0] == '/' && !path[bytes - 1] && strlen(path) == bytes - 1)
        return 0;
    errno = EBADMSG;
    return -1;
}

int plan_data(const struct plan_step *step, char data[UNDO_DATA_BYTES + 1])
{
    data[step->entry.data_bytes] = '\0';
    return read_text(step, step->at + step->entry.path_bytes, data, step->entry.data_bytes);
}
