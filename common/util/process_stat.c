#include "common/util/process_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_FIELD 2 /* in brackets; it may contain anything, so the others are counted from its end */

static int read_line(pid_t pid, char *line, size_t bytes)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/stat", (int)pid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t length = read(fd, line, bytes - 1);
    int code = errno;
    close(fd);
    errno = code;
    line[length > 0 ? length : 0] = '\0';
    return length < 0 ? -1 : 0;
}

int process_stat(pid_t pid, const enum process_field *fields, int count, uint64_t *values)
{
    char line[1024];
    if (read_line(pid, line, sizeof line) < 0)
        return -1;
    const char *at = strrchr(line, ')');
    for (int field = NAME_FIELD, found = 0; found < count; found++) {
        for (; at && field < (int)fields[found]; field++)
            at = strchr(at + 1, ' ');
        if (!at) {
            errno = EINVAL;
            return -1;
        }
        values[found] = strtoull(at, NULL, 10);
    }
    return 0;
}
