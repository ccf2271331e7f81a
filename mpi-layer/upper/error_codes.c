/* error_codes.c - see error_codes.h. */
#include "mpi-layer/upper/error_codes.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/attr.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/errors.h"

#define MAX_SAID 512 /* more than there are functions */

/* An error class or code that was added: the library numbers them in their order. */
struct added {
    int number;
    int class;  /* of a code; a class is its own */
    char *text; /* NULL: none */
    struct added *next;
};

static struct added *first_added, **end_of_added = &first_added;

static int add_real(int class, int *number)
{
    return class < 0 ? lower_MPI_Add_error_class(number) : lower_MPI_Add_error_code(class, number);
}

/* A new class (class < 0) or a code of a class. Inside a wrapper. */
static int add(int class, int *number)
{
    struct added *added = arena_alloc(sizeof *added);
    int code = added ? add_real(class, number) : MPI_ERR_NO_MEM;
    if (code != MPI_SUCCESS) {
        arena_free(added);
        return added ? code : errors_raise(NULL, code);
    }
    added->number = *number;
    added->class = class < 0 ? *number : class;
    *end_of_added = added;
    end_of_added = &added->next;
    attr_bind_predefined(); /* MPI_LASTUSEDCODE */
    return MPI_SUCCESS;
}

static int add_string(int number, const char *text)
{
    struct added *added = first_added;
    char *copy = arena_alloc(strlen(text) + 1);
    while (added && added->number != number)
        added = added->next;
    int code = copy ? lower_MPI_Add_error_string(number, text) : errors_raise(NULL, MPI_ERR_NO_MEM);
    if (code != MPI_SUCCESS || !added) {
        arena_free(copy);
        return code;
    }
    arena_free(added->text);
    added->text = strcpy(copy, text);
    return MPI_SUCCESS;
}

void error_codes_restore(void)
{
    for (const struct added *added = first_added; added; added = added->next) {
        int number;
        add_real(added->class == added->number ? -1 : added->class, &number);
        if (added->text)
            lower_MPI_Add_error_string(added->number, added->text);
    }
}

int PMPI_Add_error_class(int *errorclass)
{
    wrapper_enter();
    int code = add(-1, errorclass);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Add_error_class);

int PMPI_Add_error_code(int errorclass, int *errorcode)
{
    wrapper_enter();
    int code = errorclass < 0 ? errors_raise(NULL, MPI_ERR_ARG) : add(errorclass, errorcode);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Add_error_code);

int PMPI_Add_error_string(int errorcode, const char *string)
{
    wrapper_enter();
    int code = add_string(errorcode, string);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Add_error_string);

/* Each refusal is said once. Names are string literals of the wrappers, one for each function. */
static bool was_said(const char *function)
{
    static const char *said[MAX_SAID];
    size_t i = 0;
    while (i < MAX_SAID - 1 && said[i] && said[i] != function)
        i++;
    bool was = said[i] == function;
    said[i] = function;
    return was;
}

/*
 * Also said on standard error: with MPI_ERRORS_RETURN most programs look at no code, and a fatal handler
 * prints only what the library knows.
 */
int refuse(const char *function, const char *reason, MPI_Comm comm)
{
    char text[MPI_MAX_ERROR_STRING];
    int code = MPI_ERR_UNSUPPORTED_OPERATION, own = 0;
    snprintf(text, sizeof text, "%s is not supported under Belay: %s", function, reason);
    if (!was_said(function))
        GATE->say(text);
    if (!comm_world())
        return code;
    wrapper_enter_anytime();
    if (add(MPI_ERR_UNSUPPORTED_OPERATION, &own) == MPI_SUCCESS) {
        add_string(own, text);
        code = own;
    }
    wrapper_leave();
    return errors_raise(comm, code);
}
