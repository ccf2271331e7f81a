/* line.c - see line.h. */
#include "mpi-layer/upper/line.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <unistd.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/lower/rawsys.h"
#include "mpi-layer/upper/ack.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/drain.h"
#include "mpi-layer/upper/rebuild.h"

#define PROGRESS_MS 2 /* how long the library may go without progress while the rank holds or is parked */

int context_save(struct context *context) __attribute__((returns_twice, visibility("hidden")));

void line_publish_waiting(const int *world_ranks, uint32_t count)
{
    struct control *control = half_control();
    uint32_t version = control_publish_begin(control);
    control->peer_count = count > CONTROL_MAX_PEERS ? 0 : count;
    for (uint32_t i = 0; i < control->peer_count; i++)
        control->peers[i] = world_ranks[i];
    control->state = CONTROL_STATE_WAITING;
    control_publish_end(control, version);
    GATE->notify();
}

static void publish_state(uint32_t state)
{
    struct control *control = half_control();
    uint32_t version = control_publish_begin(control);
    control->state = state;
    control_publish_end(control, version);
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

bool line_fault(const char *point, uint64_t line)
{
    unsigned long upper = lower_enter();
    int must_fail = GATE->fault(point, line);
    lower_leave(upper);
    return must_fail;
}

/* ---- when a rank cannot go on ---- */

/* No libc: a signal handler may be running, and the application in the middle of its own printf. */
static char *put_text(char *at, const char *end, const char *text)
{
    while (*text && at < end)
        *at++ = *text++;
    return at;
}

static char *put_number(char *at, const char *end, uint64_t number)
{
    char digits[21];
    size_t i = sizeof digits - 1;
    digits[i] = 0;
    do
        digits[--i] = (char)('0' + number % 10);
    while (number /= 10);
    return put_text(at, end, digits + i);
}

bool line_has_failed(uint64_t line)
{
    return half_control()->failed_line == line;
}

bool line_fail(const char *reason, uint64_t bytes)
{
    struct control *control = half_control();
    char *at = control->failure, *end = at + sizeof control->failure - 1;
    if (line_has_failed(control->line))
        return false;
    at = put_text(at, end, reason);
    if (bytes) {
        at = put_text(at, end, " (");
        at = put_number(at, end, bytes);
        at = put_text(at, end, " bytes)");
    }
    *at = 0;
    __atomic_store_n(&control->failed_line, control->line, __ATOMIC_RELEASE);
    GATE->notify();
    return false;
}

/* ---- how long the program stands still ---- */

static struct {
    uint64_t line;     /* that it stands still for, or has done last */
    uint64_t since_ns; /* 0: it runs */
    uint64_t ns;       /* before that */
    uint64_t over;     /* a line of which the agent is to be told when the program goes on; 0: none */
} standing;

static bool stand_since(uint64_t now_ns)
{
    uint64_t line = half_control()->line;
    if (standing.since_ns)
        return false;
    if (standing.line != line)
        standing.ns = 0;
    standing.line = line;
    standing.since_ns = now_ns;
    return true;
}

bool line_stand_begin(void)
{
    return stand_since(GATE->now_ns());
}

static uint64_t stood_ns(void)
{
    return standing.ns + (standing.since_ns ? GATE->now_ns() - standing.since_ns : 0);
}

void line_stand_end(void)
{
    standing.ns = stood_ns();
    standing.since_ns = 0;
}

/* The last word of this rank about a line. */
static void tell_stood(void)
{
    struct control *control = half_control();
    if (!standing.over)
        return;
    control->stood_ns = stood_ns();
    __atomic_store_n(&control->resumed_line, standing.over, __ATOMIC_RELEASE);
    standing.over = 0;
    GATE->notify();
}

/* What stood still was another process, by its own clock. */
static void forget_standing(void)
{
    standing.since_ns = standing.ns = 0;
}

/* ---- parking ---- */

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
    publish_state(CONTROL_STATE_PARKED);
}

static void note_resumed(uint64_t line)
{
    struct control *control = half_control();
    control->resumed_ns = GATE->now_ns();
    standing.over = line;
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
        forget_standing();
        rebuild_all(line);
    }
    unsigned long upper = lower_enter();
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
    publish_state(CONTROL_STATE_DRAINING);
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
        publish_state(CONTROL_STATE_RUNNING);
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
    bool has_begun = leads && stand_since(stop_seen_ns);
    if (leads)
        take_line(self, stop_seen_ns);
    if (!depth && half_inside.thread == self) /* by what has been sent there */
        half_inside.thread = NULL;
    if (leads)
        tell_stood();
    if (has_begun)
        line_stand_end();
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
    note_thread();
    if (context_save(&self->context) == 0) {
        __atomic_store_n(&self->park, THREAD_PARKED, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(&VK->park_events, 1, __ATOMIC_SEQ_CST);
        raw4(SYS_futex, &VK->park_events, FUTEX_WAKE_PRIVATE, 1, 0);
    }
    /* Also where a restored thread comes to: it waits for the same release. */
    while (__atomic_load_n(&VK->park_release, __ATOMIC_SEQ_CST) == release)
        raw4(SYS_futex, &VK->park_release, FUTEX_WAIT_PRIVATE, release, 0);
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
