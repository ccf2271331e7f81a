/* cxx.h - routines of the C++ bindings that read the library's objects; see bindings.h. */
#ifndef BELAY_MPI_LAYER_FORTRAN_CXX_H
#define BELAY_MPI_LAYER_FORTRAN_CXX_H

#include <mpi.h>

/* The bindings' own function makes a C++ object and calls the user's handler. */
typedef void cxx_invoke_f(void *object, int *code, const char *message, void *handler);

/* Which class of the bindings a communicator is of. */
int cxx_comm_type(MPI_Comm comm);

/* Call the error handler. The code, if it returns. */
int cxx_comm_invoke(MPI_Comm comm, int code);
int cxx_file_invoke(MPI_File file, int code);

/* An error handler that has the bindings call the user's function; MPI_ERRHANDLER_NULL: out of memory. */
MPI_Errhandler cxx_comm_handler(void (*handler)(void), cxx_invoke_f *invoke);
MPI_Errhandler cxx_file_handler(void (*handler)(void), cxx_invoke_f *invoke);
MPI_Errhandler cxx_win_handler(void (*handler)(void), cxx_invoke_f *invoke);

#endif
