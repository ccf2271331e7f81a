#include "cmd/hosts_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/util/file_id.h"
#include "common/wire/rundir.h"

#define FOLDERS_MAX 256u
#define TRIES 16 /* for one that another job removes meanwhile */

/* Returns the descriptor, or -1 with err (EWOULDBLOCK: another job has it; ESTALE: that has just removed it).
 */
static int take(const char *path, struct belay_error *err)
{
    if (rundir_make(path, err) < 0)
        return -1;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return belay_error_set(err, ESTALE, "%s is gone", path);
    if (fd < 0)
        return belay_error_errno(err, "cannot use %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && file_id_is_at(fd, AT_FDCWD, path))
        return fd;
    int code = errno == EWOULDBLOCK ? EWOULDBLOCK : ESTALE;
    close(fd);
    return belay_error_set(err, code, "%s is another job's", path);
}

int hosts_folder_take(char *path, size_t path_bytes, const char *rundir, struct belay_error *err)
{
    int tries = 0;
    for (unsigned number = 0; number < FOLDERS_MAX;) {
        int used = snprintf(path, path_bytes, "%s/hosts-%u", rundir, number);
        if (used < 0 || (size_t)used >= path_bytes)
            return belay_error_set(err, ENAMETOOLONG, "the run directory's path is too long: %s", rundir);
        errno = 0;
        int fd = take(path, err);
        if (fd >= 0)
            return fd;
        if (err->code != EWOULDBLOCK && (err->code != ESTALE || ++tries > TRIES))
            return -1;
        number += err->code == EWOULDBLOCK;
    }
    return belay_error_set(err, EBUSY, "%u jobs on several hosts run from %s: wait for the end of one",
                           FOLDERS_MAX, rundir);
}
