/* apply.c - see undo.h: files are put back, step by step, the latest change first. */
#include "node-agent/undo/apply.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/fault/fault.h"
#include "common/util/escape.h"
#include "node-agent/shared/sysv.h"
#include "node-agent/undo/folder.h"
#include "node-agent/undo/progress.h"

#define PATHLESS "a file whose path cannot be told" /* what ranks note with the path "/" */
#define TOLD_MAX 10u /* files that are left: so many are named, the others are counted */

enum outcome apply_left(struct apply *apply, const struct file_id *id, const char *path, const char *reason)
{
    char shown[ESCAPE_PATH_BYTES], text[ESCAPE_PATH_BYTES + 256];
    struct plan_file *file = id->inode ? plan_file(&apply->plan, id) : NULL;
    bool is_told = file && file->marks & PLAN_TOLD;
    if (file)
        file->marks |= PLAN_TOLD;
    if (is_told)
        return OUTCOME_LEFT;
    escape_text(shown, sizeof shown, path);
    snprintf(text, sizeof text, "%s is left as it is: %s", strcmp(path, "/") ? shown : PATHLESS, reason);
    if (apply->left++ < TOLD_MAX)
        apply->request->say(apply->request->context, text);
    return OUTCOME_LEFT;
}

enum outcome apply_failed(struct apply *apply, const char *path, const char *what)
{
    char shown[ESCAPE_PATH_BYTES];
    int code = errno ? errno : EIO;
    snprintf(apply->why, sizeof apply->why, "%s", what ? what : strerror(code));
    belay_error_set(apply->err, code, "%s could not be put back as it was at the line: %s",
                    escape_text(shown, sizeof shown, path), apply->why);
    errno = code;
    return OUTCOME_FAILED;
}

/* ---- steps ---- */

static enum outcome step_sysv(struct apply *apply, const struct undo_entry *entry)
{
    int32_t number = (int32_t)entry->offset;
    int rc = entry->kind == UNDO_SYSV_KEY ? sysv_remove_key(entry->mode, number, entry->extent)
                                          : sysv_remove(entry->mode, number);
    if (rc == 0)
        return OUTCOME_DONE;
    return errno == EPERM || errno == EACCES
               ? apply_left(apply, &entry->id, apply->path, "an object in it belongs to another user")
               : apply_failed(apply, apply->path, NULL);
}

static enum outcome do_step(struct apply *apply, const struct plan_step *step)
{
    switch (step->entry.kind) {
    case UNDO_LENGTH:
    case UNDO_DATA:
    case UNDO_HOLE:
        return step_content(apply, step);
    case UNDO_CREATED:
    case UNDO_MADE:
        return step_made(apply, step);
    case UNDO_REMOVED:
        return step_removed(apply, step);
    case UNDO_LINK:
        return step_link(apply, step);
    case UNDO_FOLDER:
        return step_folder(apply, step);
    case UNDO_RENAMED:
        return step_renamed(apply, step);
    case UNDO_NODE:
        return step_node(apply, step);
    case UNDO_ATTRIBUTES:
        return step_attributes(apply, step);
    case UNDO_UNPROTECTED:
        return apply_left(apply, &step->entry.id, apply->path, "it was not protected");
    case UNDO_SYSV_KEY:
    case UNDO_SYSV_ID:
        return step_sysv(apply, &step->entry);
    }
    return OUTCOME_DONE;
}

static enum outcome try_step(struct apply *apply, const struct plan_step *step)
{
    if (plan_path(step, apply->path) < 0) {
        strcpy(apply->path, "/");
        return apply_failed(apply, "a file", "its entry in the undo log is damaged");
    }
    if (fault_hit("agent.undo.step", -1, apply->number)) {
        errno = EIO;
        return apply_failed(apply, apply->path, NULL);
    }
    return do_step(apply, step);
}

static bool is_common(const struct undo_request *request, uint64_t device)
{
    for (size_t i = 0; i < request->common_count; i++)
        if (request->common_devices[i] == device)
            return true;
    return false;
}

/* Its folder is not here, and was on a file system that a lost host had for itself. */
static bool is_lost_with_host(const struct apply *apply, const struct plan_step *step, int code)
{
    const struct undo_request *request = apply->request;
    bool is_elsewhere = code == ENOENT || code == ELOOP || code == ENOTDIR || code == ESTALE;
    return is_elsewhere && request->is_lost && step->log->rank < request->rank_count &&
           request->is_lost[step->log->rank] && step->entry.folder.inode &&
           !is_common(request, step->entry.folder.device);
}

static enum outcome take_step(struct apply *apply, const struct plan_step *step)
{
    enum outcome outcome = try_step(apply, step);
    int code = errno;
    if (outcome == OUTCOME_FAILED && is_lost_with_host(apply, step, code))
        outcome = apply_left(apply, &step->entry.id, apply->path, "only a host that is lost had it");
    if (outcome == OUTCOME_FAILED && apply->request->leaves_failed)
        outcome = apply_left(apply, &step->entry.id, apply->path, apply->why);
    fault_hit("agent.undo.stepped", -1, apply->number);
    return outcome;
}

static int take_steps(struct apply *apply, struct progress *progress, int fd)
{
    for (uint64_t i = progress->done; i < apply->plan.count; i++) {
        apply->number = i + 1;
        __atomic_store_n(&apply->request->done, i, __ATOMIC_RELAXED);
        if (__atomic_load_n(&apply->request->is_cancelled, __ATOMIC_RELAXED))
            return belay_error_set(apply->err, ECANCELED, "the agent ends while it puts files back");
        if (apply->request->fence && fence_is_over(apply->request->fence))
            return belay_error_set(apply->err, ETIME,
                                   "the lease of this node has ended while it puts files back");
        if (take_step(apply, &apply->plan.steps[i]) == OUTCOME_FAILED)
            return -1;
        progress->done = i + 1;
        progress->left = apply->left;
        if (progress_save(fd, progress) < 0)
            return belay_error_errno(apply->err,
                                     "cannot note in the undo directory how far files are put back");
    }
    return 0;
}

/* ---- a run ---- */

/* For a new run, or one that was taken up: what is to be done, and what was done of it. */
static int prepare(struct apply *apply)
{
    int line = folder_open_line(apply->folder, apply->request->line);
    int rc = undo_replaced_read(line, &apply->replaced);
    if (rc < 0)
        belay_error_errno(apply->err, "the list of files that were made anew cannot be read");
    if (line >= 0)
        close(line);
    return rc < 0 ? -1 : plan_read(apply->folder, apply->request->line, &apply->plan, apply->err);
}

static int run(struct apply *apply, struct progress *progress, int fd)
{
    apply->left = progress->left;
    __atomic_store_n(&apply->request->steps, apply->plan.count, __ATOMIC_RELAXED);
    int rc = take_steps(apply, progress, fd);
    step_content_end(apply);
    place_close(&apply->place);
    place_close(&apply->other);
    if (apply->replaced_fd >= 0)
        close(apply->replaced_fd);
    if (rc == 0 && apply->left > TOLD_MAX) {
        char text[64];
        snprintf(text, sizeof text, "%" PRIu64 " files in all are left as they are", apply->left);
        apply->request->say(apply->request->context, text);
    }
    return rc;
}

static int empty_line(void *context, uint64_t line, int fd)
{
    const struct apply *apply = context;
    (void)fd;
    if (line < apply->request->line)
        return 0;
    folder_empty_line(apply->folder, line, line == apply->request->line ? UNDO_REPLACED : NULL);
    return 0;
}

/* From here on nothing is undone again, whatever is still there. */
static int forget(struct apply *apply, struct progress *progress, int fd)
{
    progress->done = PROGRESS_ALL;
    fault_hit("agent.undo.end", -1, apply->request->line);
    if (progress_save(fd, progress) < 0)
        return belay_error_errno(apply->err, "cannot note in the undo directory that files are put back");
    fault_hit("agent.undo.forget", -1, apply->request->line);
    folder_each_line(apply->folder, empty_line, apply);
    progress_remove(apply->folder);
    fault_hit("agent.undo.forgotten", -1, apply->request->line);
    return 0;
}

static int apply_in(struct apply *apply, struct belay_error *err)
{
    struct progress progress = {.line = apply->request->line};
    fault_hit("agent.undo.begin", -1, apply->request->line);
    if (prepare(apply) < 0)
        return -1;
    progress.steps = apply->plan.count;
    if (progress.steps == 0 && !progress_exists(apply->folder))
        return folder_each_line(apply->folder, empty_line, apply);
    int fd = progress_open(apply->folder, &progress, err);
    if (fd < 0)
        return -1;
    int rc = progress.done == PROGRESS_ALL ? 0 : run(apply, &progress, fd);
    if (rc == 0)
        rc = forget(apply, &progress, fd);
    apply->left = progress.left;
    close(fd);
    return rc;
}

/* The agents of several nodes may have one folder. */
static int wait_for_others(const struct apply *apply)
{
    while (flock(apply->folder, LOCK_EX) < 0)
        if (errno != EINTR)
            return belay_error_errno(apply->err, "the undo directory cannot be locked");
    return 0;
}

int undo_apply(const struct undo_folder *folder, struct undo_request *request, uint64_t *left,
               struct belay_error *err)
{
    struct belay_error unheard;
    *left = 0;
    if (!folder->path[0])
        return 0;
    struct apply *apply = calloc(1, sizeof *apply);
    if (!apply)
        return belay_error_set(err, ENOMEM, "no memory to put files back as they were at the line");
    undo_forget_before(folder, request->keeps_from ? request->keeps_from : request->line);
    apply->request = request;
    apply->err = err ? err : &unheard;
    apply->place.folder = apply->other.folder = apply->target = apply->replaced_fd = -1;
    apply->folder = folder_open(folder, apply->err);
    int rc = apply->folder < 0 ? -1 : wait_for_others(apply);
    if (rc == 0)
        rc = apply_in(apply, apply->err);
    if (apply->folder >= 0)
        close(apply->folder);
    *left = apply->left;
    plan_release(&apply->plan);
    undo_replaced_release(&apply->replaced);
    free(apply);
    return rc;
}
