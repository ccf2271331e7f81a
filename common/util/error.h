/*
 * error.h - one error value: an errno-like code and a line for a person.
 *
 * A function that can fail takes a `struct belay_error *err` last (NULL: the caller does not want the
 * text), returns -1 (or NULL) with errno set, and fills err once, where the cause is known. Callers
 * add context with belay_error_prefix() or pass the error on; they do not log it a second time.
 */
#ifndef BELAY_COMMON_UTIL_ERROR_H
#define BELAY_COMMON_UTIL_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

#define BELAY_ERROR_TEXT_BYTES 512

struct belay_error {
    int code;                          /* an errno value, 0: no error */
    char text[BELAY_ERROR_TEXT_BYTES]; /* one line, no newline, says what to do */
};

/* Fill err (may be NULL) and set errno to code. Returns -1, so that callers can `return` it. */
int belay_error_set(struct belay_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Like belay_error_set() with code = errno and ": strerror(errno)" appended. Returns -1. */
int belay_error_errno(struct belay_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Put "prefix: " before the text of a filled error. err may be NULL. Keeps errno. Returns -1. */
int belay_error_prefix(struct belay_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif
#endif
