/* half.c - see half.h; also the library's constructor. */
#include "mpi-layer/upper/half.h"

#include <stdio.h>
#include <unistd.h>

#include "common/wire/control.h"
#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/fortran/bindings.h"
#include "mpi-layer/lower/rawsys.h"
#include "mpi-layer/upper/errhandler.h"
#include "mpi-layer/upper/handle.h"
#include "mpi-layer/upper/line.h"
#include "mpi-layer/upper/request.h"

void *lower_fn[F_COUNT];

void half_bind(void)
{
    unsigned long upper = lower_enter();
    void *(*symbol)(const char *) = GATE->symbol;
    for (int i = 0; i < F_COUNT; i++)
        lower_fn[i] = symbol(lower_fn_name[i]);
    request_bind();
    lower_leave(upper);
    handle_bind_predefined();
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

void half_act_on_pending(void)
{
    struct thread *self = thread_self();
    uint32_t pending = self->pending;
    if (self->depth)
        return;
    self->pending &= THREAD_PENDING_HANDLERS;
    if (pending & THREAD_PENDING_SIGNAL)
        line_safepoint(self);
    if (UNLIKELY(pending & THREAD_PENDING_ERROR))
        errhandler_deliver();
}

/* The library may also be loaded into a program that runs outside Belay (a child of a rank). */
static int is_in_rank(void)
{
    unsigned char resident;
    return raw3(SYS_mincore, GATE_ADDRESS, MAP_PAGE_BYTES, &resident) == 0 && VK->magic == VK_MAGIC;
}

__attribute__((constructor)) static void half_start(void)
{
    static const char refusal[] = "belay: this libmpi works only inside belay-launch: take it out of "
                                  "LD_PRELOAD and LD_LIBRARY_PATH\n";
    if (!is_in_rank()) {
        raw3(SYS_write, STDERR_FILENO, refusal, sizeof refusal - 1);
        _exit(CONTROL_REFUSED_STATUS);
    }
    half_bind();
    bindings_publish();
    VK->safepoint = line_safepoint;
}
