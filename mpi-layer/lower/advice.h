/*
 * advice.h - what the program has told the kernel of its memory that its children would notice
 * (MADV_WIPEONFORK, MADV_DONTFORK): noted at a line, told again after a restart.
 */
#ifndef BELAY_MPI_LAYER_LOWER_ADVICE_H
#define BELAY_MPI_LAYER_LOWER_ADVICE_H

/* The rank parks. */
void advice_note(void);
/* The memory is back. */
void advice_restore(void);

#endif
