/* stop.c - the rank stops for a line, parks and goes on; see line.h. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <mpi.h>
#include <unistd.h>

#include "mpi-layer/lower/rawsys.h"
#include "mpi-layer/upper/ack.h"
#include "mpi-layer/upper/drain.h"
#include "mpi-layer/upper/line.h"
#include "mpi-layer/upper/rebuild.h"
#include "mpi-layer/upper/stand.h"

int context_save(struct context *context) __attribute__((returns_twice, visibility("hidden")));

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

static void publish_parked(uint64_t line, uint64_t stop_seen_ns)
{
    struct control *control = half_control();
    control->parked_line = line;
    control->resume_context = VK_ADDRESS;
    control->parked_ns = GATE->now_ns();
    control->drain_ns = control->parked_ns - stop_seen_ns;
    line_publish_state(CONTROL_STATE_PARKED);
}

static void note_resumed(uint64_t line)
{
    struct control *control = half_control();
    control->resumed_ns = GATE->now_ns();
    stand_tell_of(line);
}

static const char *thread_failure; /* a thread that has parked could not note what a restart needs */

static void note_thread(void)
{
    const char *failure = GATE->note_thread();
    if (failure)
        __atomic_store_n(&thread_failure, failure, __ATOMIC_SEQ_CST);
}

/* What a restart needs to know of the process. False: it cannot be noted. */
static bool note_process(uint64_t line)
{
    unsigned long upper = lower_enter();
    const char *failure = GATE->note_process();
    lower_leave(upper);
    note_thread();
    if (!failure)
        failure = thread_failure;
    thread_failure = NULL;
    if (line_fault("rank.park", line) && !failure)
        failure = "the fault point rank.park was set to fail";
    return failure ? line_fail(failure, 0) : true;
}

/* The line is not this rank's any more: it waits with the others until that has been ordered. */
static void stand_by(uint64_t line, uint64_t stop_seen_ns)
{
    publish_parked(line, stop_seen_ns);
    wait_parked(line);
    note_resumed(line);
}

static void park(struct thread *self, uint64_t line, uint64_t stop_seen_ns)
{
    uint64_t mask = block_signals();
    if (!note_process(line)) {
        stand_by(line, stop_seen_ns);
    } else if (context_save(&self->context) == 0) {
        stand_by(line, stop_seen_ns);
        line_fault("rank.resume", line);
    } else {
        stand_forget();
        rebuild_all(line);
    }
    unsigned long upper = lower_enter();
    GATE->note_mapped_files();
    lower_leave(upper);
    line_publish_state(CONTROL_STATE_RUNNING);
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
    if (!self->depth && self != VK->threads && !is_mpi_thread && VK->mpi_thread_level < MPI_THREAD_SERIALIZED)
        return false;
    do {
        if (leader == self)
            return true;
        if (leader && !self->depth)
            return false;
    } while (
        !__atomic_compare_exchange_n(&VK->leader, &leader, self, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    __atomic_add_fetch(&VK->park_events, 1, __ATOMIC_SEQ_CST); /* who led until now looks again */
    raw4(SYS_futex, &VK->park_events, FUTEX_WAKE_PRIVATE, INT_MAX, 0);
    return true;
}

/*
 * Acknowledgements are sent before the other threads go on: one of them may be waiting to enter MPI, where
 * there must be one at a time.
 */
static void take_line(struct thread *self, uint64_t stop_seen_ns)
{
    uint64_t line = half_control()->line;
    line_publish_state(CONTROL_STATE_DRAINING);
    enum drain_end end = drain_run(line);
    if (end == DRAIN_DONE) {
        GATE->park_threads();
        if (rebuild_note(line))
            park(self, line, stop_seen_ns);
        else
            stand_by(line, stop_seen_ns);
    } else if (end == DRAIN_LEFT) {
        stand_by(line, stop_seen_ns);
    }
    if (end != DRAIN_DONE || line_has_failed(line))
        line_publish_state(CONTROL_STATE_RUNNING);
    if (end != DRAIN_OVER)
        ack_send_later();
    GATE->release_threads();
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
    bool has_begun = leads && stand_begin_at(stop_seen_ns);
    if (leads)
        take_line(self, stop_seen_ns);
    if (!depth && half_inside.thread == self) /* by what has been sent there */
        half_inside.thread = NULL;
    if (leads)
        stand_tell();
    if (has_begun)
        stand_end();
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

static void announce(struct thread *self, enum thread_park state)
{
    __atomic_store_n(&self->park, state, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&VK->park_events, 1, __ATOMIC_SEQ_CST);
    raw4(SYS_futex, &VK->park_events, FUTEX_WAKE_PRIVATE, 1, 0);
}

/* Until so many steps (gate.h) have been taken since the thread has parked. */
static void wait_park_release(uint32_t parked, uint32_t steps)
{
    uint32_t now;
    while ((now = __atomic_load_n(&VK->park_release, __ATOMIC_SEQ_CST)) - parked < steps)
        raw4(SYS_futex, &VK->park_release, FUTEX_WAIT_PRIVATE, now, 0);
}

/* Threads other than the leader: wait here until it lets them go. */
static void park_thread(struct thread *self)
{
    uint32_t parked = __atomic_load_n(&VK->park_release, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&VK->park_wanted, __ATOMIC_SEQ_CST))
        return;
    uint64_t mask = block_signals();
    if (context_save(&self->context) == 0) {
        announce(self, THREAD_PARKED);
        wait_park_release(parked, 1);
        if (__atomic_load_n(&VK->park_release, __ATOMIC_SEQ_CST) == parked + 1) {
            note_thread();
            announce(self, THREAD_NOTED);
        }
    }
    /* Also where a restored thread comes to: it waits for the same release. */
    wait_park_release(parked, 2);
    unblock_signals(mask);
}

void line_safepoint(struct thread *thread)
{
    int saved = errno; /* the application may be between a call and its look at errno */
    if (!line_stop_if_ordered())
        park_thread(thread);
    errno = saved;
}
