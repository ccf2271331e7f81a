/*
 * board_client.h - texts of ranks on the board of their launch (board.h). One thread.
 */
#ifndef BELAY_COMMON_WIRE_BOARD_CLIENT_H
#define BELAY_COMMON_WIRE_BOARD_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "common/util/error.h"
#include "common/wire/board.h"

/* where: the value of BELAY_BOARD. Returns a descriptor (close() it), or -1 with err. */
int board_open(const char *where, uint32_t rank, struct belay_error *err);
/* Put a text of this rank. Returns 0 or -1 with err. */
int board_put(int sock, enum board_key key, const char *text, struct belay_error *err);
/*
 * Wait for a rank's text. Returns 0, or -1 with err: ETIMEDOUT, or ENODATA if the rank has ended. After a
 * failure the descriptor is of no use any more.
 */
int board_get(int sock, uint32_t rank, enum board_key key, int timeout_ms, char text[BOARD_TEXT_BYTES],
              struct belay_error *err);
/* The arbiter says that a node of the launch is lost. Returns 0 or -1 with err. */
int board_say_lost(int sock, struct belay_error *err);
/* The arbiter keeps this descriptor open as long as it lives: then srun hears of the loss of its node. 0 or
 * -1. */
int board_stay(int sock, struct belay_error *err);

#endif
