/* undo.c - see undo.h: the folder of a job, from its making to its removal. */
#include "node-agent/undo/undo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/escape.h"
#include "common/util/log.h"
#include "common/util/mounts.h"
#include "common/util/tree.h"
#include "common/wire/claim.h"
#include "common/wire/undo.h"
#include "node-agent/undo/folder.h"
#include "node-agent/undo/progress.h"

int undo_folder_of(const char *rundir, const char *base, const char *job, struct undo_folder *folder,
                   struct belay_error *err)
{
    char shown[ESCAPE_PATH_BYTES];
    int length;
    *folder = (struct undo_folder){.is_in_rundir = !base || !base[0]};
    if (folder->is_in_rundir)
        length = snprintf(folder->path, UNDO_FOLDER_BYTES, "%s/" UNDO_IN_RUNDIR "/%s", rundir, job);
    else if (base[0] != '/')
        return belay_error_set(err, EINVAL, "the undo directory %s is not an absolute path",
                               escape_text(shown, sizeof shown, base));
    else /* several users may use one directory */
        length = snprintf(folder->path, UNDO_FOLDER_BYTES, "%s/%s-%u.undo", base, job, (unsigned)geteuid());
    if (length >= UNDO_FOLDER_BYTES) {
        folder->path[0] = '\0';
        return belay_error_set(err, ENAMETOOLONG, "the undo directory's path is too long");
    }
    return 0;
}

/* Where anybody may rename folders, another one may be in its place at any time. */
static int check_base(const char *base, struct belay_error *err)
{
    struct stat st;
    char shown[ESCAPE_PATH_BYTES];
    escape_text(shown, sizeof shown, base);
    if (stat(base, &st) < 0)
        return belay_error_errno(err, "cannot use the undo directory %s", shown);
    if ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
        return belay_error_set(
            err, EPERM,
            "anybody may rename what is in the undo directory %s: chmod +t it, or use another "
            "one",
            shown);
    return 0;
}

/* What is there already: in the run directory it is ours, left by an agent that was killed. */
static int make_way(struct undo_folder *folder, struct belay_error *err)
{
    if (!folder->is_in_rundir || file_id_at(AT_FDCWD, folder->path, &folder->id) < 0)
        return 0;
    const char *job = strrchr(folder->path, '/') + 1;
    if (undo_has_begun(folder))
        return belay_error_set(
            err, EBUSY,
            "files of an earlier job \"%s\" have been put back in part only: 'belay clean %s' "
            "leaves them as they are",
            job, job);
    undo_remove(folder);
    return 0;
}

int undo_create(struct undo_folder *folder, struct belay_error *err)
{
    char base[UNDO_FOLDER_BYTES], shown[ESCAPE_PATH_BYTES];
    snprintf(base, sizeof base, "%.*s", (int)(strrchr(folder->path, '/') - folder->path), folder->path);
    if (make_way(folder, err) < 0)
        return -1;
    if (folder->is_in_rundir)
        mkdir(base, 0700);
    escape_text(shown, sizeof shown, folder->path);
    if (check_base(base, err) < 0)
        return -1;
    bool is_made = mkdir(folder->path, 0700) == 0;
    if (!is_made && errno == EEXIST)
        return belay_error_set(
            err, EEXIST, "%s is there already: another job uses it, or has left it; remove it then", shown);
    int fd = is_made ? open(folder->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0) /* errno is that of the call that failed */
        return belay_error_errno(err, "cannot make the undo directory %s", shown);
    int rc = folder_is_own(fd, S_IFDIR) ? file_id_at(fd, "", &folder->id) : -1;
    close(fd);
    return rc == 0 ? 0 : belay_error_set(err, EPERM, "somebody else has put %s in the place of ours", shown);
}

int undo_share(const struct undo_folder *folder, struct belay_error *err)
{
    int fd = folder_open(folder, err);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? -1 : 0;
}

int undo_sees_common(const char *path, const struct file_id *id, const struct undo_common *common,
                     struct belay_error *err)
{
    struct undo_folder folder = {.id = *id};
    struct file_id here;
    struct mounts mounts;
    if (path[0] != '/' || strlen(path) >= sizeof folder.path)
        return belay_error_set(err, EINVAL, "the path of the undo directory cannot be used");
    snprintf(folder.path, sizeof folder.path, "%s", path);
    if (file_id_at(AT_FDCWD, path, &here) < 0)
        return belay_error_errno(err, "the undo directory is not on this host");
    mounts_read(&mounts);
    bool is_one_kernel = mounts.kernel && mounts.kernel == common->kernel;
    folder.id.device = is_one_kernel ? id->device : here.device;
    int fd = folder_open(&folder, err);
    if (fd < 0)
        return -1;
    bool is_common = is_one_kernel || (common->is_on_network && file_id_is_on_network(fd));
    close(fd);
    return is_common ? 0 : belay_error_set(err, EXDEV, "the undo directory is on another file system here");
}

int undo_list_replaced(const struct undo_folder *folder, uint64_t line, struct undo_replaced_list *list,
                       struct belay_error *err)
{
    *list = (struct undo_replaced_list){0};
    if (!folder->path[0])
        return 0;
    int all = folder_open(folder, err);
    if (all < 0)
        return -1;
    int of_line = folder_open_line(all, line);
    int rc = undo_replaced_read(of_line, list);
    if (rc < 0)
        belay_error_errno(err, "the list of files that were made anew cannot be read");
    if (of_line >= 0)
        close(of_line);
    close(all);
    return rc;
}

bool undo_has_begun(const struct undo_folder *folder)
{
    int fd = folder->path[0] ? folder_open(folder, NULL) : -1;
    bool has_begun = fd >= 0 && progress_exists(fd);
    if (fd >= 0)
        close(fd);
    return has_begun;
}

static int refuse(void *context, uint64_t line, int fd)
{
    (void)context, (void)line, (void)fd;
    return -1;
}

bool undo_is_owing(const struct undo_folder *folder)
{
    int fd = folder->path[0] ? folder_open(folder, NULL) : -1;
    bool is_owing = fd >= 0 && (progress_exists(fd) || folder_each_line(fd, refuse, NULL) < 0);
    if (fd >= 0)
        close(fd);
    return is_owing;
}

/* Lines below a limit are emptied. */
struct sweep {
    int folder;
    uint64_t below;
};

static int empty_if_below(void *context, uint64_t line, int fd)
{
    const struct sweep *sweep = context;
    (void)fd;
    if (line < sweep->below)
        folder_empty_line(sweep->folder, line, NULL);
    return 0;
}

void undo_forget_before(const struct undo_folder *folder, uint64_t line)
{
    struct sweep sweep = {.folder = folder->path[0] ? folder_open(folder, NULL) : -1, .below = line};
    if (sweep.folder < 0)
        return;
    folder_each_line(sweep.folder, empty_if_below, &sweep);
    close(sweep.folder);
}

bool undo_is_claimed_elsewhere(const struct undo_folder *folder)
{
    char name[HOST_NAME_MAX + 1];
    struct claim claim;
    return folder->path[0] && claim_read(folder->path, &claim) == 0 && gethostname(name, sizeof name) == 0 &&
           strcmp(claim.host, name) != 0;
}

void undo_remove(const struct undo_folder *folder)
{
    struct belay_error err;
    struct sweep sweep = {.below = UINT64_MAX};
    if (!folder->path[0] || !folder->id.inode)
        return;
    sweep.folder = folder_open(folder, &err);
    if (sweep.folder < 0) {
        if (err.code != ENOENT) /* another node's agent has been faster */
            log_warning("not removed: %s", err.text);
        return;
    }
    folder_each_line(sweep.folder, empty_if_below, &sweep);
    folder_remove_held(sweep.folder);
    progress_remove(sweep.folder);
    unlinkat(sweep.folder, CLAIM_NAME, 0);
    close(sweep.folder);
    rmdir(folder->path);
}

bool undo_clean(const char *rundir, const char *job)
{
    struct undo_folder folder;
    if (undo_folder_of(rundir, "", job, &folder, NULL) < 0 ||
        file_id_at(AT_FDCWD, folder.path, &folder.id) < 0)
        return false;
    tree_remove(folder.path);
    return true;
}

uint32_t undo_clean_others(const char *rundir, bool (*is_known)(void *context, const char *job),
                           void *context)
{
    char base[UNDO_FOLDER_BYTES];
    struct dirent **names;
    uint32_t cleaned = 0;
    snprintf(base, sizeof base, "%s/" UNDO_IN_RUNDIR, rundir);
    int count = scandir(base, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (names[i]->d_name[0] != '.' && !is_known(context, names[i]->d_name))
            cleaned += undo_clean(rundir, names[i]->d_name);
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    return cleaned;
}

void undo_remove_base(const char *rundir)
{
    char base[UNDO_FOLDER_BYTES];
    snprintf(base, sizeof base, "%s/" UNDO_IN_RUNDIR, rundir);
    rmdir(base);
}
