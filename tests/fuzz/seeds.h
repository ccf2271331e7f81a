/* seeds.h - the first files of the corpus, as seeds*.c make them. */
#ifndef BELAY_TESTS_FUZZ_SEEDS_H
#define BELAY_TESTS_FUZZ_SEEDS_H

#include <stddef.h>

/* A file: `first`, if it is not negative, as one byte, and bytes. */
void seeds_put(const char *target, const char *name, int first, const void *bytes, size_t count);

/* The archive of a line: its manifest, and the part of a rank. */
void seeds_put_archive(void);

#endif
