#include "common/util/log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "common/util/escape.h"

static int log_fd = STDERR_FILENO;                /* where lines go */
static enum log_level max_level = LOG_LEVEL_NONE; /* NONE: not yet read from the environment */

static enum log_level level_from_environment(void)
{
    static const char *const names[] = {"none", "error", "warning", "info", "debug"};
    const char *text = getenv("BELAY_LOG");
    for (int i = 0; text && i <= LOG_LEVEL_DEBUG; i++)
        if (!strcmp(text, names[i]))
            return (enum log_level)i;
    return LOG_LEVEL_INFO;
}

int log_open(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    log_fd = fd;
    return 0;
}

void log_set_level(enum log_level level)
{
    max_level = level;
}

void log_write(enum log_level level, const char *format, ...)
{
    static const char *const tags[] = {"", "error", "warning", "info", "debug"};
    if (max_level == LOG_LEVEL_NONE)
        max_level = level_from_environment();
    if (level > max_level)
        return;
    char line[1024];
    size_t used = 0;
    if (log_fd == STDERR_FILENO) {
        used = (size_t)snprintf(line, sizeof line, "belay: ");
    } else {
        struct timespec now;
        struct tm parts;
        clock_gettime(CLOCK_REALTIME, &now);
        localtime_r(&now.tv_sec, &parts);
        used = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &parts);
        used += (size_t)snprintf(line + used, sizeof line - used, ".%03ld %-7s ", now.tv_nsec / 1000000,
                                 tags[level]);
    }
    char text[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    used += escape_line(line + used, sizeof line - used - 1, text); /* one line, whatever is quoted in it */
    line[used++] = '\n';
    ssize_t ignored = write(log_fd, line, used);
    (void)ignored;
}
