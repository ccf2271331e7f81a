#include "slurm-plugin/own_path.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define UP 3 /* X/lib/belay/PROGRAM */
#define BELAY "/bin/belay"

int own_path_of_belay(char path[PATH_MAX], struct belay_error *err)
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length < 0)
        return belay_error_errno(err, "cannot read /proc/self/exe");
    path[length] = '\0';
    for (int up = 0; up < UP; up++)
        if (strrchr(path, '/'))
            *strrchr(path, '/') = '\0';
    if (strlen(path) + sizeof BELAY > PATH_MAX)
        return belay_error_set(err, ENAMETOOLONG, "the path of belay is too long");
    strcat(path, BELAY);
    return 0;
}
