/* interpose.c - see interpose.h. */
#include "mpi-layer/lower/interpose.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>

#include "common/wire/control.h"
#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/rawsys.h"
#include "mpi-layer/lower/vk_own_signal.h"

struct ompi_communicator_t;
int ompi_mpi_abort(struct ompi_communicator_t *comm, int code);

typedef int create_f(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
typedef int abort_f(struct ompi_communicator_t *, int);

static void (*announce_abort)(uint32_t kind, int status);

void interpose_on_abort(void (*announce)(uint32_t kind, int status))
{
    announce_abort = announce;
}

int ompi_mpi_abort(struct ompi_communicator_t *comm, int code)
{
    abort_f *next = (abort_f *)dlsym(RTLD_NEXT, "ompi_mpi_abort");
    if (announce_abort)
        announce_abort(CONTROL_EXIT_ABORT, code);
    return next ? next(comm, code) : -1;
}

int pthread_create(pthread_t *handle, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument)
{
    static create_f *next;
    uint64_t old, all = ~(VK_SIGNAL_BIT(SIGSEGV) | VK_SIGNAL_BIT(SIGBUS) | VK_SIGNAL_BIT(SIGFPE) |
                          VK_SIGNAL_BIT(SIGILL) | VK_SIGNAL_BIT(SIGSYS));
    if (!next)
        next = (create_f *)dlsym(RTLD_NEXT, "pthread_create");
    raw4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, 8);
    int code = next(handle, attributes, start, argument);
    raw4(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, 8);
    return code;
}
