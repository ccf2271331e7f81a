#include "node-agent/undo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/wire/undo.h"
#include "node-agent/tree.h"

#define IN_RUNDIR "undo"
#define PATH_BYTES (UNDO_FOLDER_BYTES + 64)

/* One rank's log of one line. */
struct log {
    struct log *next;
    uint64_t line;
    uint32_t rank;
    char *bytes; /* mapped */
    size_t count;
};

/* One entry, checked; path and data are in a log. */
struct step {
    struct undo_entry entry;
    const struct log *log;
    const char *path, *data;
};

struct plan {
    const char *folder;
    struct log *logs;
    struct step *steps;
    size_t count, room;
    int fd; /* of the file that was changed last, -1: none */
    const char *fd_path;
};

typedef void line_visit_f(void *context, uint64_t line, const char *path);

int undo_folder_of(const char *rundir, const char *base, const char *job, char folder[UNDO_FOLDER_BYTES],
                   struct belay_error *err)
{
    int length;
    if (!base || !base[0])
        length = snprintf(folder, UNDO_FOLDER_BYTES, "%s/" IN_RUNDIR "/%s", rundir, job);
    else if (base[0] != '/')
        return belay_error_set(err, EINVAL, "the undo directory %.300s is not an absolute path", base);
    else
        length = snprintf(folder, UNDO_FOLDER_BYTES, "%s/%s.undo", base, job);
    if (length >= UNDO_FOLDER_BYTES) {
        folder[0] = '\0';
        return belay_error_set(err, ENAMETOOLONG, "the undo directory's path is too long");
    }
    return 0;
}

static bool is_in_rundir(const char *folder)
{
    size_t length = strlen(folder);
    return length < 5 || strcmp(folder + length - 5, ".undo") != 0;
}

int undo_create(const char *folder, struct belay_error *err)
{
    char base[UNDO_FOLDER_BYTES];
    if (is_in_rundir(folder)) {
        undo_remove(folder);
        snprintf(base, sizeof base, "%.*s", (int)(strrchr(folder, '/') - folder), folder);
        mkdir(base, 0700);
    }
    if (mkdir(folder, 0700) == 0)
        return 0;
    if (errno == EEXIST)
        return belay_error_set(err, EEXIST,
                               "%.400s is there already: another job uses it, or has left it; remove it then",
                               folder);
    return belay_error_errno(err, "cannot make the undo directory %.400s", folder);
}

static void for_each_line(const char *folder, line_visit_f *visit, void *context)
{
    char path[PATH_BYTES];
    DIR *directory = opendir(folder);
    struct dirent *item;
    while (directory && (item = readdir(directory))) {
        char *end;
        uint64_t line = strtoull(item->d_name, &end, 10);
        if (item->d_name[0] == '.' || *end)
            continue;
        snprintf(path, sizeof path, "%s/%" PRIu64, folder, line);
        visit(context, line, path);
    }
    if (directory)
        closedir(directory);
}

static void remove_if_before(void *context, uint64_t line, const char *path)
{
    if (line < *(const uint64_t *)context)
        tree_remove(path);
}

void undo_forget_before(const char *folder, uint64_t line)
{
    if (folder[0])
        for_each_line(folder, remove_if_before, &line);
}

void undo_remove(const char *folder)
{
    if (folder[0])
        tree_remove(folder);
}

void undo_remove_base(const char *rundir)
{
    char base[UNDO_FOLDER_BYTES];
    snprintf(base, sizeof base, "%s/" IN_RUNDIR, rundir);
    rmdir(base);
}

/* ---- reading the logs ---- */

static void map_log(struct plan *plan, uint64_t line, uint32_t rank, int fd)
{
    struct stat st;
    struct log *log = NULL;
    void *bytes = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0)
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes != MAP_FAILED && !(log = calloc(1, sizeof *log)))
        munmap(bytes, (size_t)st.st_size);
    if (fd >= 0)
        close(fd);
    if (!log)
        return;
    *log = (struct log){plan->logs, line, rank, bytes, (size_t)st.st_size};
    plan->logs = log;
}

static void map_logs_of_line(void *context, uint64_t line, const char *path)
{
    struct plan *plan = context;
    DIR *directory = opendir(path);
    struct dirent *item;
    while (directory && (item = readdir(directory))) {
        uint32_t rank;
        int end = 0;
        if (sscanf(item->d_name, "%" SCNu32 ".log%n", &rank, &end) == 1 && end > 0 && !item->d_name[end])
            map_log(plan, line, rank, openat(dirfd(directory), item->d_name, O_RDONLY | O_CLOEXEC));
    }
    if (directory)
        closedir(directory);
}

static int add_step(struct plan *plan, const struct step *step)
{
    if (plan->count == plan->room) {
        size_t room = plan->room ? 2 * plan->room : 256;
        struct step *larger = realloc(plan->steps, room * sizeof *larger);
        if (!larger)
            return -1;
        plan->steps = larger;
        plan->room = room;
    }
    plan->steps[plan->count++] = *step;
    return 0;
}

/* All whole entries. A rank that was killed may have left the last one cut short. */
static int read_log(struct plan *plan, const struct log *log)
{
    size_t at = 0;
    struct step step = {.log = log};
    while (log->count - at > sizeof step.entry) {
        memcpy(&step.entry, log->bytes + at, sizeof step.entry);
        size_t left = log->count - at - sizeof step.entry;
        const struct undo_entry *entry = &step.entry;
        if (entry->magic != UNDO_MAGIC || entry->path_bytes < 2 || entry->path_bytes > UNDO_PATH_BYTES ||
            entry->path_bytes > left || entry->data_bytes > left - entry->path_bytes)
            return 0;
        step.path = log->bytes + at + sizeof step.entry;
        step.data = step.path + entry->path_bytes;
        if (step.path[0] != '/' || step.path[entry->path_bytes - 1])
            return 0;
        if (add_step(plan, &step) < 0)
            return -1;
        at += sizeof step.entry + entry->path_bytes + entry->data_bytes;
    }
    return 0;
}

static int compare_latest_first(const void *left, const void *right)
{
    uint64_t one = ((const struct step *)left)->entry.time_ns;
    uint64_t other = ((const struct step *)right)->entry.time_ns;
    return one < other ? 1 : one > other ? -1 : 0;
}

/* ---- undoing ---- */

static void close_file(struct plan *plan)
{
    if (plan->fd >= 0)
        close(plan->fd);
    plan->fd = -1;
    plan->fd_path = NULL;
}

static int open_file(struct plan *plan, const char *path)
{
    if (plan->fd_path && !strcmp(plan->fd_path, path))
        return 0;
    close_file(plan);
    plan->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    plan->fd_path = plan->fd >= 0 ? path : NULL;
    return plan->fd >= 0 ? 0 : -1;
}

static int undo_data(struct plan *plan, const struct step *step)
{
    size_t count = step->entry.data_bytes;
    if (open_file(plan, step->path) < 0)
        return -1;
    for (size_t done = 0; done < count;) {
        ssize_t put = pwrite(plan->fd, step->data + done, count - done, (off_t)(step->entry.offset + done));
        if (put <= 0)
            return -1;
        done += (size_t)put;
    }
    return 0;
}

static int undo_length(struct plan *plan, const struct step *step)
{
    struct stat st;
    if (open_file(plan, step->path) < 0 || fstat(plan->fd, &st) < 0)
        return -1;
    return (uint64_t)st.st_size == step->entry.offset ? 0 : ftruncate(plan->fd, (off_t)step->entry.offset);
}

/* Nothing there is as good: it had been noted before it was to be made. */
static int remove_any(const char *path)
{
    if (unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR)
        return 0;
    return errno == EISDIR || errno == EPERM ? rmdir(path) : -1;
}

static int copy_file(const char *from, const char *to, uint32_t mode)
{
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = in >= 0 ? open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    ssize_t got = out >= 0 ? 1 : -1;
    while (got > 0)
        got = sendfile(out, in, NULL, 1 << 30);
    if (got == 0 && fchmod(out, mode) < 0)
        got = -1;
    int code = errno;
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    errno = code;
    return got == 0 ? 0 : -1;
}

static int undo_removed(const struct plan *plan, const struct step *step)
{
    char kept[PATH_BYTES + 64];
    snprintf(kept, sizeof kept, "%s/%" PRIu64 "/%" PRIu32 "-%" PRIu64 ".kept", plan->folder, step->log->line,
             step->log->rank, step->entry.offset);
    if (remove_any(step->path) < 0)
        return -1;
    return link(kept, step->path) == 0 ? 0 : copy_file(kept, step->path, step->entry.mode);
}

static int undo_link(const struct step *step)
{
    char target[UNDO_PATH_BYTES + 1];
    if (step->entry.data_bytes > UNDO_PATH_BYTES)
        return 0;
    memcpy(target, step->data, step->entry.data_bytes);
    target[step->entry.data_bytes] = '\0';
    return remove_any(step->path) < 0 ? -1 : symlink(target, step->path);
}

static int undo_renamed(const struct step *step)
{
    bool is_text = step->entry.data_bytes > 0 && !step->data[step->entry.data_bytes - 1];
    unsigned flags = step->entry.mode & RENAME_EXCHANGE;
    if (!is_text || renameat2(AT_FDCWD, step->data, AT_FDCWD, step->path, flags) == 0 || errno == ENOENT)
        return 0;
    return -1;
}

static int undo_step(struct plan *plan, const struct step *step)
{
    if (step->entry.kind != UNDO_DATA && step->entry.kind != UNDO_LENGTH)
        close_file(plan); /* its path may become another file's */
    switch (step->entry.kind) {
    case UNDO_DATA:
        return undo_data(plan, step);
    case UNDO_LENGTH:
        return undo_length(plan, step);
    case UNDO_CREATED:
        return remove_any(step->path);
    case UNDO_REMOVED:
        return undo_removed(plan, step);
    case UNDO_LINK:
        return undo_link(step);
    case UNDO_FOLDER:
        return mkdir(step->path, step->entry.mode) == 0 || errno == EEXIST ? 0 : -1;
    case UNDO_RENAMED:
        return undo_renamed(step);
    }
    return 0;
}

static int undo_all(struct plan *plan, struct belay_error *err)
{
    int rc = 0;
    qsort(plan->steps, plan->count, sizeof *plan->steps, compare_latest_first);
    for (size_t i = 0; i < plan->count; i++)
        if (undo_step(plan, &plan->steps[i]) < 0 && rc == 0)
            rc = belay_error_errno(err, "%.400s could not be put back as it was at the line",
                                   plan->steps[i].path);
    close_file(plan);
    return rc;
}

static void release(struct plan *plan)
{
    for (struct log *log = plan->logs, *next; log; log = next) {
        next = log->next;
        munmap(log->bytes, log->count);
        free(log);
    }
    free(plan->steps);
}

int undo_apply(const char *folder, uint64_t line, struct belay_error *err)
{
    struct plan plan = {.folder = folder, .fd = -1};
    const uint64_t all = UINT64_MAX;
    int rc = 0;
    if (!folder[0])
        return 0;
    undo_forget_before(folder, line);
    for_each_line(folder, map_logs_of_line, &plan);
    for (const struct log *log = plan.logs; log && rc == 0; log = log->next)
        rc = read_log(&plan, log);
    if (rc < 0)
        belay_error_set(err, ENOMEM, "no memory to put files back as they were at the line");
    else
        rc = undo_all(&plan, err);
    release(&plan);
    undo_forget_before(folder, all);
    return rc;
}
