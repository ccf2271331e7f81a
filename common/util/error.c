#include "common/util/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int belay_error_set(struct belay_error *err, int code, const char *format, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, format);
        err->code = code;
        vsnprintf(err->text, sizeof err->text, format, ap);
        va_end(ap);
    }
    errno = code;
    return -1;
}

int belay_error_errno(struct belay_error *err, const char *format, ...)
{
    int code = errno;
    if (err) {
        va_list ap;
        va_start(ap, format);
        err->code = code;
        int used = vsnprintf(err->text, sizeof err->text, format, ap);
        va_end(ap);
        if (used >= 0 && (size_t)used < sizeof err->text)
            snprintf(err->text + used, sizeof err->text - (size_t)used, ": %s", strerror(code));
    }
    errno = code;
    return -1;
}

int belay_error_prefix(struct belay_error *err, const char *format, ...)
{
    int code = errno;
    if (err) {
        struct belay_error old = *err;
        va_list ap;
        va_start(ap, format);
        int used = vsnprintf(err->text, sizeof err->text, format, ap);
        va_end(ap);
        if (used >= 0 && (size_t)used < sizeof err->text)
            snprintf(err->text + used, sizeof err->text - (size_t)used, ": %.400s", old.text);
    }
    errno = code;
    return -1;
}
