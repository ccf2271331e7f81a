/*
 * advice.h - what the program has told the kernel of its memory that /proc/PID/maps does not show: advice
 * that its children would notice (MADV_WIPEONFORK, MADV_DONTFORK), that it grows (MAP_GROWSDOWN), is locked,
 * or has huge pages that were set aside. Noted at a line, told again after a restart.
 */
#ifndef BELAY_MPI_LAYER_LOWER_ADVICE_H
#define BELAY_MPI_LAYER_LOWER_ADVICE_H

#include <stdbool.h>
#include <stdint.h>

/* The rank parks: note it. Returns NULL, or why that cannot be done. */
const char *advice_note(void);
/* Is the memory that begins there to be mapped with MAP_GROWSDOWN? */
bool advice_is_growing(uint64_t start);
/* Flags to map the memory that begins there with huge pages, MAP_NORESERVE among them; 0: it had none. */
int advice_huge_flags(uint64_t start);
/* After a restart, when the memory is back: tell the kernel again. */
void advice_restore(void);

#endif
