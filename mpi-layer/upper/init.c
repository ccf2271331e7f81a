/* init.c - MPI_Init, MPI_Finalize, MPI_Abort and what belongs to nothing else. */
#include "mpi-layer/upper/init.h"

#include <stdlib.h>
#include <time.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/fortran/numbers.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/attr.h"
#include "mpi-layer/upper/buffer.h"
#include "mpi-layer/upper/bytes.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/line.h"
#include "mpi-layer/upper/p2p.h"
#include "mpi-layer/upper/phase.h"
#include "mpi-layer/upper/request_look.h"
#include "mpi-layer/upper/wait.h"

static void *end_barrier; /* real request */

/* At most SERIALIZED: the thread inside MPI is the one that a line is taken by. */
static int init(int required, int *provided)
{
    int level = required < MPI_THREAD_SERIALIZED ? required : MPI_THREAD_SERIALIZED;
    wrapper_enter();
    int code = lower_MPI_Init_thread(NULL, NULL, level, provided);
    if (code == MPI_SUCCESS) {
        VK->mpi_thread_level = level;
        VK->mpi_thread = thread_self();
        if (*provided > MPI_THREAD_SERIALIZED)
            *provided = MPI_THREAD_SERIALIZED;
        attr_bind_predefined();
        numbers_start();
        p2p_bind();
        bytes_bind();
        arena_take_ballast();
        code = comm_start() ? MPI_ERR_NO_MEM : MPI_SUCCESS;
    }
    if (code == MPI_SUCCESS) {
        phase.is_initialized = true;
        line_start();
    }
    wrapper_leave();
    return code;
}

int PMPI_Init(int *argc, char ***argv)
{
    int provided;
    (void)argc, (void)argv;
    return init(MPI_THREAD_SINGLE, &provided);
}
API_EXPORT(MPI_Init);

int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    (void)argc, (void)argv;
    return init(required, provided);
}
API_EXPORT(MPI_Init_thread);

int PMPI_Is_thread_main(int *flag)
{
    *flag = thread_self() == VK->mpi_thread;
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Is_thread_main);

/* By the application's clock, which the library below does not know; it counts from the first call as well.
 */
double PMPI_Wtime(void)
{
    static struct timespec origin;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (UNLIKELY(!origin.tv_sec))
        origin = now;
    return (double)(now.tv_sec - origin.tv_sec) + (double)(now.tv_nsec - origin.tv_nsec) * 1e-9;
}
API_EXPORT(MPI_Wtime);

int PMPI_Initialized(int *flag)
{
    *flag = phase.is_initialized;
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Initialized);

int PMPI_Finalized(int *flag)
{
    *flag = phase.is_finalized;
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Finalized);

static void start_end_barrier(void)
{
    lower_MPI_Ibarrier(comm_private_end(), &end_barrier);
}

void init_restore(void)
{
    if (phase.is_ending)
        start_end_barrier();
}

/*
 * Wait, where a line can stop us, until every rank has come here. From then on there is no line any more,
 * so none can find some ranks with MPI and others without.
 */
static void wait_for_all(void)
{
    uint32_t seen = wait_orders_seen();
    int flag = 0;
    phase.is_ending = true;
    start_end_barrier();
    for (;;) {
        lower_MPI_Test(&end_barrier, &flag, MPI_STATUS_IGNORE);
        if (flag)
            break;
        wait_check(&seen, NULL, 0);
    }
}

/* Nobody can send any more: what was freed before goes now, or the library would find it in use. */
static void reap_all(void)
{
    while (comm_endings_in_flight())
        ;
    request_reap_all();
    comm_reap();
}

int PMPI_Finalize(void)
{
    int code = attr_delete_all(MPI_COMM_SELF);
    if (code != MPI_SUCCESS)
        return errors_raise(MPI_COMM_SELF, code);
    wrapper_enter();
    buffer_flush();
    wait_for_all();
    reap_all();
    struct control *control = half_control();
    uint32_t version = control_publish_begin(control);
    control->state = CONTROL_STATE_FINALIZED;
    control_publish_end(control, version);
    GATE->notify();
    code = lower_MPI_Finalize();
    phase.is_finalized = true;
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Finalize);

int PMPI_Abort(MPI_Comm comm, int errorcode)
{
    wrapper_enter_anytime();
    GATE->announce_exit(CONTROL_EXIT_ABORT, errorcode);
    int code = lower_MPI_Abort(api_real(comm), errorcode);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Abort);

int PMPI_Pcontrol(const int level, ...)
{
    (void)level; /* for profilers, which define their own */
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Pcontrol);

/* Memory of the library would be gone after a restart; the application's own is not. */
int PMPI_Alloc_mem(MPI_Aint size, MPI_Info info, void *baseptr)
{
    (void)info; /* there is one kind of memory */
    if (size < 0 || !baseptr)
        return errors_raise(NULL, MPI_ERR_ARG);
    void *memory = malloc(size > 0 ? (size_t)size : 1);
    if (!memory)
        return errors_raise(NULL, MPI_ERR_NO_MEM);
    *(void **)baseptr = memory;
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Alloc_mem);

int PMPI_Free_mem(void *base)
{
    free(base);
    return MPI_SUCCESS;
}
API_EXPORT(MPI_Free_mem);
