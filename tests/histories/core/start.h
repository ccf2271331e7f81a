/*
 * start.h - what a program does before MPI_Init and after MPI_Finalize.
 */
#ifndef BELAY_TESTS_HISTORIES_CORE_START_H
#define BELAY_TESTS_HISTORIES_CORE_START_H

/* Before MPI_Init: the seed may want the program to execute itself first. */
void start_before_mpi(char **argv);

/* After MPI_Finalize: it may want another program in its place, which tells a line and ends with status 0. */
void start_after_mpi(void);

#endif
