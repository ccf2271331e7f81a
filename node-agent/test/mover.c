#include "node-agent/test/mover.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/util/uffd.h"
#include "node-agent/test/mover_ops.h"

#define PAGE IMAGE_PAGE_BYTES

/* The second thread writes while the first does operations without end. */
struct beside {
    pthread_mutex_t lock; /* held by the first thread while the second is to stand still */
    unsigned random;
};

static bool has_command(int commands)
{
    struct pollfd ready = {.fd = commands, .events = POLLIN};
    return poll(&ready, 1, 0) > 0;
}

static void *write_beside(void *context)
{
    struct beside *beside = context;
    for (;;) {
        pthread_mutex_lock(&beside->lock);
        for (int i = 0; i < 10; i++)
            mover_ops_write_beside(&beside->random);
        pthread_mutex_unlock(&beside->lock);
    }
    return NULL;
}

static void be_mover(int commands, int answers, unsigned seed)
{
    static struct beside beside = {.lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread;
    unsigned operations;
    beside.random = seed;
    pthread_mutex_lock(&beside.lock);
    if (pthread_create(&thread, NULL, write_beside, &beside))
        _exit(1);
    while (read(commands, &operations, sizeof operations) == (ssize_t)sizeof operations) {
        if (operations == 0) {
            pthread_mutex_unlock(&beside.lock);
            while (!has_command(commands))
                mover_ops_do_one();
            pthread_mutex_lock(&beside.lock);
        }
        for (; operations > 0; operations--)
            mover_ops_do_one();
        if (write(answers, "", 1) != 1)
            break;
    }
    _exit(0);
}

static struct control_copying *copying;
static volatile uint32_t *hold_page;

static bool is_agent_gone(void)
{
    return false; /* this process would have ended with it */
}

static void hold(uint64_t start, uint64_t end)
{
    control_hold_ask(copying, hold_page, start, end, is_agent_gone);
}

static void make_hold_page(const struct mover *mover)
{
    copying = mover->copying;
    hold_page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *hold_page = 1;
    copying->page = (uintptr_t)hold_page;
}

static void start_child(const struct mover *mover, const int to[2], const int from[2], unsigned seed)
{
    const struct mover_files files = {.mapped = mover->file,
                                      .shared = mover->shared,
                                      .random = open("/dev/urandom", O_RDONLY),
                                      .moves = mover->moves,
                                      .hold = hold};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(to[1]);
    close(from[0]);
    mover_ops_begin(seed, &files);
    make_hold_page(mover);
    int uffds[2] = {uffd_make(), uffd_make()};
    if (write(from[1], uffds, sizeof uffds) != (ssize_t)sizeof uffds)
        _exit(1);
    be_mover(to[0], from[1], seed);
}

/* What it maps: this program's own file, and memory that both processes have mapped. */
static void open_files(struct mover *mover)
{
    const size_t bytes = MOVER_FILE_PAGES * PAGE;
    mover->file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    mover->shared = memfd_create("belay-mover", MFD_CLOEXEC);
    if (mover->file < 0 || lseek(mover->file, 0, SEEK_END) < (off_t)bytes || mover->shared < 0 ||
        ftruncate(mover->shared, (off_t)bytes))
        abort();
    mover->outside = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mover->shared, 0);
    mover->moves =
        mmap(NULL, sizeof *mover->moves, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    mover->copying =
        mmap(NULL, sizeof *mover->copying, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mover->outside == MAP_FAILED || mover->moves == MAP_FAILED || mover->copying == MAP_FAILED)
        abort();
}

void mover_start(struct mover *mover, unsigned seed)
{
    int to[2], from[2], uffds[2];
    open_files(mover);
    mover->random = seed;
    if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
        abort();
    mover->pid = fork();
    if (mover->pid == 0)
        start_child(mover, to, from, seed);
    close(to[0]);
    close(from[1]);
    mover->commands = to[1];
    mover->answers = from[0];
    if (read(mover->answers, uffds, sizeof uffds) != (ssize_t)sizeof uffds)
        abort();
    int pidfd = pidfd_open(mover->pid, 0);
    mover->uffd = uffds[0] >= 0 ? pidfd_getfd(pidfd, uffds[0], 0) : -1;
    mover->guard = uffds[1] >= 0 ? pidfd_getfd(pidfd, uffds[1], 0) : -1;
    close(pidfd);
}

static void order(struct mover *mover, unsigned operations)
{
    if (write(mover->commands, &operations, sizeof operations) != (ssize_t)sizeof operations)
        abort();
}

static void wait_for_answer(struct mover *mover)
{
    char byte;
    if (read(mover->answers, &byte, 1) != 1)
        abort();
}

void mover_round(struct mover *mover, unsigned operations)
{
    order(mover, operations);
    wait_for_answer(mover);
}

void mover_run(struct mover *mover)
{
    order(mover, 0);
}

void mover_halt(struct mover *mover)
{
    order(mover, 1);
    wait_for_answer(mover);
    wait_for_answer(mover);
}

static unsigned pick(struct mover *mover, unsigned below)
{
    mover->random = mover->random * 1664525u + 1013904223u;
    return (mover->random >> 8) % below;
}

void mover_write_from_outside(struct mover *mover)
{
    unsigned slot = pick(mover, MOVER_SLOTS), page = pick(mover, 200);
    uint32_t words[3 * PAGE / 4];
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        words[i] = mover->random + (uint32_t)i;
    struct iovec from = {words, sizeof words};
    struct iovec to = {(void *)(uintptr_t)(UPPER_BASE + slot * MOVER_SLOT_BYTES + page * PAGE), sizeof words};
    ssize_t got = process_vm_writev(mover->pid, &from, 1, &to, 1, 0); /* there may be nothing to write to */
    (void)got;
    mover->outside[pick(mover, MOVER_FILE_PAGES) * PAGE] = (char)mover->random;
}

void mover_end(struct mover *mover)
{
    kill(mover->pid, SIGKILL);
    waitpid(mover->pid, NULL, 0);
    munmap(mover->moves, sizeof *mover->moves);
    munmap(mover->copying, sizeof *mover->copying);
    munmap(mover->outside, MOVER_FILE_PAGES * PAGE);
    close(mover->commands);
    close(mover->answers);
    close(mover->file);
    close(mover->shared);
}
