/*
 * file.h - a stand-in for tests.
 */
#ifndef BELAY_API_TEST_FILE_H
#define BELAY_API_TEST_FILE_H

#include <mpi.h>

enum file_use { FILE_LOCAL = 0, FILE_COLLECTIVE = 1, FILE_SHARED_POINTER = 2 };

int file_enter(MPI_File fh, unsigned use);
int file_leave(MPI_File fh, unsigned use, int code);
MPI_Request file_request(MPI_File fh, void *real);
int file_split_check(MPI_File fh);
MPI_Status *file_split_begin(MPI_File fh, const char *call);
int file_split_begun(MPI_File fh, int code);
int file_split_end(MPI_File fh, const char *call, MPI_Status *status);

#endif
