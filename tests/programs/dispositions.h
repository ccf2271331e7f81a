/*
 * dispositions.h - what the parts of time_dispositions share.
 */
#ifndef BELAY_TESTS_PROGRAMS_DISPOSITIONS_H
#define BELAY_TESTS_PROGRAMS_DISPOSITIONS_H

#include <signal.h>

#include "tests/programs/program.h"

#define CYCLE 6 /* steps */
#define ALTERNATE_BYTES 65536

extern struct program program;
extern char alternate[ALTERNATE_BYTES]; /* a stack for handlers */

/* Unless it is true, end the program with what is wrong, and errno. */
void expect(int is_true, const char *what);

/* The thread's mask, one bit a signal; a set with one signal, or none (0). */
uint64_t mask_now(void);
sigset_t only(int number);

/* A handler with SA_SIGINFO and these flags, that blocks one signal more (0: none). */
void set_handler(int number, void (*handler)(int, siginfo_t *, void *), int flags, int blocked);
void on_once(int number, siginfo_t *info, void *context);

/* Alternate stacks, and jumps out of handlers (dispositions_stacks.c). */
void check_small_stack(void);
void check_disarmed(void);
void jump_everywhere(void);

/* What children inherit, told now and then (dispositions_children.c). */
void check_children(long step);

#endif
