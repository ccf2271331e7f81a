/* name.c - see apply.h: names that were made go, names that were changed come back. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node-agent/undo/apply.h"

#define CLOCK_SLACK_NS 100000000ull /* times of files are those of the last tick, or of a server */

/* ---- made ---- */

static enum outcome take_away(struct apply *apply, const struct plan_step *step, bool is_folder)
{
    if (unlinkat(apply->place.folder, apply->place.name, is_folder ? AT_REMOVEDIR : 0) == 0 ||
        errno == ENOENT)
        return OUTCOME_DONE;
    if (is_folder && (errno == ENOTEMPTY || errno == EEXIST))
        return apply_left(apply, &step->entry.id, apply->path, "it holds what the job has not made");
    return apply_failed(apply, apply->path, NULL);
}

/* Its rank was killed before it could tell what it had made: ours, and not older than the call. */
static bool may_be_made(const struct plan_step *step, const struct stat *st)
{
    uint64_t changed_ns = (uint64_t)st->st_ctim.tv_sec * 1000000000u + (uint64_t)st->st_ctim.tv_nsec;
    return st->st_uid == geteuid() && changed_ns + CLOCK_SLACK_NS >= step->entry.extent;
}

enum outcome step_made(struct apply *apply, const struct plan_step *step)
{
    struct stat st;
    if (place_open(apply, &apply->place, apply->path, &step->entry.folder) < 0)
        return errno == ENOENT ? OUTCOME_DONE
                               : apply_left(apply, &step->entry.id, apply->path, place_reason(errno));
    if (fstatat(apply->place.folder, apply->place.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? OUTCOME_DONE : apply_failed(apply, apply->path, NULL);
    bool is_it = step->entry.kind == UNDO_MADE ? place_holds(apply, &apply->place, &step->entry.id)
                                               : may_be_made(step, &st);
    if (!is_it)
        return apply_left(apply, &step->entry.id, apply->path, "another file is in its place");
    return take_away(apply, step, S_ISDIR(st.st_mode));
}

/* ---- renamed ---- */

int place_move(int from_folder, const char *from, int to_folder, const char *to, bool is_exchange)
{
    struct stat st;
    unsigned flags = is_exchange ? RENAME_EXCHANGE : RENAME_NOREPLACE;
    if (renameat2(from_folder, from, to_folder, to, flags) == 0)
        return 0;
    if (is_exchange || (errno != EINVAL && errno != ENOSYS) ||
        fstatat(from_folder, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    /* A file system that knows no flags. A folder replaces nothing but an empty folder. */
    if (S_ISDIR(st.st_mode))
        return renameat(from_folder, from, to_folder, to);
    return linkat(from_folder, from, to_folder, to, 0) == 0 ? unlinkat(from_folder, from, 0) : -1;
}

/* The data of a step: where the new name is. NULL: they are damaged. */
static const char *read_target(struct apply *apply, const struct plan_step *step, struct undo_target *target)
{
    size_t bytes = step->entry.data_bytes;
    const char *path = apply->data + sizeof *target;
    errno = EBADMSG;
    if (bytes < sizeof *target + 2 || bytes > sizeof *target + UNDO_PATH_BYTES ||
        plan_data(step, apply->data) < 0)
        return NULL;
    memcpy(target, apply->data, sizeof *target);
    return path[0] == '/' && strlen(path) == bytes - sizeof *target - 1 ? path : NULL;
}

/* Somebody may have put another file there between our look and the move. */
static enum outcome move_back(struct apply *apply, const struct plan_step *step, bool is_exchange)
{
    const struct place *new = &apply->place, *old = &apply->other;
    if (place_move(new->folder, new->name, old->folder, old->name, is_exchange) < 0) {
        if (errno == EEXIST || errno == ENOENT)
            return apply_left(apply, &step->entry.id, apply->path, "another file is in its place");
        return apply_failed(apply, apply->path, NULL);
    }
    if (place_holds(apply, old, &step->entry.id))
        return OUTCOME_DONE;
    place_move(old->folder, old->name, new->folder, new->name, is_exchange);
    return apply_left(apply, &step->entry.id, apply->path, "another file came to its place");
}

static bool is_made(const struct apply *apply, const struct file_id *id)
{
    const struct plan_file *file = plan_find(&apply->plan, id);
    return file && file->marks & PLAN_MADE;
}

/*
 * Of two that were exchanged, one was new and has been removed since: it is not kept. The other one goes back
 * alone. False: it is not so.
 */
static bool move_one(struct apply *apply, const struct file_id *id, const struct file_id *target,
                     enum outcome *outcome)
{
    const struct place *new = &apply->place, *old = &apply->other;
    bool is_first = is_made(apply, target) && place_is_free(old) && place_holds(apply, new, id);
    bool is_second = is_made(apply, id) && place_is_free(new) && place_holds(apply, old, target);
    if (!is_first && !is_second)
        return false;
    const struct place *from = is_first ? new : old, *to = is_first ? old : new;
    *outcome = place_move(from->folder, from->name, to->folder, to->name, false) == 0
                   ? OUTCOME_DONE
                   : apply_failed(apply, apply->path, NULL);
    return true;
}

enum outcome step_renamed(struct apply *apply, const struct plan_step *step)
{
    struct undo_target target;
    const struct file_id *id = &step->entry.id;
    enum outcome outcome;
    bool is_exchange = step->entry.mode & RENAME_EXCHANGE, is_new = is_made(apply, id);
    const char *path = read_target(apply, step, &target);
    if (!path)
        return apply_failed(apply, apply->path, "its entry in the undo log is damaged");
    if (place_open(apply, &apply->other, apply->path, &step->entry.folder) < 0 ||
        place_open(apply, &apply->place, path, &target.folder) < 0)
        return is_new ? OUTCOME_DONE : apply_failed(apply, apply->path, place_reason(errno));
    if (place_holds(apply, &apply->other, id))
        return OUTCOME_DONE;
    if (is_exchange && move_one(apply, id, &target.id, &outcome))
        return outcome;
    if (!place_holds(apply, &apply->place, id))
        return is_new ? OUTCOME_DONE
                      : apply_left(apply, id, apply->path, "it is not where the job has renamed it to");
    if (is_exchange ? !place_holds(apply, &apply->other, &target.id) : !place_is_free(&apply->other))
        return apply_left(apply, id, apply->path, "another file is in its place");
    return move_back(apply, step, is_exchange);
}
