/*
 * target.h - what fuzz targets share. A target is a file with one function, LLVMFuzzerTestOneInput(), which
 * hands bytes to one parser, and checks what the parser promises of whatever it accepts. main() is
 * libFuzzer's, or that of driver.c.
 */
#ifndef BELAY_TESTS_FUZZ_TARGET_H
#define BELAY_TESTS_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* A promise that is not kept ends the process, as an access that a sanitizer sees does. */
#define must(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: not kept: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

/* A copy without any room behind it, so that a sanitizer sees what is read there. free() it. */
static inline uint8_t *target_copy(const uint8_t *bytes, size_t count)
{
    uint8_t *copy = malloc(count ? count : 1);
    must(copy);
    if (count)
        memcpy(copy, bytes, count);
    return copy;
}

/* The same as a text with its NUL. */
static inline char *target_text(const uint8_t *bytes, size_t count)
{
    char *text = malloc(count + 1);
    must(text);
    if (count)
        memcpy(text, bytes, count);
    text[count] = '\0';
    return text;
}

#endif
