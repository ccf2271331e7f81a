/*
 * closure.h - functions with a value bound to them.
 *
 * Some callbacks of MPI tell the callee nothing about what they were registered for. A closure is a few
 * bytes of code in saved memory that pass one more argument. The code is the same for all of them and never
 * changes; what it passes, and to whom, lies a page behind:
 *
 *     4c 8b 05 ..    mov bound(%rip), %r8    (the fifth argument)
 *     ff 25 ..       jmp *target(%rip)
 */
#ifndef BELAY_MPI_LAYER_UPPER_CLOSURE_H
#define BELAY_MPI_LAYER_UPPER_CLOSURE_H

typedef void closure_f(void);

/*
 * A function that calls target with its own first four arguments and `bound` as the fifth. NULL: out of
 * memory.
 */
closure_f *closure_new(closure_f *target, const void *bound);

/* Nobody will call it any more. NULL is accepted. */
void closure_free(closure_f *closure);

#endif
