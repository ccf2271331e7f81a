/* content.c - see apply.h: data and length of files. */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <unistd.h>

#include "node-agent/undo/apply.h"

void step_content_end(struct apply *apply)
{
    if (apply->target >= 0)
        close(apply->target);
    apply->target = -1;
}

/* ---- the file ---- */

/* By an O_PATH descriptor of what is known to be the file. Nothing else can be opened by it. */
static enum outcome open_target(struct apply *apply, const struct plan_step *step, int found)
{
    apply->target = file_id_reopen_own(found, O_WRONLY | O_NONBLOCK | O_NOCTTY);
    int code = errno;
    close(found);
    errno = code;
    if (apply->target < 0)
        return apply_failed(apply, apply->place.path, NULL);
    apply->target_id = step->entry.id;
    return OUTCOME_DONE;
}

/* It was written to after it had been removed: what was set aside, if that is the file itself. */
static enum outcome open_kept(struct apply *apply, const struct plan_step *step,
                              const struct plan_step *removed)
{
    char name[UNDO_KEPT_NAME_BYTES];
    kept_name(removed, name);
    int folder = kept_open_folder(apply, removed);
    int kept = folder < 0 ? -1 : openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0)
        close(folder);
    if (kept >= 0 && file_id_is_of(&step->entry.id, kept))
        return open_target(apply, step, kept);
    if (kept >= 0)
        close(kept);
    return OUTCOME_LEFT; /* a copy, which has not been written to */
}

/* OUTCOME_LEFT: there is nothing to do, or it has been told that nothing can be done. */
static enum outcome find_target(struct apply *apply, const struct plan_step *step)
{
    const struct file_id *id = &step->entry.id;
    const struct plan_file *file = plan_find(&apply->plan, id);
    if (file && file->marks & (PLAN_MADE | PLAN_UNPROTECTED))
        return OUTCOME_LEFT;
    bool is_after_removal = file && file->removed && file->removed->time_ns < step->time_ns;
    int found = place_open(apply, &apply->place, apply->path, &step->entry.folder);
    if (found < 0 && !is_after_removal && !(step->entry.mode & UNDO_ALSO_HELD))
        return apply_failed(apply, apply->path, place_reason(errno));
    if (found == 0)
        found = place_find(apply, &apply->place, id);
    if (found >= 0)
        return open_target(apply, step, found);
    if (is_after_removal)
        return open_kept(apply, step, file->removed);
    if (step->entry.mode & UNDO_ALSO_HELD)
        return OUTCOME_LEFT;
    return apply_left(apply, id, apply->path,
                      place_is_free(&apply->place) ? "it has been removed" : "another file is in its place");
}

/* ---- what is done to it ---- */

static int put(int fd, const char *data, size_t count, uint64_t offset)
{
    for (size_t done = 0; done < count;) {
        ssize_t put = pwrite(fd, data + done, count - done, (off_t)(offset + done));
        if (put <= 0) {
            errno = put == 0 ? ENOSPC : errno;
            return -1;
        }
        done += (size_t)put;
    }
    return 0;
}

/* A hole again or, where the file system makes none, zeros. */
static int put_hole(struct apply *apply, uint64_t offset, uint64_t bytes)
{
    struct stat st;
    if (fstat(apply->target, &st) < 0)
        return -1;
    if (offset >= (uint64_t)st.st_size || bytes == 0)
        return 0; /* the length comes last */
    if (fallocate(apply->target, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes) ==
        0)
        return 0;
    if (errno != EOPNOTSUPP)
        return -1;
    memset(apply->data, 0, UNDO_DATA_BYTES);
    for (uint64_t done = 0; done < bytes && offset + done < (uint64_t)st.st_size; done += UNDO_DATA_BYTES) {
        uint64_t part = bytes - done < UNDO_DATA_BYTES ? bytes - done : UNDO_DATA_BYTES;
        if (put(apply->target, apply->data, part, offset + done) < 0)
            return -1;
    }
    return 0;
}

static int put_length(int fd, uint64_t bytes)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -1;
    return (uint64_t)st.st_size == bytes ? 0 : ftruncate(fd, (off_t)bytes);
}

static int put_back(struct apply *apply, const struct plan_step *step)
{
    const struct undo_entry *entry = &step->entry;
    if (entry->kind == UNDO_LENGTH) {
        int rc = put_length(apply->target, entry->offset);
        attributes_put_times(apply, step, apply->target);
        return rc;
    }
    if (entry->kind == UNDO_HOLE)
        return put_hole(apply, entry->offset, entry->extent);
    if (plan_data(step, apply->data) < 0)
        return -1;
    return put(apply->target, apply->data, entry->data_bytes, entry->offset);
}

enum outcome step_content(struct apply *apply, const struct plan_step *step)
{
    if (apply->target < 0 || !file_id_is_same(&apply->target_id, &step->entry.id)) {
        step_content_end(apply);
        if (!S_ISREG(step->entry.id.mode)) {
            errno = EBADMSG;
            return apply_failed(apply, apply->path, NULL);
        }
        enum outcome outcome = find_target(apply, step);
        if (outcome != OUTCOME_DONE)
            return outcome;
    }
    if (put_back(apply, step) < 0)
        return apply_failed(apply, apply->path, NULL);
    return OUTCOME_DONE;
}
