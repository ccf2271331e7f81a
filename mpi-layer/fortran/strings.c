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
    size_t used = (size_t)(end - text);
    *out = malloc(used + 1);
    if (!*out)
        return OUT_OF_RESOURCE;
    memcpy(*out, text, used);
    (*out)[used] = 0;
    return SUCCESS;
}

int ompi_fortran_string_c2f(const char *text, char *out, int length)
{
    size_t used = 0;
    while (used < (size_t)length && text[used])
        used++;
    memcpy(out, text, used);
    memset(out + used, ' ', (size_t)length - used);
    return SUCCESS;
}
