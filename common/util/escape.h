/*
 * escape.h - a name from outside in a message: one line, and nothing that a terminal obeys.
 *
 * Control characters, bytes that are not UTF-8 and characters that turn the direction of text become \xNN, a
 * backslash becomes two. Of a text that is too long the middle is left out ("..."). Allocates nothing and
 * needs no C library: it serves the virtual kernel, too.
 */
#ifndef BELAY_COMMON_UTIL_ESCAPE_H
#define BELAY_COMMON_UTIL_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ESCAPE_PATH_BYTES 320 /* room that shows most paths in full and leaves some for the message */

/* Bytes of the UTF-8 character at `text` if it may be shown, else 0. */
static inline size_t escape_character(const unsigned char *text)
{
    static const uint32_t least[] = {0, 0x20, 0xa0, 0x800,
                                     0x10000}; /* below are controls or too long forms */
    size_t bytes = text[0] < 0x80       ? 1
                   : text[0] >> 5 == 6  ? 2
                   : text[0] >> 4 == 14 ? 3
                   : text[0] >> 3 == 30 ? 4
                                        : 0;
    uint32_t character = bytes == 1 ? text[0] : text[0] & (0xffu >> (bytes + 1));
    for (size_t i = 1; i < bytes; i++) {
        if (text[i] >> 6 != 2)
            return 0;
        character = character << 6 | (text[i] & 0x3f);
    }
    bool is_surrogate = character >= 0xd800 && character < 0xe000;
    bool is_direction = (character >= 0x200e && character <= 0x200f) ||
                        (character >= 0x2028 && character <= 0x202e) ||
                        (character >= 0x2066 && character <= 0x2069);
    if (bytes == 0 || character < least[bytes] || character > 0x10ffff || character == 0x7f || is_surrogate ||
        is_direction)
        return 0;
    return bytes;
}

/* How many bytes the unit at `text` has, and in *shown how many its escaped form. */
static inline size_t escape_unit(const char *text, size_t *shown)
{
    size_t bytes = escape_character((const unsigned char *)text);
    *shown = bytes == 0 ? 4 : *text == '\\' ? 2 : bytes;
    return bytes ? bytes : 1;
}

static inline char *escape_put(char *at, const char *text, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char byte = (unsigned char)*text;
    if (!escape_character((const unsigned char *)text)) {
        *at++ = '\\';
        *at++ = 'x';
        *at++ = digits[byte >> 4];
        *at++ = digits[byte & 15];
        return at;
    }
    if (*text == '\\')
        *at++ = '\\';
    for (size_t i = 0; i < bytes; i++)
        *at++ = text[i];
    return at;
}

/* Returns `out`, which holds `room` bytes, 32 at least, and the escaped text with its NUL. */
static inline char *escape_text(char *out, size_t room, const char *text)
{
    size_t all = 0, shown, put = 0, bytes;
    char *at = out;
    for (const char *from = text; *from; from += bytes, all += shown)
        bytes = escape_unit(from, &shown);
    bool is_long = all >= room;
    for (; *text && !(is_long && put > room / 2 - 12); text += bytes, put += shown) {
        bytes = escape_unit(text, &shown);
        at = escape_put(at, text, bytes);
    }
    for (; *text && all - put > room / 2 - 12; text += bytes, put += shown)
        bytes = escape_unit(text, &shown);
    for (int i = 0; is_long && i < 3; i++)
        *at++ = '.';
    for (; *text; text += bytes) {
        bytes = escape_unit(text, &shown);
        at = escape_put(at, text, bytes);
    }
    *at = '\0';
    return out;
}

#endif
