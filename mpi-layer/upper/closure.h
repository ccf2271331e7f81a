/*
 * closure.h - functions with a value bound to them.
 *
 * Some callbacks of MPI tell the callee nothing about what they were registered for. A closure is a few
 * bytes of code in saved memory that pass one more argument:
 *
 *     49 b8 ..    movabs $bound, %r8     (the fifth argument)
 *     48 b8 ..    movabs $target, %rax
 *     ff e0       jmp *%rax
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
