#include "node-agent/rank/rank.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/util/process_stat.h"
#include "common/wire/descriptor.h"
#include "common/wire/fence.h"
#include "node-agent/rank/page.h"

#define SIGNAL_GROUP 4u  /* PIDFD_SIGNAL_PROCESS_GROUP of <linux/pidfd.h>, which older headers lack */
#define PF_EXITING 0x04u /* of a process's flags (the kernel's sched.h): it dies */

struct rank {
    uint32_t number;
    pid_t pid;
    int pidfd, event_fd, control_fd;
    struct control *control;
    struct rank_report report;
    struct rank_exit exit;
    bool is_gone;
    enum control_answer answer; /* that we gave to its end */
    char *program;
    uint8_t identity[32];
    uint64_t layout_version;
    const struct rank_ops *ops;
    void *context;
    uv_poll_t event_watch, exit_watch;
    int open_handles, references;
};

static int open_channels(struct rank *rank, uint32_t ranks, uint32_t epoch, struct belay_error *err);
static int watch(uv_loop_t *loop, struct rank *rank, struct belay_error *err);
static void on_event(uv_poll_t *handle, int status, int events);
/* The signal that killed it, if its parent has not been faster. */
static uint32_t signal_of(const struct rank *rank)
{
    static const enum process_field field = PROCESS_EXIT_CODE;
    uint64_t code = 0;
    if (process_stat(rank->pid, &field, 1, &code) < 0)
        return 0;
    return WIFSIGNALED((int)code) ? (uint32_t)WTERMSIG((int)code) : 0;
}

static void on_exit_seen(uv_poll_t *handle, int status, int events);
static void on_handle_closed(uv_handle_t *handle);
static void free_if_unused(struct rank *rank);
static void rank_free(struct rank *rank);
static void wake(struct rank *rank);

struct rank *rank_create(uv_loop_t *loop, pid_t pid, int pidfd, uint32_t number, uint32_t ranks,
                         uint32_t epoch, const struct rank_ops *ops, void *context, struct belay_error *err)
{
    struct rank *rank = calloc(1, sizeof *rank);
    if (!rank) {
        belay_error_errno(err, "cannot take in a rank");
        close(pidfd);
        return NULL;
    }
    *rank = (struct rank){.number = number,
                          .pid = pid,
                          .pidfd = pidfd,
                          .event_fd = -1,
                          .control_fd = -1,
                          .control = MAP_FAILED,
                          .ops = ops,
                          .context = context};
    if (open_channels(rank, ranks, epoch, err) < 0) {
        rank_free(rank);
        return NULL;
    }
    if (watch(loop, rank, err) < 0) {
        rank_destroy(rank);
        return NULL;
    }
    return rank;
}

void rank_destroy(struct rank *rank)
{
    if (!rank)
        return;
    rank->ops = NULL;
    if (rank->open_handles == 0) {
        free_if_unused(rank);
        return;
    }
    uv_close((uv_handle_t *)&rank->event_watch, on_handle_closed);
    if (rank->open_handles == 2)
        uv_close((uv_handle_t *)&rank->exit_watch, on_handle_closed);
}

bool rank_begins_again(const struct rank *rank, pid_t pid)
{
    return rank->pid == pid && !rank->is_gone &&
           __atomic_load_n(&rank->control->state, __ATOMIC_ACQUIRE) == CONTROL_STATE_NONE;
}

void rank_hand_on(const struct rank *from, struct rank *to)
{
    to->control->carried = from->control->carried;
}

bool rank_has_executed(const struct rank *rank)
{
    return !rank->is_gone &&
           __atomic_load_n(&rank->control->exit_kind, __ATOMIC_ACQUIRE) == CONTROL_EXIT_EXECUTED;
}

struct rank *rank_ref(struct rank *rank)
{
    rank->references++;
    return rank;
}

void rank_unref(struct rank *rank)
{
    if (!rank)
        return;
    rank->references--;
    free_if_unused(rank);
}

int rank_set_program(struct rank *rank, const char *program, const uint8_t identity[32],
                     uint64_t layout_version)
{
    char *copy = strdup(program);
    if (!copy)
        return -1;
    free(rank->program);
    rank->program = copy;
    memcpy(rank->identity, identity, sizeof rank->identity);
    rank->layout_version = layout_version;
    return 0;
}

const char *rank_program(const struct rank *rank)
{
    return rank->program ? rank->program : "";
}

const uint8_t *rank_identity(const struct rank *rank)
{
    return rank->identity;
}

uint64_t rank_layout_version(const struct rank *rank)
{
    return rank->layout_version;
}

uint32_t rank_number(const struct rank *rank)
{
    return rank->number;
}

pid_t rank_pid(const struct rank *rank)
{
    return rank->pid;
}

int rank_control_fd(const struct rank *rank)
{
    return rank->control_fd;
}

void rank_close_control_fd(struct rank *rank)
{
    if (rank->control_fd >= 0)
        close(rank->control_fd);
    rank->control_fd = -1;
}

int rank_event_fd(const struct rank *rank)
{
    return rank->event_fd;
}

void rank_tell_committed(struct rank *rank, uint64_t line)
{
    __atomic_store_n(&rank->control->committed_line, line, __ATOMIC_RELEASE);
}

void rank_tell_lease(struct rank *rank, const struct fence *fence)
{
    uint64_t until_ns = __atomic_load_n(&fence->until_ns, __ATOMIC_RELAXED);
    int64_t ahead_ns = __atomic_load_n(&fence->ahead_ns, __ATOMIC_ACQUIRE);
    uint64_t now_ns = fence_now_ns(), left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    __atomic_store_n(&rank->control->clock_ahead_ns, ahead_ns, __ATOMIC_RELEASE);
    __atomic_store_n(&rank->control->lease_until_ns, until_ns ? monotonic_ns() + left_ns : 0,
                     __ATOMIC_RELEASE);
}

int rank_pidfd(const struct rank *rank)
{
    return rank->pidfd;
}

/* The number is what the rank says: it may be anything that it has. Nothing is read from it here. */
int rank_take_parcel(const struct rank *rank, bool *is_copied)
{
    struct stat st;
    *is_copied = RANK_FIELD(rank, parcel_is_copied) == 1;
    int number = RANK_FIELD(rank, parcel_fd);
    errno = ENOENT;
    int fd = number > 0 ? pidfd_getfd(rank->pidfd, number, 0) : -1;
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode)))
        return fd;
    close(fd);
    errno = ENOTSOCK;
    return -1;
}

/* The number is what the rank says: it may be anything that it has. And a read of ours must not wait. */
static int take_uffd(const struct rank *rank, int number)
{
    int flags;
    int fd = number > 0 ? pidfd_getfd(rank->pidfd, number, 0) : -1;
    if (fd >= 0 && descriptor_check_kind(fd, DESCRIPTOR_UFFD, "", NULL) == 0 &&
        (flags = fcntl(fd, F_GETFL)) >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    errno = ENOTSUP;
    return -1;
}

int rank_take_uffd(const struct rank *rank)
{
    return take_uffd(rank, RANK_FIELD(rank, tracking_fd));
}

int rank_take_guard(const struct rank *rank)
{
    return take_uffd(rank, RANK_FIELD(rank, guard_fd));
}

int rank_take_loading(const struct rank *rank)
{
    return take_uffd(rank, RANK_FIELD(rank, loading.uffd));
}

void rank_begin_loading(struct rank *rank)
{
    __atomic_store_n(&rank->control->loading.is_on, 1, __ATOMIC_SEQ_CST);
}

void rank_tell_arrival(struct rank *rank)
{
    uint32_t *arrivals = &rank->control->loading.arrivals;
    __atomic_fetch_add(arrivals, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, arrivals, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void rank_end_loading(struct rank *rank)
{
    __atomic_store_n(&rank->control->loading.is_on, 0, __ATOMIC_SEQ_CST);
    rank_tell_arrival(rank);
}

void rank_want_copying(struct rank *rank)
{
    rank->control->copying.is_wanted = 1;
}

struct control_copying *rank_copying(struct rank *rank)
{
    return &rank->control->copying;
}

void rank_tell_others_stand(struct rank *rank, bool do_stand)
{
    uint32_t *stand = &rank->control->others_stand;
    __atomic_store_n(stand, do_stand, __ATOMIC_SEQ_CST);
    if (!do_stand)
        syscall(SYS_futex, stand, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

const struct control *rank_control(const struct rank *rank)
{
    return rank->control;
}

bool rank_read(struct rank *rank)
{
    return page_read(rank->control, &rank->report);
}

const struct rank_report *rank_report(const struct rank *rank)
{
    return &rank->report;
}

void rank_order(struct rank *rank, enum control_command command, uint64_t line)
{
    page_order(rank->control, command, line);
    wake(rank);
}

void rank_order_drain(struct rank *rank, uint64_t line)
{
    page_order_drain(rank->control, line);
}

void rank_order_leave(struct rank *rank, uint64_t line)
{
    page_order_leave(rank->control, line);
}

bool rank_failure(const struct rank *rank, uint64_t line, char text[CONTROL_FAILURE_BYTES])
{
    return page_failure(rank->control, line, text);
}

void rank_order_targets(struct rank *rank, uint64_t line, uint32_t version, const struct targets *targets)
{
    page_order_targets(rank->control, line, version, targets);
    wake(rank);
}

/* The kernel sees to it that the thread is one of the process; the process is not another one of its number.
 */
void rank_signal(struct rank *rank)
{
    pid_t tid = (pid_t)RANK_FIELD(rank, leader_tid);
    if (tid > 0 && rank_is_alive(rank))
        syscall(SYS_tgkill, rank->pid, tid, CONTROL_SIGNAL);
}

bool rank_is_alive(const struct rank *rank)
{
    struct pollfd gone = {.fd = rank->pidfd, .events = POLLIN};
    return !rank->is_gone && poll(&gone, 1, 0) == 0;
}

void order_fence(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) < 0)
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

void rank_kill(struct rank *rank)
{
    if (!rank_is_alive(rank)) /* also if the loop has not seen it yet */
        return;
    rank->exit.is_killed_by_us = true;
    pidfd_send_signal(rank->pidfd, SIGKILL, NULL, 0);
}

void rank_lose(struct rank *rank)
{
    if (rank_is_alive(rank))
        pidfd_send_signal(rank->pidfd, SIGKILL, NULL, 0);
}

void rank_kill_group(struct rank *rank)
{
    if (!rank_is_alive(rank))
        return;
    rank->exit.is_killed_by_us = true;
    bool is_told = pidfd_send_signal(rank->pidfd, SIGKILL, NULL, SIGNAL_GROUP) == 0;
    if (!is_told && errno == EINVAL && getpgid(rank->pid) == rank->pid) /* Linux before 6.9 */
        kill(-rank->pid, SIGKILL);
    pidfd_send_signal(rank->pidfd, SIGKILL, NULL, 0);
}

bool rank_is_lost(const struct rank *rank)
{
    static const enum process_field field = PROCESS_FLAGS;
    uint64_t flags = PF_EXITING;
    if (rank->exit.is_killed_by_us || rank_exit_kind(rank) != CONTROL_EXIT_NONE)
        return false;
    return process_stat(rank->pid, &field, 1, &flags) < 0 || (flags & PF_EXITING) || !rank_is_alive(rank);
}

enum control_exit rank_exit_kind(const struct rank *rank)
{
    uint32_t kind = RANK_FIELD(rank, exit_kind);
    return kind <= CONTROL_EXIT_EXECUTED ? (enum control_exit)kind : CONTROL_EXIT_NONE;
}

bool rank_ends_all(const struct rank *rank)
{
    uint32_t kind = rank_exit_kind(rank); /* written after the status */
    return control_ends_all(kind, RANK_FIELD(rank, exit_status));
}

void rank_answer_exit(struct rank *rank, enum control_answer answer)
{
    control_answer_exit(rank->control, answer);
    rank->answer = answer;
    page_bump(rank->control);
    wake(rank);
}

bool rank_is_gone(const struct rank *rank)
{
    return rank->is_gone;
}

const struct rank_exit *rank_exit(const struct rank *rank)
{
    return &rank->exit;
}

uint64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static int open_channels(struct rank *rank, uint32_t ranks, uint32_t epoch, struct belay_error *err)
{
    rank->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (rank->event_fd < 0)
        return belay_error_errno(err, "cannot make a control page");
    rank->control_fd = descriptor_make_memory("belay-control", CONTROL_BYTES, err);
    if (rank->control_fd < 0)
        return -1;
    rank->control = mmap(NULL, CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, rank->control_fd, 0);
    if (rank->control == MAP_FAILED)
        return belay_error_errno(err, "cannot map a control page");
    rank->control->version_of_layout = CONTROL_VERSION;
    rank->control->rank = rank->number;
    rank->control->ranks = ranks;
    rank->control->epoch = epoch;
    rank->control->bytes = CONTROL_BYTES;
    rank->control->magic = CONTROL_MAGIC;
    return 0;
}

static int watch(uv_loop_t *loop, struct rank *rank, struct belay_error *err)
{
    int rc = uv_poll_init(loop, &rank->event_watch, rank->event_fd);
    if (rc == 0) {
        rank->open_handles++;
        rank->event_watch.data = rank;
        rc = uv_poll_init(loop, &rank->exit_watch, rank->pidfd);
    }
    if (rc == 0) {
        rank->open_handles++;
        rank->exit_watch.data = rank;
        rc = uv_poll_start(&rank->event_watch, UV_READABLE, on_event);
    }
    if (rc == 0)
        rc = uv_poll_start(&rank->exit_watch, UV_READABLE, on_exit_seen);
    return rc == 0 ? 0 : belay_error_set(err, -rc, "cannot watch a rank: %s", uv_strerror(rc));
}

static void on_event(uv_poll_t *handle, int status, int events)
{
    struct rank *rank = handle->data;
    uint64_t count;
    (void)status, (void)events;
    ssize_t ignored = read(rank->event_fd, &count, sizeof count);
    (void)ignored;
    if (rank->ops && rank_read(rank))
        rank->ops->changed(rank, rank->context);
}

static void on_exit_seen(uv_poll_t *handle, int status, int events)
{
    struct rank *rank = handle->data;
    (void)status, (void)events;
    uv_poll_stop(&rank->exit_watch);
    rank->is_gone = true;
    rank->exit.seen_ns = monotonic_ns();
    rank->exit.kind = rank_exit_kind(rank);
    rank->exit.status = RANK_FIELD(rank, exit_status);
    rank->exit.signal = signal_of(rank);
    uint64_t announced_ns = RANK_FIELD(rank, exit_ns);
    rank->exit.announced_ns = announced_ns < rank->exit.seen_ns ? announced_ns : rank->exit.seen_ns;
    rank->exit.is_unanswered = control_ends_all(rank->exit.kind, rank->exit.status) &&
                               RANK_FIELD(rank, exit_answer) == CONTROL_ANSWER_NONE;
    rank->exit.is_over_loss =
        rank->answer == CONTROL_ANSWER_LOST && RANK_FIELD(rank, exit_answer) == CONTROL_ANSWER_LOST;
    if (rank->ops)
        rank->ops->ended(rank, rank->context);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct rank *rank = handle->data;
    rank->open_handles--;
    free_if_unused(rank);
}

/* Handles are open until it is destroyed. */
static void free_if_unused(struct rank *rank)
{
    if (rank->open_handles == 0 && rank->references == 0)
        rank_free(rank);
}

static void rank_free(struct rank *rank)
{
    int code = errno;
    if (rank->control != MAP_FAILED)
        munmap(rank->control, CONTROL_BYTES);
    rank_close_control_fd(rank);
    if (rank->event_fd >= 0)
        close(rank->event_fd);
    if (rank->pidfd >= 0)
        close(rank->pidfd);
    free(rank->report.clocks);
    free(rank->program);
    free(rank);
    errno = code;
}

static void wake(struct rank *rank)
{
    syscall(SYS_futex, &rank->control->command_seq, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
