/*
 * log.h - messages of a Belay process to its log (standard error unless log_open() says otherwise).
 *
 * Lines read "belay: text" on a terminal and "TIME LEVEL text" in a file. Nothing of ours is ever
 * written to standard output by these functions. Safe from several threads; not from signal handlers.
 */
#ifndef BELAY_COMMON_UTIL_LOG_H
#define BELAY_COMMON_UTIL_LOG_H

enum log_level { LOG_LEVEL_NONE = 0, LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Send further lines to the file at `path` (created 0600, appended). Returns 0, or -1 with errno. */
int log_open(const char *path);

/* Lines above this level are dropped. Default LOG_LEVEL_INFO; BELAY_LOG=error|warning|info|debug. */
void log_set_level(enum log_level level);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
