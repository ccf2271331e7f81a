/* bind.h - what is to be known of the library below. */
#ifndef BELAY_MPI_LAYER_UPPER_BIND_H
#define BELAY_MPI_LAYER_UPPER_BIND_H

/*
 * Look up the real functions, the real predefined handles and objects of the library's own, at the start and
 * after a restart.
 */
void bind_library(void);

#endif
