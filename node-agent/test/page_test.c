/* page_test.c - what a rank writes to its control page, and to what it has in common with the agent, harms
 * nobody. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/uffd.h"
#include "common/wire/descriptor.h"
#include "coord/targets.h"
#include "node-agent/capture/moves.h"
#include "node-agent/member/times.h"
#include "node-agent/rank/rank.h"

#define SLOTS ((CONTROL_BYTES - offsetof(struct control, clocks)) / sizeof(struct control_clock))

static uv_loop_t loop;
static struct rank *rank;
static struct control *control; /* as the rank maps it */
static bool has_ended;

static void on_ended(struct rank *ended, void *context)
{
    (void)ended, (void)context;
    has_ended = true;
}

static void make_rank(pid_t pid)
{
    static const struct rank_ops ops = {.ended = on_ended};
    struct belay_error err;
    assert_int_equal(uv_loop_init(&loop), 0);
    rank = rank_create(&loop, pid, pidfd_open(pid, 0), 0, 1, 1, &ops, NULL, &err);
    assert_non_null(rank);
    control = mmap(NULL, CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, rank_control_fd(rank), 0);
    assert_true(control != MAP_FAILED);
}

static int setup(void **state)
{
    (void)state;
    make_rank(getpid());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    munmap(control, CONTROL_BYTES);
    rank_destroy(rank);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

/* An access to what was cut off would be a SIGBUS. */
static void the_page_keeps_its_size(void **state)
{
    (void)state;
    int fd = rank_control_fd(rank);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, CONTROL_BYTES * 2), -1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
    assert_int_equal(descriptor_check_memory(fd, CONTROL_BYTES, "", NULL), 0);
}

static void shared_memory_is_looked_at(void **state)
{
    (void)state;
    struct belay_error err;
    int fd = memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING), event = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_int_equal(descriptor_check_memory(fd, 4096, "the page", &err), -1);
    assert_int_equal(err.code, EPROTO);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    assert_int_equal(descriptor_check_memory(fd, 4096, "the page", &err), 0);
    assert_int_equal(descriptor_check_memory(fd, 8192, "the page", &err), -1);
    assert_int_equal(descriptor_check_memory(event, 4096, "the page", &err), -1);
    assert_int_equal(descriptor_check_memory(-1, 4096, "the page", &err), -1);
    assert_int_equal(descriptor_check_kind(event, DESCRIPTOR_EVENT, "the event", &err), 0);
    assert_int_equal(descriptor_check_kind(fd, DESCRIPTOR_EVENT, "the event", &err), -1);
    assert_int_equal(descriptor_check_kind(event, DESCRIPTOR_UFFD, "the event", &err), -1);
    close(fd);
    close(event);
}

/* The number of slots changes between two looks. */
static void counts_beyond_the_page(void **state)
{
    (void)state;
    static const uint32_t counts[] = {SLOTS, SLOTS + 1, 2 * SLOTS, 2 * SLOTS - 1, UINT32_MAX, 0};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        control->slots = counts[i];
        assert_int_equal(rank_read(rank), counts[i] <= SLOTS);
    }
    control->peer_count = UINT32_MAX;
    control->state = 4711;
    assert_true(rank_read(rank));
    assert_int_equal(rank_report(rank)->peer_count, 0);
    control->slots = UINT32_MAX;
    rank_order_targets(rank, 1, 1, &(struct targets){0});
    control->version = 1; /* for ever being changed */
    assert_false(rank_read(rank));
}

static void expect_no_uffd(int number)
{
    control->tracking_fd = number;
    assert_int_equal(rank_take_uffd(rank), -1);
    assert_int_equal(errno, ENOTSUP);
}

/* The agent takes a descriptor by the number that the rank says. */
static void descriptors_that_are_no_userfaultfd(void **state)
{
    (void)state;
    int ends[2], uffd = uffd_make();
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    expect_no_uffd(0);
    expect_no_uffd(-1);
    expect_no_uffd(INT32_MAX);
    expect_no_uffd(ends[0]);
    expect_no_uffd(rank_event_fd(rank));
    expect_no_uffd(rank_control_fd(rank));
    close(ends[0]);
    close(ends[1]);
    if (uffd < 0)
        skip();
    assert_int_equal(fcntl(uffd, F_SETFL, 0), 0); /* a read of the agent's would wait */
    control->tracking_fd = uffd;
    int taken = rank_take_uffd(rank);
    assert_true(taken >= 0);
    assert_true(fcntl(taken, F_GETFL) & O_NONBLOCK);
    close(taken);
    close(uffd);
}

static void moves_of_no_pages(void **state)
{
    (void)state;
    static const uint64_t odd[][2] = {{5, 3},    {UINT64_MAX, 0}, {4096, 4095},
                                      {1, 8193}, {0, UINT64_MAX}, {9, 9}};
    struct image_run run = {.address = 8192, .bytes = 8192};
    struct run_set present = {.runs = &run, .count = 1};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        struct control_moves moves = {0};
        struct run_set dirty = {0};
        uint32_t seen = 0;
        control_note_move(&moves, odd[i][0], odd[i][1]);
        assert_int_equal(moves_add(&moves, &seen, &present, &dirty), 0);
        assert_int_equal(dirty.count, 1); /* all that there is, and no more */
        assert_int_equal(dirty.runs[0].address, 8192);
        assert_int_equal(dirty.runs[0].bytes, 8192);
        runs_release(&dirty);
    }
}

/* The pace of the next lines is made of them. */
static void times_that_cannot_be(void **state)
{
    (void)state;
    static const uint64_t odd[] = {1, UINT64_MAX, UINT64_MAX / 2};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        struct line_times times = {0};
        times_begin(&times, 1);
        times.ordered_ns = times.converged_ns = monotonic_ns();
        control->parked_ns = odd[i];
        control->drain_ns = odd[(i + 1) % 3];
        control->resumed_ns = odd[(i + 2) % 3];
        control->stood_ns = odd[i];
        control->resumed_line = UINT64_MAX;
        times_parked(&times, &rank, 1);
        times.end_ns = monotonic_ns();
        struct peer_measures measures = times_tell(&times, &rank, 1);
        assert_true(measures.pause_ns == 0 && measures.drain_ns == 0 && measures.late_ns < 60000000000u);
        assert_true(measures.felt_ns < 60000000000u);
        times_release(&times);
    }
}

static void ends_that_are_none(void **state)
{
    (void)state;
    control->exit_kind = 17;
    control->exit_status = 3;
    assert_int_equal(rank_exit_kind(rank), CONTROL_EXIT_NONE);
    assert_false(rank_ends_all(rank));
}

/* A process that has ended is neither signalled nor taken for one that lives, though nobody has looked yet.
 */
static void a_process_that_has_ended(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    make_rank(pid);
    assert_true(rank_is_alive(rank));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(rank_is_alive(rank));
    assert_true(rank_is_lost(rank));
    control->leader_tid = (uint32_t)getpid();
    rank_signal(rank);
    control->exit_kind = CONTROL_EXIT_STATUS; /* said by another one that maps the page, in the future */
    control->exit_ns = UINT64_MAX;
    control->exit_answer = CONTROL_ANSWER_LOST;
    while (!has_ended)
        uv_run(&loop, UV_RUN_ONCE);
    assert_true(rank_exit(rank)->announced_ns <= rank_exit(rank)->seen_ns);
    assert_false(rank_exit(rank)->is_over_loss); /* we have said no such thing */
    teardown(NULL);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(the_page_keeps_its_size), EACH(shared_memory_is_looked_at),
        EACH(counts_beyond_the_page),  EACH(descriptors_that_are_no_userfaultfd),
        EACH(moves_of_no_pages),       EACH(times_that_cannot_be),
        EACH(ends_that_are_none),      cmocka_unit_test(a_process_that_has_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
