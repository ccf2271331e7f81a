#include "tests/histories/files/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/histories/core/journal.h"
#include "tests/histories/core/world.h"

#define CONTENTS_MAX (600u << 10)

static void observe_file(int folder, const char *name, const char *path)
{
    static char contents[CONTENTS_MAX];
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOATIME);
    ssize_t bytes = fd < 0 ? -1 : read(fd, contents, sizeof contents);
    if (bytes < 0)
        note("%s: %s", path, error_name(errno));
    else
        note_bytes(path, contents, (size_t)bytes);
    if (fd >= 0)
        close(fd);
}

static void observe_name(int folder, const char *name, const char *path)
{
    struct stat stat;
    char target[256] = "";
    if (fstatat(folder, name, &stat, AT_SYMLINK_NOFOLLOW)) {
        note("%s: %s", path, error_name(errno));
        return;
    }
    if (S_ISLNK(stat.st_mode) && readlinkat(folder, name, target, sizeof target - 1) < 0)
        note("%s: %s", path, error_name(errno));
    note("%s: mode %o %s", path, mode_told(&stat), target);
    if (S_ISREG(stat.st_mode))
        observe_file(folder, name, path);
}

static int is_shown(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
}

static void observe_below(int folder, const char *path)
{
    struct dirent **entries;
    int count = scandirat(folder, ".", &entries, is_shown, alphasort);
    if (count < 0)
        note("%s: %s", path, error_name(errno));
    for (int i = 0; i < count; i++) {
        char name[PATH_MAX];
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        observe_name(folder, entries[i]->d_name, name);
        int below =
            openat(folder, entries[i]->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        if (below >= 0) {
            observe_below(below, name);
            close(below);
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

void tree_observe(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    observe_below(fd, "");
    close(fd);
}

mode_t mode_told(const struct stat *stat)
{
    return stat->st_mode & ~(mode_t)(S_ISREG(stat->st_mode) ? S_ISUID | S_ISGID : 0);
}

void tree_observe_cwd(void)
{
    char path[PATH_MAX], link[PATH_MAX] = "";
    size_t length = strlen(world.base);
    const char *found = getcwd(path, sizeof path);
    note("working directory %s", !found                   ? error_name(errno)
                                 : strlen(found) > length ? found + length
                                                          : found);
    ssize_t bytes = readlink("/proc/self/cwd", link, sizeof link - 1);
    note("... by its link %s", bytes > (ssize_t)length ? link + length : "none");
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *place)
{
    (void)stat, (void)kind, (void)place;
    return remove(path);
}

void tree_remove(const char *folder)
{
    nftw(folder, remove_one, 20, FTW_DEPTH | FTW_PHYS);
}
