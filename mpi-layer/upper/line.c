/* line.c - see line.h. */
#include "mpi-layer/upper/line.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
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
    uint32_t version = line_publish_begin(control);
    control->peer_count = count > CONTROL_MAX_PEERS ? 0 : count;
    for (uint32_t i = 0; i < control->peer_count; i++)
        control->peers[i] = world_ranks[i];
    control->state = CONTROL_STATE_WAITING;
    line_publish_end(control, version);
    GATE->notify();
}

static void publish_state(uint32_t state)
{
    struct control *control = half_control();
    uint32_t version = line_publish_begin(control);
    control->state = state;
    line_publish_end(control, version);
    GATE->notify();
}

void line_wait_command(uint32_t seen)
{
    int flag;
    lower_MPI_Iprobe(0, 0, comm_private_self(), &flag, MPI_STATUS_IGNORE);
    GATE->wait_command(seen, PROGRESS_MS);
}

/*
 * No handler of the application may run while its memory is captured, or after a restart before all is
 * rebuilt. Returns the mask until then.
 */
static uint64_t block_signals(void)
{
    return GATE->set_signal_mask(~0ul);
}

static void unblock_signals(uint64_t mask)
{
    GATE->set_signal_mask(mask);
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
    uint64_t mask = block_signals();
    unsigned long upper = lower_enter();
    GATE->note_process();
    lower_leave(upper);
    GATE->note_thread();
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
    upper = lower_enter();
    GATE->note_mapped_files();
    lower_leave(upper);
    publish_state(CONTROL_STATE_RUNNING);
    unblock_signals(mask);
}

/*
 * The thread that takes the line is its leader: it drains, parks the others, and says that the rank is
 * parked. That is the thread that is inside MPI, if there is one; calls come from one thread at a time
 * (MPI_THREAD_SERIALIZED). A thread at no wrapper leads only until one inside MPI wants to.
 */
static bool lead(struct thread *self)
{
    struct thread *leader = __atomic_load_n(&VK->leader, __ATOMIC_SEQ_CST);
    bool is_mpi_thread = self == VK->mpi_thread || VK->mpi_thread->life != THREAD_LIVE;
    if (!self->depth && self != VK->threads && !is_mpi_thread &&
        VK->mpi_thread_level < MPI_THREAD_SERIALIZED)
        return false;
    do {
        if (leader == self)
            return true;
        if (leader && !self->depth)
            return false;
    } while (
        !__atomic_compare_exchange_n(&VK->leader, &leader, self, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    __atomic_add_fetch(&VK->park_events, 1, __ATOMIC_SEQ_CST); /* who led until now looks again */
    syscall(SYS_futex, &VK->park_events, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    return true;
}

static void take_line(struct thread *self, uint64_t stop_seen_ns)
{
    uint64_t line = half_control()->line;
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
        GATE->release_threads();
    }
}

/*
 * False: another thread is the leader by now. At no wrapper others could enter MPI while we drain, so they
 * are parked first. Inside one they cannot, and what the drain calls (a user's operation) may need them.
 */
static bool stop(struct thread *self)
{
    uint64_t stop_seen_ns = GATE->now_ns();
    uint32_t depth = self->depth;
    bool is_alone = depth || (VK->mpi_thread_level < MPI_THREAD_SERIALIZED && self == VK->mpi_thread);
    self->pending &= ~(uint32_t)THREAD_PENDING_SIGNAL;
    self->depth = depth + 1; /* nothing below is a safe point */
    bool leads = is_alone || GATE->park_threads();
    if (leads)
        take_line(self, stop_seen_ns);
    self->depth = depth;
    return leads;
}

bool line_stop_if_ordered(void)
{
    struct control *control = half_control();
    struct thread *self = thread_self();
    if (__atomic_load_n(&control->command, __ATOMIC_SEQ_CST) != CONTROL_STOP ||
        control->parked_line == control->line || control->state == CONTROL_STATE_FINALIZED)
        return false;
    return lead(self) && stop(self);
}

/* Threads other than the leader: wait here until it lets them go. */
static void park_thread(struct thread *self)
{
    uint32_t release = __atomic_load_n(&VK->park_release, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&VK->park_wanted, __ATOMIC_SEQ_CST))
        return;
    uint64_t mask = block_signals();
    GATE->note_thread();
    if (context_save(&self->context) == 0) {
        __atomic_store_n(&self->park, THREAD_PARKED, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(&VK->park_events, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &VK->park_events, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
    /* Also where a restored thread comes to: it waits for the same release. */
    while (__atomic_load_n(&VK->park_release, __ATOMIC_SEQ_CST) == release)
        syscall(SYS_futex, &VK->park_release, FUTEX_WAIT_PRIVATE, release, NULL, NULL, 0);
    unblock_signals(mask);
}

void line_safepoint(struct thread *thread)
{
    int saved = errno; /* the application may be between a call and its look at errno */
    if (!line_stop_if_ordered())
        park_thread(thread);
    errno = saved;
}

void line_start(void)
{
    publish_state(CONTROL_STATE_RUNNING);
}
