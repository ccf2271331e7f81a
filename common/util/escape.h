/*
 * escape.h - makes foreign texts (names, paths, words of command lines, texts of ranks) safe in a message: no
 * byte that a terminal obeys.
 *
 * Control characters, bytes that are not UTF-8 and characters that turn the direction of text become \xNN.
 * escape_text() is for a name within a message. escape_line() and escape_print() are for a whole message, in
 * which names may be escaped already. No state, nothing allocated.
 */
#ifndef BELAY_COMMON_UTIL_ESCAPE_H
#define BELAY_COMMON_UTIL_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ESCAPE_PATH_BYTES 320 /* room that shows most paths in full and leaves some for the message */

/*
 * Copy `text` to `out` as one line. Returns its length. The line is cut, by whole units, to `room` bytes, NUL
 * included. room > 0.
 */
size_t escape_line(char *out, size_t room, const char *text);

/* The same, to a stream. */
void escape_print(FILE *stream, const char *text);

/* Make it valid UTF-8: a byte that belongs to no character becomes '?'. Control characters stay. */
void escape_make_valid(char *text);

/* Bytes of the well-formed UTF-8 character (RFC 3629) at `text`, which goes to *character; else 0. */
static inline size_t escape_decode(const char *text, uint32_t *character)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* below are too long forms */
    const unsigned char *at = (const unsigned char *)text;
    size_t bytes = at[0] < 0x80 ? 1 : at[0] >> 5 == 6 ? 2 : at[0] >> 4 == 14 ? 3 : at[0] >> 3 == 30 ? 4 : 0;
    uint32_t value = bytes == 1 ? at[0] : at[0] & (0xffu >> (bytes + 1));
    for (size_t i = 1; i < bytes; i++) {
        if (at[i] >> 6 != 2) /* the text's end, too */
            return 0;
        value = value << 6 | (at[i] & 0x3f);
    }
    bool is_surrogate = value >= 0xd800 && value < 0xe000;
    *character = value;
    return bytes && value >= least[bytes] && value <= 0x10ffff && !is_surrogate ? bytes : 0;
}

/* Bytes of the UTF-8 character at `text` if it may be shown, else 0. */
static inline size_t escape_character(const char *text)
{
    uint32_t character = 0;
    size_t bytes = escape_decode(text, &character);
    bool is_control = character < 0x20 || (character >= 0x7f && character < 0xa0);
    bool is_direction = character == 0x61c || (character >= 0x200e && character <= 0x200f) ||
                        (character >= 0x2028 && character <= 0x202e) ||
                        (character >= 0x2066 && character <= 0x2069);
    return is_control || is_direction ? 0 : bytes;
}

/* How many bytes the unit at `text` has, and in *shown how many its escaped form in a name. */
static inline size_t escape_unit(const char *text, size_t *shown)
{
    size_t bytes = escape_character(text);
    *shown = bytes == 0 ? 4 : *text == '\\' ? 2 : bytes;
    return bytes ? bytes : 1;
}

/* Put what shows the unit at `text`, which has `bytes`: 4 at most. Returns its end. */
static inline char *escape_put(char *at, const char *text, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char byte = (unsigned char)*text;
    if (!escape_character(text)) {
        *at++ = '\\';
        *at++ = 'x';
        *at++ = digits[byte >> 4];
        *at++ = digits[byte & 15];
        return at;
    }
    for (size_t i = 0; i < bytes; i++)
        *at++ = text[i];
    return at;
}

/* The same in a name. */
static inline char *escape_put_name(char *at, const char *text, size_t bytes)
{
    if (*text == '\\')
        *at++ = '\\';
    return escape_put(at, text, bytes);
}

/*
 * A name: a backslash becomes two, so that no two names look alike, and of one that is too long the middle is
 * left out ("..."). Returns `out`, which holds `room` bytes, 32 at least, and the escaped text with its NUL.
 * It needs no C library: it serves the virtual kernel, too.
 */
static inline char *escape_text(char *out, size_t room, const char *text)
{
    size_t all = 0, shown, put = 0, bytes;
    char *at = out;
    for (const char *from = text; *from; from += bytes, all += shown)
        bytes = escape_unit(from, &shown);
    bool is_long = all >= room;
    for (; *text && !(is_long && put > room / 2 - 12); text += bytes, put += shown) {
        bytes = escape_unit(text, &shown);
        at = escape_put_name(at, text, bytes);
    }
    for (; *text && all - put > room / 2 - 12; text += bytes, put += shown)
        bytes = escape_unit(text, &shown);
    for (int i = 0; is_long && i < 3; i++)
        *at++ = '.';
    for (; *text; text += bytes) {
        bytes = escape_unit(text, &shown);
        at = escape_put_name(at, text, bytes);
    }
    *at = '\0';
    return out;
}

#endif
