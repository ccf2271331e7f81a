#include "node-agent/undo/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node-agent/undo/folder.h"

#define NAME "undoing"
#define MAGIC 0x3149444e55594c42ull /* "BLYUNDI1" */

bool progress_exists(int folder)
{
    struct stat st;
    return fstatat(folder, NAME, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int progress_save(int fd, const struct progress *progress)
{
    return pwrite(fd, progress, sizeof *progress, 0) == sizeof *progress ? 0 : -1;
}

/* A file cut short is one that had not begun. */
static int take_up(int fd, struct progress *progress, struct belay_error *err)
{
    struct progress begun;
    if (!folder_is_own(fd, S_IFREG))
        return belay_error_set(err, EPERM, "the record of how far files were put back is not ours");
    if (pread(fd, &begun, sizeof begun, 0) < (ssize_t)sizeof begun) {
        if (progress_save(fd, progress) == 0)
            return 0;
        return belay_error_errno(err, "cannot note in the undo directory how far files are put back");
    }
    bool is_same =
        begun.line == progress->line && (begun.done == PROGRESS_ALL || begun.steps == progress->steps);
    if (begun.magic != MAGIC || !is_same)
        return belay_error_set(err, EBADMSG,
                               "files were being put back to line %" PRIu64 " in %" PRIu64
                               " steps; that is not what the undo directory holds now",
                               begun.line, begun.steps);
    *progress = begun;
    return 0;
}

int progress_open(int folder, struct progress *progress, struct belay_error *err)
{
    progress->magic = MAGIC;
    int fd = openat(folder, NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0)
        return belay_error_errno(err, "cannot note in the undo directory how far files are put back");
    if (take_up(fd, progress, err) == 0)
        return fd;
    close(fd);
    return -1;
}

void progress_remove(int folder)
{
    unlinkat(folder, NAME, 0);
}
