/*
 * board.h - what ranks of one launch tell one another before MPI_Init, by way of a process beside their
 * launcher: a board, on which each rank can put texts, and read those of others (slurm-plugin/board.c serves
 * it, board_client.h reads).
 *
 * BELAY_BOARD says where: "PORT TOKEN ADDRESS...", TOKEN in hexadecimal digits. A connection begins with a
 * HELLO that brings the token; each frame is this header, in the machine's order of bytes, and its bytes.
 */
#ifndef BELAY_COMMON_WIRE_BOARD_H
#define BELAY_COMMON_WIRE_BOARD_H

#include <stdint.h>

#define BOARD_VARIABLE "BELAY_BOARD"
#define BOARD_TOKEN_BYTES 32u
#define BOARD_TEXT_BYTES 16384u /* of a text, with its end */
#define BOARD_LINE_BYTES 1024   /* of the variable */
#define BOARD_MAGIC 0x42454c32u /* changes with the protocol */

/* Texts of a rank. */
enum board_key { BOARD_HOST = 0, BOARD_LISTEN, BOARD_EPOCH, BOARD_KEYS };

enum board_verb {
    BOARD_HELLO = 1, /* rank: who speaks; bytes: the token */
    BOARD_PUT,       /* of the rank that speaks; bytes: the text, without its end */
    BOARD_GET,       /* of `rank`; the answer comes once that rank has put it */
    BOARD_TEXT,      /* the answer */
    BOARD_LOST,      /* a node of the launch is lost: srun is to know */
    BOARD_GONE,      /* the answer: the rank has ended, and has not put it */
    BOARD_STAY, /* the arbiter: this connection lasts as long as it does; silence is the loss of its node */
};

struct board_frame {
    uint32_t magic, verb, rank, key, bytes;
};

#endif
