/* fortran_help.c - program.h for programs in Fortran: routines that pass everything by reference. */
#include <stdio.h>

#include "tests/programs/program.h"

static struct program program = {.steps = 100};
static int argument_count;
static char **arguments;

/* glibc hands constructors the arguments of main, which a Fortran program keeps for itself. */
__attribute__((constructor)) static void note_arguments(int argc, char **argv)
{
    argument_count = argc;
    arguments = argv;
}

void help_begin_(const char *name, int length);
void help_begin_(const char *name, int length)
{
    static char text[64];
    snprintf(text, sizeof text, "%.*s", length, name);
    program_begin(&program, text, argument_count, arguments);
}

int help_steps_(void);
int help_steps_(void)
{
    return (int)program.steps;
}

void help_step_(const int *step);
void help_step_(const int *step)
{
    program_step(&program, *step);
}

void help_add_(const void *data, const int *bytes);
void help_add_(const void *data, const int *bytes)
{
    digest_add(&program.digest, data, (size_t)*bytes);
}

void help_fail_(const char *text, const int *number, int length);
void help_fail_(const char *text, const int *number, int length)
{
    fail(&program, "%.*s: %d", length, text, *number);
}

void help_end_(void);
void help_end_(void)
{
    program_end(&program);
}
