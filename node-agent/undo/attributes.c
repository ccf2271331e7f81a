/* attributes.c - see apply.h: permissions, owners and times. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node-agent/undo/apply.h"

#define PERMISSIONS 0777u /* nothing that gives its owner's rights to who runs it */

/* A descriptor, also one of O_PATH, as a path that leads to its file. */
struct link {
    char text[32];
};

static struct link link_of(int fd)
{
    struct link link;
    snprintf(link.text, sizeof link.text, "/proc/self/fd/%d", fd);
    return link;
}

static bool read_attributes(struct apply *apply, const struct plan_step *step, struct undo_attributes *was)
{
    if (step->entry.data_bytes != sizeof *was || plan_data(step, apply->data) < 0)
        return false;
    memcpy(was, apply->data, sizeof *was);
    return true;
}

static void put_times(int fd, const struct undo_attributes *was)
{
    struct timespec times[2] = {{was->read_s, was->read_ns}, {was->changed_s, was->changed_ns}};
    utimensat(AT_FDCWD, link_of(fd).text, times, 0);
}

void attributes_put_times(struct apply *apply, const struct plan_step *step, int fd)
{
    struct undo_attributes was;
    if (read_attributes(apply, step, &was))
        put_times(fd, &was);
}

/* Who may not give a file away may not give its permissions to another owner either. */
static int put(int fd, const struct undo_attributes *was)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -1;
    mode_t mask = S_ISDIR(st.st_mode) ? PERMISSIONS | S_ISVTX : PERMISSIONS, mode = was->mode & mask;
    bool is_owner_right = (st.st_uid == was->uid && st.st_gid == was->gid) ||
                          fchownat(fd, "", was->uid, was->gid, AT_EMPTY_PATH) == 0;
    if (!is_owner_right)
        return -1;
    if ((st.st_mode & mask) != mode && chmod(link_of(fd).text, mode) < 0)
        return -1;
    if (!S_ISDIR(st.st_mode)) /* a folder's change with each name in it */
        put_times(fd, was);
    return 0;
}

enum outcome step_attributes(struct apply *apply, const struct plan_step *step)
{
    struct undo_attributes was;
    const struct file_id *id = &step->entry.id;
    const struct plan_file *file = plan_find(&apply->plan, id);
    if (file && file->marks & (PLAN_MADE | PLAN_UNPROTECTED))
        return OUTCOME_DONE;
    if (S_ISLNK(id->mode) || !read_attributes(apply, step, &was)) {
        errno = EBADMSG;
        return apply_failed(apply, apply->path, NULL);
    }
    int found = place_open(apply, &apply->place, apply->path, &step->entry.folder);
    if (found == 0)
        found = place_find(apply, &apply->place, id);
    if (found < 0 && step->entry.mode & UNDO_ALSO_HELD)
        return OUTCOME_LEFT;
    if (found < 0)
        return apply_left(apply, id, apply->path, "it is not there, or another file is in its place");
    int rc = put(found, &was);
    close(found);
    return rc == 0 ? OUTCOME_DONE
                   : apply_left(apply, id, apply->path, "its owner or permissions cannot be changed back");
}
