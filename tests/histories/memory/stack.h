/*
 * stack.h - steps that are done inside a frame.
 */
#ifndef BELAY_TESTS_HISTORIES_MEMORY_STACK_H
#define BELAY_TESTS_HISTORIES_MEMORY_STACK_H

/* If the step just done was to descend: do the next ones with large local variables, which must be the same
 * afterwards. */
void stack_descend(void (*do_steps)(long count));

#endif
