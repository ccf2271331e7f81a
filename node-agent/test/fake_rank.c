#include "node-agent/test/fake_rank.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/test/fuzz.h"
#include "common/wire/client.h"
#include "common/wire/control.h"
#include "common/wire/streams.h"
#include "node-agent/rank/rank.h"
#include "node-agent/test/half.h"

#define COMM 1u
#define WAIT_MS 10000
#define CARRIED 4711
/* Instead of an exit status. */
#define EXECUTE 252
#define ABORT 253
#define NO_ORDER 254
#define FINALIZE 255

static struct control *control; /* the child's */
static int event_fd, sock;

static void be_rank(const struct fake_rank_plan *plan, int words, int orders);
static void be_restored(uint64_t line);
static int say_hello(const struct fake_rank_plan *plan, int fds[5], unsigned *count);
static bool is_image_right(const struct fake_rank_plan *plan, int fd);
static enum control_state state_of(const struct fake_rank_plan *plan);
static void make_memory(const struct fake_rank_plan *plan);
static void map_shared(const char *path);
static void be_hostile(uint64_t seed, int streams, int words) __attribute__((noreturn));
static void obey(const struct fake_rank_plan *plan);
static void publish(enum control_state state);
static void announce(enum control_exit kind, int status);
static void call_abort(int words);
static void leave(int status);
static uint32_t end_delay_ms; /* plan, and where it says what it does */
static int end_words;

struct fake_rank fake_rank_start(const struct fake_rank_plan *plan)
{
    int words[2], orders[2];
    if (pipe2(words, O_CLOEXEC) < 0 || pipe2(orders, O_CLOEXEC | O_NONBLOCK) < 0)
        abort();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        /* As after an exec: of the test's descriptors, its connections among them, only two are kept. */
        int word_end = fcntl(words[1], F_DUPFD, 100), order_end = fcntl(orders[0], F_DUPFD, 102);
        close_range(3, 99, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        be_rank(plan, word_end, order_end);
        _exit(99);
    }
    close(words[1]);
    close(orders[0]);
    return (struct fake_rank){.pid = pid, .words = words[0], .orders = orders[1]};
}

char fake_rank_wait(struct fake_rank *rank)
{
    char word = 0;
    struct pollfd ready = {.fd = rank->words, .events = POLLIN};
    if (poll(&ready, 1, WAIT_MS) <= 0 || read(rank->words, &word, 1) != 1)
        return 0;
    return word;
}

void fake_rank_exit(struct fake_rank *rank, int status)
{
    uint8_t byte = (uint8_t)status;
    if (write(rank->orders, &byte, 1) != 1)
        abort();
}

void fake_rank_finalize(struct fake_rank *rank)
{
    fake_rank_exit(rank, FINALIZE);
}

void fake_rank_abort(struct fake_rank *rank)
{
    fake_rank_exit(rank, ABORT);
}

void fake_rank_execute(struct fake_rank *rank)
{
    fake_rank_exit(rank, EXECUTE);
}

void fake_rank_kill(struct fake_rank *rank)
{
    kill(rank->pid, SIGKILL);
}

int fake_rank_reap(struct fake_rank *rank)
{
    int status = 0, pidfd = (int)syscall(SYS_pidfd_open, rank->pid, 0);
    struct pollfd gone = {.fd = pidfd, .events = POLLIN};
    if (poll(&gone, 1, WAIT_MS) != 1 || waitpid(rank->pid, &status, 0) != rank->pid)
        abort();
    close(pidfd);
    close(rank->words);
    close(rank->orders);
    return status;
}

static void map_control(const int fds[])
{
    control = mmap(NULL, CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    event_fd = fds[1];
}

/* As the end of a program that executes another one. */
static void announce_execution(void)
{
    control->carried.input_position = CARRIED;
    control->carried.is_set = 1;
    __atomic_store_n(&control->exit_kind, CONTROL_EXIT_EXECUTED, __ATOMIC_SEQ_CST);
    close(sock);
}

static int say_hello_again(const struct fake_rank_plan *plan, int fds[5], unsigned *count)
{
    map_control(fds);
    announce_execution();
    if (say_hello(plan, fds, count) < 0)
        return -1;
    map_control(fds);
    return control->carried.is_set && control->carried.input_position == CARRIED ? 0 : -1;
}

/* It is no rank any more. */
static void be_executed(int words, int orders)
{
    struct pollfd order = {.fd = orders, .events = POLLIN};
    announce_execution();
    write(words, "e", 1);
    poll(&order, 1, -1);
    _exit(0);
}

static void be_rank(const struct fake_rank_plan *plan, int words, int orders)
{
    int fds[5];
    unsigned count = 5;
    uint8_t status;
    signal(CONTROL_SIGNAL, SIG_IGN);
    end_delay_ms = plan->end_delay_ms;
    end_words = words;
    if (say_hello(plan, fds, &count) < 0 ||
        (plan->is_executed_again && (count = 5, say_hello_again(plan, fds, &count) < 0))) {
        write(words, "x", 1);
        _exit(1);
    }
    map_control(fds);
    if (control == MAP_FAILED || control->magic != CONTROL_MAGIC || control->rank != plan->rank ||
        (plan->expect_line > 0) != (count == 5) || (count == 5 && !is_image_right(plan, fds[4]))) {
        write(words, "i", 1);
        _exit(1);
    }
    if (plan->hostile_seed)
        be_hostile(plan->hostile_seed, fds[2], words);
    control->needs_fence = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) < 0;
    control->leader_tid = (uint32_t)getpid();
    control->layout = upper_only;
    if (plan->expect_line)
        be_restored(plan->expect_line);
    make_memory(plan);
    for (int i = 0; i < 2; i++)
        if (plan->shared[i])
            map_shared(plan->shared[i]);
    control->clocks[0].seq = 5;
    control->clocks[0].comm = COMM;
    control->slots = 1;
    publish(state_of(plan));
    write(words, "r", 1);
    for (;;) {
        struct timespec step = {.tv_nsec = 10000000};
        uint32_t seen = __atomic_load_n(&control->command_seq, __ATOMIC_SEQ_CST);
        if (control->state != CONTROL_STATE_FINALIZED)
            obey(plan);
        if (read(orders, &status, 1) != 1)
            status = NO_ORDER;
        if (status == FINALIZE)
            publish(CONTROL_STATE_FINALIZED);
        else if (status == ABORT)
            call_abort(words);
        else if (status == EXECUTE)
            be_executed(words, orders);
        else if (status != NO_ORDER)
            leave(status);
        syscall(SYS_futex, &control->command_seq, FUTEX_WAIT, seen, &step, NULL, 0);
    }
}

/* As a rank may do, it speaks before it is done. */
static void be_restored(uint64_t line)
{
    publish(CONTROL_STATE_RUNNING);
    usleep(20000);
    control->restore_ns = 20000000;
    control->restored_line = line;
}

static int say_hello(const struct fake_rank_plan *plan, int fds[5], unsigned *count)
{
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    Belay__Wire__RankHello hello = BELAY__WIRE__RANK_HELLO__INIT;
    Belay__Wire__JobSettings settings = BELAY__WIRE__JOB_SETTINGS__INIT;
    struct belay_error err;
    uint8_t identity[32];
    memset(identity, plan->identity, sizeof identity);
    hello.job = (char *)plan->job;
    hello.rank = plan->rank;
    hello.ranks = plan->ranks;
    hello.pid = (uint32_t)getpid();
    hello.epoch = plan->epoch;
    hello.program = (char *)(plan->program ? plan->program : "/usr/bin/fake");
    hello.identity = (ProtobufCBinaryData){.len = sizeof identity, .data = identity};
    hello.identity_text = "/usr/bin/fake (build-id 1234)";
    hello.layout_version = plan->layout_version;
    settings.has_interval_ms = plan->interval_ms > 0;
    settings.interval_ms = plan->interval_ms;
    hello.settings = &settings;
    request.body_case = BELAY__WIRE__REQUEST__BODY_RANK_HELLO;
    request.rank_hello = &hello;
    sock = agent_connect(plan->rundir, NULL, &err); /* stays open for life */
    if (sock < 0 || !agent_call(sock, &request, fds, count, NULL, NULL, &err)) {
        fprintf(stderr, "# rank %u: %s\n", plan->rank, err.text);
        return -1;
    }
    return 0;
}

static bool is_image_right(const struct fake_rank_plan *plan, int fd)
{
    struct image_view view;
    uint64_t found = 0;
    char *image = mmap(NULL, image_offset(UPPER_END), PROT_READ, MAP_SHARED, fd, 0);
    if (image == MAP_FAILED || image_load(fd, &view, NULL) < 0 || view.header->line != plan->expect_line ||
        view.header->resume_context != 4711)
        return false;
    for (uint64_t i = 0; i < view.header->run_count; i++) {
        const struct image_run *run = &view.runs[i];
        for (uint64_t at = 0; at < run->bytes; at += IMAGE_PAGE_BYTES, found++) {
            const char *page = image + run->data_offset + at;
            uint64_t number = (run->address + at - UPPER_BASE) / IMAGE_PAGE_BYTES;
            if ((uint8_t)page[0] != plan->content || (uint8_t)page[1] != (uint8_t)number)
                return false;
        }
    }
    return found == (plan->pages ? plan->pages : FAKE_MEMORY_PAGES);
}

static enum control_state state_of(const struct fake_rank_plan *plan)
{
    return plan->is_inside ? CONTROL_STATE_INSIDE : CONTROL_STATE_RUNNING;
}

static void make_memory(const struct fake_rank_plan *plan)
{
    uint64_t pages = plan->pages ? plan->pages : FAKE_MEMORY_PAGES;
    char *memory = mmap((void *)UPPER_BASE, pages * IMAGE_PAGE_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory == MAP_FAILED)
        _exit(98);
    for (uint64_t i = 0; i < pages; i++) {
        memory[i * IMAGE_PAGE_BYTES] = (char)plan->content;
        memory[i * IMAGE_PAGE_BYTES + 1] = (char)i;
    }
}

/* All that a rank may write to: both pages, clocks, counts of streams; and the agent is woken. */
static void be_hostile(uint64_t seed, int streams, int words)
{
    struct fuzz fuzz = {.state = seed};
    uint64_t one = 1;
    struct streams *head = mmap(NULL, STREAMS_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, streams, 0);
    alarm(60);
    control->clocks[0].comm = COMM;
    publish(CONTROL_STATE_RUNNING);
    write(words, "r", 1);
    for (uint64_t i = 0;; i++) {
        uint64_t *page = i % 3 ? (uint64_t *)(void *)control : (uint64_t *)(void *)control->clocks;
        uint64_t value = fuzz_below(&fuzz, 2) ? fuzz_edge(&fuzz) : fuzz_below(&fuzz, 9);
        size_t at = fuzz_below(&fuzz, i % 64 ? 256 : 4096 / sizeof value);
        ((uint32_t *)page)[at] = (uint32_t)value;
        if (i % 5 == 0)
            page[at / 2] = value;
        if (i % 7 == 0) /* what makes it be looked at */
            control->version &= ~1u;
        if (i % 11 == 0)
            control->state = (uint32_t)fuzz_below(&fuzz, 9);
        if (i % 13 == 0)
            control->parked_line = control->resumed_line = control->line;
        if (i % 101 == 0)
            ((uint32_t *)(void *)head)[fuzz_below(&fuzz, sizeof *head / 4)] = (uint32_t)value;
        if (i % 17 == 0)
            write(event_fd, &one, sizeof one);
    }
}

static void map_shared(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, IMAGE_PAGE_BYTES) < 0 ||
        mmap(NULL, IMAGE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED)
        _exit(97);
    close(fd);
}

static void obey(const struct fake_rank_plan *plan)
{
    uint32_t command = __atomic_load_n(&control->command, __ATOMIC_SEQ_CST);
    if (command == CONTROL_CONVERGE) {
        publish(state_of(plan));
    } else if (command == CONTROL_STOP && control->parked_line != control->line) {
        control->drain_ns = 1000;
        control->parked_ns = monotonic_ns();
        control->resume_context = 4711;
        control->parked_line = control->line;
        publish(CONTROL_STATE_PARKED);
    } else if (command == CONTROL_RUN && control->state == CONTROL_STATE_PARKED) {
        usleep(plan->resume_delay_ms * 1000);
        control->resumed_ns = monotonic_ns();
        control->stood_ns = control->resumed_ns - control->parked_ns + FAKE_FELT_NS;
        control->resumed_line = control->parked_line;
        publish(CONTROL_STATE_RUNNING);
    } else if (command == CONTROL_EXIT) {
        leave(0);
    }
}

static void publish(enum control_state state)
{
    uint64_t one = 1;
    __atomic_store_n(&control->version, control->version + 1, __ATOMIC_SEQ_CST);
    control->state = (uint32_t)state;
    __atomic_store_n(&control->version, control->version + 1, __ATOMIC_SEQ_CST);
    write(event_fd, &one, sizeof one);
}

static void announce(enum control_exit kind, int status)
{
    uint64_t one = 1;
    control->exit_ns = monotonic_ns();
    control->exit_status = status;
    __atomic_store_n(&control->exit_kind, kind, __ATOMIC_RELEASE);
    write(event_fd, &one, sizeof one);
}

static void call_abort(int words)
{
    announce(CONTROL_EXIT_ABORT, 5);
    write(words, "a", 1);
}

static void leave(int status)
{
    uint32_t seen = control->command_seq;
    announce(CONTROL_EXIT_STATUS, status);
    if (control_is_end_of_all(control))
        syscall(SYS_futex, &control->command_seq, FUTEX_WAIT, seen, NULL, NULL, 0);
    if (end_delay_ms) {
        write(end_words, "l", 1);
        usleep(end_delay_ms * 1000);
    }
    _exit(status);
}
