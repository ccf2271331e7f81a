/*
 * interpose_fd.h - the descriptors that the MPI library and those below it open are noted as the lower half's
 * (vk_fd.h).
 *
 * belay-launch exports the C library's functions that make descriptors, and those that close them; the
 * libraries of the lower half are bound to these. What a function of the C library opens for itself and
 * leaves open is covered where it is known (streams, folders). What comes by an ioctl is told by what is new
 * after MPI_Init.
 */
#ifndef BELAY_MPI_LAYER_LOWER_INTERPOSE_FD_H
#define BELAY_MPI_LAYER_LOWER_INTERPOSE_FD_H

/* MPI_Init_thread of the MPI library; `lower` is its own. */
typedef int mpi_init_thread_f(int *argc, char ***argv, int level, int *provided);
int interpose_init_thread(mpi_init_thread_f *lower, int level, int *provided);

#endif
