/* strings.c - the library's own helpers for character arguments, which its Fortran bindings import. */
#include <stdlib.h>
#include <string.h>

#include "mpi-layer/fortran/strings.h"

#define SUCCESS 0          /* OPAL_SUCCESS */
#define OUT_OF_RESOURCE -2 /* OPAL_ERR_OUT_OF_RESOURCE */

int ompi_fortran_string_f2c(const char *text, int length, char **out)
{
    const char *end = text + length;
    while (text < end && *text == ' ')
        text++;
    while (end > text && end[-1] == ' ')
        end--;
    *out = strndup(text, (size_t)(end - text));
    return *out ? SUCCESS : OUT_OF_RESOURCE;
}

int ompi_fortran_string_c2f(const char *text, char *out, int length)
{
    size_t used = strnlen(text, (size_t)length);
    memcpy(out, text, used);
    memset(out + used, ' ', (size_t)length - used);
    return SUCCESS;
}
