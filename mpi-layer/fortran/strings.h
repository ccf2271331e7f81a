/*
 * strings.h - character arguments: blank-padded in Fortran, terminated in C. Names, arguments and codes
 * are those of the library, whose bindings call them. Both return 0, or a negative code: out of memory.
 */
#ifndef BELAY_MPI_LAYER_FORTRAN_STRINGS_H
#define BELAY_MPI_LAYER_FORTRAN_STRINGS_H

/* *out: a copy without leading and trailing blanks, to be given to free(). */
int ompi_fortran_string_f2c(const char *text, int length, char **out);

/* Fill out[length], cut off or padded with blanks. */
int ompi_fortran_string_c2f(const char *text, char *out, int length);

#endif
