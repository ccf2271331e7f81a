/*
 * half.h - crossing into the lower half, and what is no safe point.
 *
 * lower_enter()/lower_leave() switch the FS base, so between them nothing of the upper libc may be called
 * (and nothing that uses thread-local storage); calls through lower_fn[] may. wrapper_enter() and
 * wrapper_leave() bracket every function of MPI: in between the thread is at no safe point, so real
 * handles stay valid. They nest. The outermost wrapper_leave() is a safe point itself. wrapper_enter()
 * notices another thread that is inside MPI.
 */
#ifndef BELAY_MPI_LAYER_UPPER_HALF_H
#define BELAY_MPI_LAYER_UPPER_HALF_H

#include <stdbool.h>

#include "mpi-layer/lower/gate.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

_Static_assert(offsetof(struct thread, lower_fs) == 8 && offsetof(struct thread, upper_fs) == 16 &&
                   offsetof(struct thread, depth) == 24 && offsetof(struct thread, pending) == 28,
               "offsets used below");

/* The real library's functions, by the generator's numbers. Filled by half_bind(). */
extern void *lower_fn[];

/* Look up the real functions (bind.h). */
void half_bind(void);

/* The agent's signal or an MPI error came inside a wrapper: act, if there still is something to do
 * (pending.c). */
void half_act_on_pending(void);

/* Receives that the next crossing posts first, and what does so (p2p.c). FS base of the lower half. */
extern uint32_t half_receives_to_post;
void half_post_receives(void);

static inline unsigned long lower_enter(void)
{
    unsigned long upper, lower;
    __asm__ volatile("mov %%gs:16, %0\n\tmov %%gs:8, %1\n\twrfsbase %1"
                     : "=&r"(upper), "=&r"(lower)
                     :
                     : "memory");
    if (UNLIKELY(half_receives_to_post))
        half_post_receives();
    return upper;
}

static inline void lower_leave(unsigned long upper)
{
    __asm__ volatile("wrfsbase %0" : : "r"(upper) : "memory");
}

/* Post them without further ado. */
static inline void half_post_now(void)
{
    if (half_receives_to_post)
        lower_leave(lower_enter());
}

/*
 * The thread that is inside MPI, and the function that it has called. There is one at a time, by the level
 * that MPI_Init_thread grants; no lock sees to it. Two of them at once are mostly noticed, and end the
 * program.
 */
struct half_inside {
    struct thread *thread; /* NULL: none */
    const char *function;
};
extern struct half_inside half_inside __attribute__((visibility("hidden")));

/* Another thread seems to be inside: look, and end the program if it is. */
void half_look_inside(const char *function);

/* For functions that may be called at any time, by any thread: they make nothing and wait for nobody. */
static inline void wrapper_enter_anytime(void)
{
    __asm__ volatile("incl %%gs:24" : : : "memory", "cc");
}

static inline void wrapper_enter_as(const char *function)
{
    struct thread *self = thread_self(), *inside = half_inside.thread;
    wrapper_enter_anytime();
    if (LIKELY(!inside)) {
        half_inside.thread = self;
        half_inside.function = function;
    } else if (UNLIKELY(inside != self)) { /* not a wrapper within another one */
        half_look_inside(function);
    }
}

#define wrapper_enter() wrapper_enter_as(__func__)

/* The outermost one: the thread is not inside MPI any more. */
static inline void wrapper_leave(void)
{
    unsigned pending;
    bool is_outermost;
    __asm__ volatile("decl %%gs:24" : "=@ccz"(is_outermost) : : "memory");
    if (LIKELY(is_outermost))
        half_inside.thread = NULL;
    __asm__ volatile("movl %%gs:28, %0" : "=r"(pending) : : "memory");
    if (UNLIKELY(pending))
        half_act_on_pending();
}

static inline struct control *half_control(void)
{
    return GATE->control;
}

#endif
