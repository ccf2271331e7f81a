/* own_names.h - functions that a program has by itself, and whose names are known to others: own_names.c. */
#ifndef BELAY_TESTS_PROGRAMS_OWN_NAMES_H
#define BELAY_TESTS_PROGRAMS_OWN_NAMES_H

/* How many of them are not the library's own when they are called; the first of them is printed. */
int own_names_displaced(void);

#endif
