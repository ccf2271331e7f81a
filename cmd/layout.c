#include "cmd/layout.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* In X/lib/belay. */
static const char *const parts[] = {
    "belay-arbiter", "belay-keeper", "belay-launch", "belay-relay",      "belay-vdso.so",
    "belayd",        "libbelay.so",  "libmpi.so.40", "libmpi_cxx.so.40", "libmpi_mpifh.so.40",
};

static int join(char path[PATH_MAX], const char *folder, const char *name, struct belay_error *err)
{
    int used = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return used < PATH_MAX ? 0 : belay_error_set(err, ENAMETOOLONG, "the path of %s is too long", name);
}

static void leave(char path[PATH_MAX])
{
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
}

/* Any one of them: of an incomplete installation, it is to be told what is missing, and where. */
static bool has_parts(const char *folder)
{
    char path[PATH_MAX + 32];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, parts[i]);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

/* This program is in X/bin, or in the folder itself. */
static int find_folder(struct install_layout *layout, char self[PATH_MAX], struct belay_error *err)
{
    leave(self);
    if (has_parts(self)) {
        snprintf(layout->folder, sizeof layout->folder, "%s", self);
        return 0;
    }
    leave(self);
    return join(layout->folder, self, "lib/belay", err);
}

int layout_find(struct install_layout *layout, struct belay_error *err)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return belay_error_errno(err, "cannot read /proc/self/exe");
    self[length] = '\0';
    if (find_folder(layout, self, err) || join(layout->agent, layout->folder, "belayd", err) ||
        join(layout->preload, layout->folder, "libbelay.so", err) ||
        join(layout->launch, layout->folder, "belay-launch", err) ||
        join(layout->relay, layout->folder, "belay-relay", err))
        return -1;
    return 0;
}

const char *layout_next_missing(const struct install_layout *layout, size_t *part)
{
    char path[PATH_MAX + 32];
    while (*part < sizeof parts / sizeof *parts) {
        const char *name = parts[(*part)++];
        snprintf(path, sizeof path, "%s/%s", layout->folder, name);
        if (access(path, R_OK) < 0)
            return name;
    }
    return NULL;
}

int layout_check(const struct install_layout *layout, struct belay_error *err)
{
    size_t part = 0;
    const char *missing = layout_next_missing(layout, &part);
    if (strpbrk(layout->preload, " :"))
        return belay_error_set(
            err, EINVAL,
            "the installation is in a path with a blank or colon, which LD_PRELOAD does not take: %s",
            layout->preload);
    if (!missing)
        return 0;
    return belay_error_set(err, ENOENT, "the installation is incomplete: %s lacks %s; install Belay again",
                           layout->folder, missing);
}
