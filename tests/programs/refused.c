/*
 * refused - call a function of one-sided communication; it works natively and may be refused elsewhere.
 *
 * By default with MPI_ERRORS_RETURN, printing the error's class and text; --mode fatal keeps the default
 * error handler.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "tests/programs/program.h"

int main(int argc, char **argv)
{
    struct program program = {0};
    MPI_Win window;
    int word = 0, length, class;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Init(&argc, &argv);
    program_begin(&program, "refused", argc, argv);
    if (strcmp(program.mode, "fatal") != 0)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int error = MPI_Win_create(&word, sizeof(word), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    if (error == MPI_SUCCESS) {
        MPI_Win_free(&window);
        if (program.rank == 0)
            printf("refused: accepted\n");
    } else {
        MPI_Error_class(error, &class);
        MPI_Error_string(error, text, &length);
        if (program.rank == 0)
            printf("refused: class %s: %s\n",
                   class == MPI_ERR_UNSUPPORTED_OPERATION ? "MPI_ERR_UNSUPPORTED_OPERATION" : "other", text);
    }
    MPI_Finalize();
    return 0;
}
