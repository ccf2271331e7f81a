/*
 * fiber.h - code that waits within a call, run as events of the simulation: it has a stack of its own, and
 * gives the processor back where it waits.
 */
#ifndef BELAY_TESTS_SIM_FIBER_H
#define BELAY_TESTS_SIM_FIBER_H

#include <stdbool.h>

struct fiber;

/* Ends the program when there is no memory. */
struct fiber *fiber_create(void);
/* It must not be running. Accepts NULL. */
void fiber_destroy(struct fiber *fiber);
/* Run until the code waits for the first time, or ends. */
void fiber_start(struct fiber *fiber, void (*run)(void *context), void *context);
/* Has it been started, and has not ended? */
bool fiber_is_running(const struct fiber *fiber);
/* From outside: let it go on until it waits again, or ends. */
void fiber_resume(struct fiber *fiber);
/* From within. */
void fiber_wait(struct fiber *fiber);

#endif
