/* half.c - see half.h; also the library's constructor. */
#include "mpi-layer/upper/half.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mpi-layer/api/api.gen.h"
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

void half_act_on_pending(void)
{
    struct thread *self = thread_self();
    uint32_t pending = self->pending;
    if (self->depth)
        return;
    self->pending = 0;
    if (pending & THREAD_PENDING_SIGNAL)
        line_safepoint(self);
    if (UNLIKELY(pending & THREAD_PENDING_ERROR))
        errhandler_deliver();
}

/* The library may also be loaded into a program that runs outside Belay (a child of a rank). */
static int is_in_rank(void)
{
    unsigned char resident;
    return mincore((void *)GATE_ADDRESS, MAP_PAGE_BYTES, &resident) == 0 && VK->magic == VK_MAGIC;
}

/* Children of the application are not ranks: they must not get this library. */
static void hide_from_children(void)
{
    const char *list = getenv("LD_PRELOAD");
    size_t length = list ? strcspn(list, " ") : 0; /* the user's own; what follows is for this process */
    char *others = length ? strndup(list, length) : NULL;
    unsetenv("LD_PRELOAD");
    if (others)
        setenv("LD_PRELOAD", others, 1);
    free(others);
}

__attribute__((constructor)) static void half_start(void)
{
    if (!is_in_rank()) {
        fprintf(stderr, "belay: this libmpi works only inside belay-launch; take it out of LD_PRELOAD\n");
        _Exit(97);
    }
    half_bind();
    VK->safepoint = line_safepoint;
    hide_from_children();
}
