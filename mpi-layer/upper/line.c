/* line.c - see line.h. */
#include "mpi-layer/upper/line.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/ack.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/drain.h"
#include "mpi-layer/upper/rebuild.h"

#define PROGRESS_MS 2 /* how long the library may go without progress while the rank holds or is parked */

int context_save(struct context *context) __attribute__((returns_twice, visibility("hidden")));

void line_publish_waiting(const int *world_ranks, uint32_t count)
{
    struct control *control = half_control();
    line_publish_begin(control);
    control->peer_count = count > CONTROL_MAX_PEERS ? 0 : count;
    for (uint32_t i = 0; i < control->peer_count; i++)
        control->peers[i] = world_ranks[i];
    control->state = CONTROL_STATE_WAITING;
    line_publish_end(control);
    GATE->notify();
}

static void publish_state(uint32_t state)
{
    struct control *control = half_control();
    line_publish_begin(control);
    control->state = state;
    line_publish_end(control);
    GATE->notify();
}

void line_wait_command(uint32_t seen)
{
    int flag;
    lower_MPI_Iprobe(0, 0, comm_private_self(), &flag, MPI_STATUS_IGNORE);
    GATE->wait_command(seen, PROGRESS_MS);
}

static uint64_t mask_now(void)
{
    uint64_t mask = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &mask, 8);
    return mask;
}

static void fault(const char *point, uint64_t line)
{
    unsigned long upper = lower_enter();
    GATE->fault(point, line);
    lower_leave(upper);
}

/* Wait while the line's order to stop stands. */
static void wait_parked(uint64_t line)
{
    struct control *control = half_control();
    for (;;) {
        uint32_t seen = __atomic_load_n(&control->command_seq, __ATOMIC_SEQ_CST);
        uint32_t command = __atomic_load_n(&control->command, __ATOMIC_SEQ_CST);
        if (command == CONTROL_EXIT)
            _exit(0);
        if (command != CONTROL_STOP || control->line != line)
            return;
        line_wait_command(seen);
    }
}

static void park(struct thread *self, uint64_t line, uint64_t stop_seen_ns)
{
    struct control *control = half_control();
    unsigned long upper = lower_enter();
    GATE->note_process();
    lower_leave(upper);
    self->signal_mask = mask_now();
    fault("rank.park", line);
    if (context_save(&self->context) == 0) {
        control->parked_line = line;
        control->resume_context = VK_ADDRESS;
        control->parked_ns = GATE->now_ns();
        control->drain_ns = control->parked_ns - stop_seen_ns;
        publish_state(CONTROL_STATE_PARKED);
        wait_parked(line);
        control->resumed_ns = GATE->now_ns();
        control->resumed_line = line;
        fault("rank.resume", line);
    } else {
        rebuild_all(line);
    }
    publish_state(CONTROL_STATE_RUNNING);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &self->signal_mask, NULL, 8);
}

static void stop(void)
{
    struct thread *self = thread_self();
    struct control *control = half_control();
    uint64_t line = control->line, stop_seen_ns = GATE->now_ns();
    uint32_t depth = self->depth;
    self->pending &= ~(uint32_t)THREAD_PENDING_SIGNAL;
    self->depth = depth + 1; /* nothing below is a safe point */
    publish_state(CONTROL_STATE_DRAINING);
    fault("rank.drain", line);
    if (drain_run(line)) {
        GATE->park_threads();
        rebuild_note();
        park(self, line, stop_seen_ns);
        GATE->release_threads();
        ack_send_later();
    } else {
        publish_state(CONTROL_STATE_RUNNING);
    }
    self->depth = depth;
}

bool line_stop_if_ordered(void)
{
    struct control *control = half_control();
    if (__atomic_load_n(&control->command, __ATOMIC_SEQ_CST) != CONTROL_STOP ||
        control->parked_line == control->line || control->state == CONTROL_STATE_FINALIZED)
        return false;
    stop();
    return true;
}

/* Threads other than the main one: wait here until the main thread lets them go. */
static void park_thread(struct thread *self)
{
    uint32_t release = __atomic_load_n(&VK->park_release, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&VK->park_wanted, __ATOMIC_SEQ_CST))
        return;
    self->signal_mask = mask_now();
    if (context_save(&self->context) == 0) {
        __atomic_store_n(&self->park, THREAD_PARKED, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(&VK->park_events, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &VK->park_events, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
    /* Also where a restored thread comes to: it waits for the same release. */
    while (__atomic_load_n(&VK->park_release, __ATOMIC_SEQ_CST) == release)
        syscall(SYS_futex, &VK->park_release, FUTEX_WAIT_PRIVATE, release, NULL, NULL, 0);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &self->signal_mask, NULL, 8);
}

void line_safepoint(struct thread *thread)
{
    int saved = errno; /* the application may be between a call and its look at errno */
    if (thread == VK->threads)
        line_stop_if_ordered();
    else
        park_thread(thread);
    errno = saved;
}

void line_start(void)
{
    publish_state(CONTROL_STATE_RUNNING);
}
