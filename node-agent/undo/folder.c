#include "node-agent/undo/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/array.h"
#include "common/util/escape.h"
#include "common/wire/undo.h"

#define OPEN_FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

bool folder_is_own(int fd, mode_t type)
{
    struct stat st;
    return fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == type && st.st_uid == geteuid() &&
           (st.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

int folder_open(const struct undo_folder *folder, struct belay_error *err)
{
    char shown[ESCAPE_PATH_BYTES];
    int fd = open(folder->path, OPEN_FOLDER);
    escape_text(shown, sizeof shown, folder->path);
    if (fd < 0)
        return belay_error_errno(err, "the undo directory %s cannot be opened", shown);
    if (folder_is_own(fd, S_IFDIR) && file_id_is_of(&folder->id, fd))
        return fd;
    close(fd);
    return belay_error_set(err, EPERM, "the undo directory %s is not the one that was made for the job",
                           shown);
}

static int compare_lines(const void *left, const void *right)
{
    uint64_t one = *(const uint64_t *)left, other = *(const uint64_t *)right;
    return one < other ? -1 : one > other;
}

/* All lines that have a folder, ascending; the caller frees them. NULL: none, or no memory with errno. */
static uint64_t *list_lines(int folder, size_t *count)
{
    uint64_t *lines = NULL;
    size_t room = 0;
    int copy = openat(folder, ".", OPEN_FOLDER);
    DIR *names = copy >= 0 ? fdopendir(copy) : NULL;
    *count = 0;
    for (struct dirent *name; names && (name = readdir(names));) {
        char *end;
        uint64_t line = strtoull(name->d_name, &end, 10);
        if (name->d_name[0] < '0' || name->d_name[0] > '9' || *end)
            continue;
        if (array_reserve(&lines, *count + 1, &room) < 0)
            break;
        lines[(*count)++] = line;
    }
    if (names)
        closedir(names);
    else if (copy >= 0)
        close(copy);
    if (*count > 0)
        qsort(lines, *count, sizeof *lines, compare_lines);
    return lines;
}

int folder_open_line(int folder, uint64_t line)
{
    char name[24];
    snprintf(name, sizeof name, "%" PRIu64, line);
    return openat(folder, name, OPEN_FOLDER);
}

int folder_each_line(int folder, folder_line_f *visit, void *context)
{
    size_t count;
    int rc = 0;
    errno = 0;
    uint64_t *lines = list_lines(folder, &count);
    if (errno == ENOMEM)
        rc = -1;
    for (size_t i = 0; i < count && rc == 0; i++) {
        int fd = folder_open_line(folder, lines[i]);
        rc = fd < 0 ? -1 : visit(context, lines[i], fd);
        if (fd >= 0)
            close(fd);
    }
    free(lines);
    return rc;
}

void folder_empty_line(int folder, uint64_t line, const char *but)
{
    char path[24];
    int fd = folder_open_line(folder, line);
    DIR *names = fd >= 0 ? fdopendir(fd) : NULL;
    for (struct dirent *name; names && (name = readdir(names));)
        if (name->d_name[0] != '.' && (!but || strcmp(name->d_name, but) != 0))
            unlinkat(fd, name->d_name, 0);
    if (names)
        closedir(names);
    else if (fd >= 0)
        close(fd);
    snprintf(path, sizeof path, "%" PRIu64, line);
    unlinkat(folder, path, AT_REMOVEDIR);
}

void folder_remove_held(int folder)
{
    int copy = openat(folder, ".", OPEN_FOLDER);
    DIR *names = copy >= 0 ? fdopendir(copy) : NULL;
    for (struct dirent *name; names && (name = readdir(names));)
        if (!strncmp(name->d_name, UNDO_HELD, strlen(UNDO_HELD)))
            unlinkat(folder, name->d_name, 0);
    if (names)
        closedir(names);
    else if (copy >= 0)
        close(copy);
}
