#include "cmd/layout.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int join(char path[PATH_MAX], const char *prefix, const char *name, struct belay_error *err)
{
    int used = snprintf(path, PATH_MAX, "%s/lib/belay/%s", prefix, name);
    return used < PATH_MAX ? 0 : belay_error_set(err, ENAMETOOLONG, "the path of %s is too long", name);
}

int layout_find(struct install_layout *layout, struct belay_error *err)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return belay_error_errno(err, "cannot read /proc/self/exe");
    self[length] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(self, '/');
        if (slash)
            *slash = '\0';
    }
    if (join(layout->agent, self, "belayd", err) || join(layout->preload, self, "libbelay.so", err) ||
        join(layout->launch, self, "belay-launch", err))
        return -1;
    return 0;
}
