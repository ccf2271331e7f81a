#include "common/util/escape.h"

#include <string.h>

#define SHOWN_BYTES 4 /* the longest way to show a unit */

/* Returns how many bytes of `text` are in the `*count` of `shown`. */
static size_t show_one(const char *text, char shown[SHOWN_BYTES], size_t *count)
{
    size_t bytes = escape_unit(text, count); /* which counts for a name */
    *count = (size_t)(escape_put(shown, text, bytes) - shown);
    return bytes;
}

size_t escape_line(char *out, size_t room, const char *text)
{
    size_t used = 0, count;
    char shown[SHOWN_BYTES];
    while (*text) {
        text += show_one(text, shown, &count);
        if (used + count >= room)
            break;
        memcpy(out + used, shown, count);
        used += count;
    }
    out[used] = '\0';
    return used;
}

void escape_print(FILE *stream, const char *text)
{
    size_t count;
    char shown[SHOWN_BYTES];
    while (*text) {
        text += show_one(text, shown, &count);
        fwrite(shown, 1, count, stream);
    }
}

void escape_make_valid(char *text)
{
    uint32_t ignored;
    while (*text) {
        size_t bytes = escape_decode(text, &ignored);
        if (!bytes)
            *text = '?';
        text += bytes ? bytes : 1;
    }
}
