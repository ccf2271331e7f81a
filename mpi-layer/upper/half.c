/* half.c - see half.h. */
#include "mpi-layer/upper/half.h"

#include <stdio.h>

#include "common/wire/control.h"
#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/lower/rawsys.h"

void *lower_fn[F_COUNT];

void half_bind(void)
{
    unsigned long upper = lower_enter();
    void *(*symbol)(const char *) = GATE->symbol;
    for (int i = 0; i < F_COUNT; i++)
        lower_fn[i] = symbol(lower_fn_name[i]);
    lower_leave(upper);
}

struct half_inside half_inside;

/* The name as the program calls it: functions are defined by their profiling names. */
static const char *called(const char *function)
{
    return function[0] == 'P' ? function + 1 : function;
}

/* It is not a crash, but it would be one day: the library below and our tables have no locks. */
static void end_for_two_threads(const char *theirs, const char *ours)
{
    static const char *const levels[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED"};
    char text[400];
    snprintf(
        text, sizeof text,
        "two threads are inside MPI at once, in %s and %s, but %s is what MPI_Init_thread has granted: have "
        "one thread at a time call MPI, by an option of the program or a lock, or run it without Belay",
        called(theirs), called(ours), levels[VK->mpi_thread_level < 0 ? 0 : VK->mpi_thread_level]);
    lower_enter();
    GATE->say(text);
    GATE->announce_exit(CONTROL_EXIT_REFUSED, CONTROL_REFUSED_STATUS);
    raw1(SYS_exit_group, CONTROL_REFUSED_STATUS);
}

/* A thread that has ended inside a wrapper, or has left one by a jump, is not inside any more. */
void half_look_inside(const char *function)
{
    struct half_inside inside = half_inside;
    if (inside.thread && inside.thread->life == THREAD_LIVE && inside.thread->depth > 0 &&
        half_inside.thread == inside.thread)
        end_for_two_threads(inside.function, function);
    half_inside.thread = thread_self();
    half_inside.function = function;
}
