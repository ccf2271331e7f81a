/* identity.h - which build of a program and of its libc an image belongs to. */
#ifndef BELAY_MPI_LAYER_LOWER_IDENTITY_H
#define BELAY_MPI_LAYER_LOWER_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"

#define IDENTITY_BYTES 32

/*
 * Digest over the build ids (files without one: over their content) of the executable `program` and of
 * the C library of this process. `text` says in words what the digest stands for. It detects accidents,
 * it is no protection against forgery. Returns 0, or -1 with err.
 */
int identity_of(const char *program, uint8_t digest[IDENTITY_BYTES], char *text, size_t text_bytes,
                struct belay_error *err);

#endif
