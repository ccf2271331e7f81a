/*
 * dlopen.h - notices when a program that is no rank loads MPI while it runs, and says so: the program is not
 * protected, and its user would otherwise learn this only from a loss.
 */
#ifndef BELAY_MPI_LAYER_ENTRY_DLOPEN_H
#define BELAY_MPI_LAYER_ENTRY_DLOPEN_H

/*
 * This process is no rank: if it loads MPI all the same, a line on standard error says so, once, at MPI_Init.
 * Before this is called nothing is said, since libraries of a program that is about to become a rank open
 * others, too.
 */
void dlopen_watch(void);

#endif
