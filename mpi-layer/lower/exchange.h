/*
 * exchange.h - what ranks of a launch tell one another before MPI_Init: by PMIx, or by the launch's board if
 * it has one (common/wire/board.h).
 *
 * By PMIx texts go through the daemons of the launcher, which hand them to processes of the launch only. The
 * connection to the daemon is the one that MPI_Init uses later; it has to be given back after MPI_Init, or
 * before the end of a program that has not come so far: a launcher takes a process that has connected, and
 * ends without a word, for a failure.
 */
#ifndef BELAY_MPI_LAYER_LOWER_EXCHANGE_H
#define BELAY_MPI_LAYER_LOWER_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"

#define EXCHANGE_TEXT_BYTES 16384u /* of a text, with its end */

/* Connect as this rank. Returns 0, or -1 with err: no board or PMIx server, or it knows another rank. */
int exchange_open(uint32_t rank, struct belay_error *err);

/* Say a text, once for each key of exchange.c; others have it after the next fence. 0 or -1 with err. */
int exchange_put(const char *key, const char *text, struct belay_error *err);

/*
 * Wait until all ranks of the launch are at a fence; a rank without Belay is there in MPI_Init. Returns 0, or
 * -1 with err (ETIMEDOUT).
 */
int exchange_fence(int timeout_ms, struct belay_error *err);
/* Is there a board? Then fences wait for nobody: who gets a text waits for it. */
bool exchange_has_board(void);

/*
 * What a rank has said; "" if it is too long. Returns 0, or -1 with err (ENODATA): nothing so far; of a board
 * also ETIMEDOUT, after this time.
 */
int exchange_get(uint32_t rank, const char *key, int timeout_ms, char text[EXCHANGE_TEXT_BYTES],
                 struct belay_error *err);

/* The host on which the launcher has started a rank, as the launcher calls it; "?": it does not tell. */
void exchange_host_of(uint32_t rank, char *name, size_t name_bytes);

/* How many ranks of the launch are on this host; 0: it is not known. */
uint32_t exchange_count_here(void);

/* Give the connection back; no-op if there is none. */
void exchange_close(void);

#endif
