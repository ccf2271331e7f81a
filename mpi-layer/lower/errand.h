/*
 * errand.h - programs that a rank starts for its launch, before the application's own code runs. They go to
 * the background, so the application never has them as children.
 */
#ifndef BELAY_MPI_LAYER_LOWER_ERRAND_H
#define BELAY_MPI_LAYER_LOWER_ERRAND_H

#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"

struct errand {
    int out; /* its standard output; -1: none */
};

/*
 * Start an arbiter, whose descriptor 3 stands for the process that has started this one: its end is the end
 * of the launch. Returns 0 when it is in the background, or -1 with err. Zeroed but for out, -1.
 */
int errand_start_arbiter(struct errand *arbiter, char *const argv[], struct belay_error *err);
/*
 * What it says up to an empty line, without that. Returns 0, or -1 with err: an empty text says that it has
 * failed, and has told why on standard error (ECANCELED, without words); it has ended without that
 * (ECONNRESET), or is silent.
 */
int errand_hear(struct errand *arbiter, char *text, size_t text_bytes, int timeout_ms,
                struct belay_error *err);
/* Listen to it no more. */
void errand_end(struct errand *arbiter);

/* Start a relay with this on its standard input. Returns 0 when it has joined, or -1 with err. */
int errand_run_relay(char *const argv[], const uint8_t *input, size_t bytes, struct belay_error *err);

#endif
