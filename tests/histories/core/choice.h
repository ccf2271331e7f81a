/*
 * choice.h - which operation a step does: chosen by the dice among all that the options leave.
 */
#ifndef BELAY_TESTS_HISTORIES_CORE_CHOICE_H
#define BELAY_TESTS_HISTORIES_CORE_CHOICE_H

#include <stdbool.h>

#include "tests/histories/core/kind.h"

/* LIST: KIND or KIND.OPERATION, with commas. Only these are chosen from (NULL: all). */
void choice_only(const char *list);

/* Steps for which one of these was chosen are left out. May be called several times; NULL changes nothing. */
void choice_without(const char *list);

/* LIST: [RANK:]FIRST[-LAST], with commas: steps that are left out, of one rank or of all. False: not such a
 * list. */
bool choice_skip(const char *list);

struct choice {
    const struct kind *kind; /* NULL: nothing */
    const struct operation *operation;
};

/* What this rank does in the step; the dice of the step are taken. */
struct choice choice_of(int rank, long step);

/* True if this kind, or this operation of it, is among those of the options. */
bool choice_has(const char *kind, const char *operation);

/* Print all operations, one a line. */
void choice_print(void);

#endif
