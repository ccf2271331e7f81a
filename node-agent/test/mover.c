#include "node-agent/test/mover.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/util/pagemap.h"

#define PAGE IMAGE_PAGE_BYTES
#define SLOTS 12u
#define SLOT_BYTES (64ull << 20)
#define SLOT_PAGES 2048u /* used of each slot: several page tables */
#define FILE_PAGES 64u
#define CHILDREN 3u

enum kind { KIND_NONE = 0, KIND_ANON, KIND_FILE, KIND_SHARED };

struct slot {
    enum kind kind;
    unsigned pages;
};

static struct slot slots[SLOTS];
static pid_t children[CHILDREN];
static int map_file, random_file;
static unsigned state_of_random;
static sigjmp_buf after_fault;

static unsigned pick(unsigned below)
{
    state_of_random = state_of_random * 1664525u + 1013904223u;
    return (state_of_random >> 8) % below;
}

static char *at(unsigned slot, unsigned page)
{
    return (char *)(uintptr_t)(UPPER_BASE + slot * SLOT_BYTES + page * PAGE);
}

static void on_fault(int number)
{
    (void)number;
    siglongjmp(after_fault, 1);
}

/* Pages that may not be written stay as they are. */
static void write_page(unsigned slot, unsigned page)
{
    if (sigsetjmp(after_fault, 1) == 0) {
        volatile uint32_t *words = (volatile uint32_t *)(void *)at(slot, page);
        words[pick(PAGE / 4)] = state_of_random;
    }
}

static void read_page(unsigned slot, unsigned page)
{
    if (sigsetjmp(after_fault, 1) == 0)
        (void)*(volatile char *)at(slot, page);
}

/* A part of a slot. */
static void pick_range(const struct slot *slot, unsigned *first, unsigned *pages)
{
    *first = pick(slot->pages);
    unsigned left = slot->pages - *first;
    *pages = pick(4) ? 1 + pick(left < 40 ? left : 40) : left;
}

static void map_slot(unsigned i)
{
    struct slot *slot = &slots[i];
    munmap(at(i, 0), SLOT_PAGES * PAGE);
    slot->kind = pick(6) ? KIND_ANON : pick(2) ? KIND_FILE : KIND_SHARED;
    slot->pages = pick(3) ? 1 + pick(200) : SLOT_PAGES / 2 + pick(SLOT_PAGES / 2);
    if (slot->kind != KIND_ANON)
        slot->pages = 1 + slot->pages % FILE_PAGES;
    int flags = slot->kind == KIND_SHARED ? MAP_SHARED : MAP_PRIVATE;
    int fd = slot->kind == KIND_FILE ? map_file : -1;
    mmap(at(i, 0), slot->pages * PAGE, PROT_READ | PROT_WRITE,
         flags | MAP_FIXED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
    if (slot->kind == KIND_ANON && pick(3) == 0)
        madvise(at(i, 0), slot->pages * PAGE, MADV_HUGEPAGE);
}

static void write_some(unsigned i, unsigned first, unsigned pages)
{
    unsigned step = pick(3) ? 1 : 1 + pick(7);
    for (unsigned page = first; page < first + pages; page += step)
        write_page(i, page);
}

static void move_slot(unsigned from, unsigned to)
{
    struct slot *slot = &slots[from];
    if (from == to || slot->kind == KIND_SHARED)
        return;
    unsigned pages =
        slot->kind == KIND_ANON && pick(2) ? slot->pages + pick(SLOT_PAGES - slot->pages + 1) : slot->pages;
    munmap(at(to, 0), SLOT_PAGES * PAGE);
    slots[to].kind = KIND_NONE;
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    bool stays = slot->kind == KIND_ANON && pages == slot->pages && pick(3) == 0;
    if (stays)
        flags |= MREMAP_DONTUNMAP;
    if (mremap(at(from, 0), slot->pages * PAGE, pages * PAGE, flags, at(to, 0)) == MAP_FAILED)
        return; /* it has holes */
    slots[to] = (struct slot){slot->kind, pages};
    if (!stays)
        slot->kind = KIND_NONE;
}

static void replace_child(unsigned which)
{
    if (children[which] > 0) {
        kill(children[which], SIGKILL);
        waitpid(children[which], NULL, 0);
    }
    children[which] = fork();
    if (children[which] != 0) { /* it stops when it has written */
        waitpid(children[which], NULL, WUNTRACED);
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned i = 0; i < SLOTS; i++) /* also to what it shares with its parent */
        if (slots[i].kind != KIND_NONE)
            write_some(i, 0, slots[i].pages < 20 ? slots[i].pages : 20);
    raise(SIGSTOP);
    _exit(0);
}

static void do_operation(void)
{
    static const int protections[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE};
    static const int advices[] = {MADV_DONTNEED, MADV_DONTNEED, MADV_NOHUGEPAGE};
    unsigned i = pick(SLOTS), first, pages;
    if (slots[i].kind == KIND_NONE) {
        map_slot(i);
        return;
    }
    pick_range(&slots[i], &first, &pages);
    switch (pick(14)) {
    case 0:
        map_slot(i);
        break;
    case 1:
        munmap(at(i, first), pages * PAGE);
        break;
    case 2:
        move_slot(i, pick(SLOTS));
        break;
    case 3:
        mprotect(at(i, first), pages * PAGE, protections[pick(4)]);
        break;
    case 4:
    case 5:
        madvise(at(i, first), pages * PAGE, advices[pick(3)]);
        break;
    case 6:
        mmap(at(i, first), pages * PAGE, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
        break;
    case 7: /* the kernel writes */
        if (read(random_file, at(i, first), pages * PAGE < 65536 ? pages * PAGE : 65536) < 0)
            break;
        break;
    case 8:
        for (unsigned page = first; page < first + pages; page++)
            read_page(i, page);
        break;
    case 9:
        if (pick(4) == 0)
            replace_child(pick(CHILDREN));
        break;
    default:
        write_some(i, first, pages);
        break;
    }
}

static bool has_command(int commands)
{
    struct pollfd ready = {.fd = commands, .events = POLLIN};
    return poll(&ready, 1, 0) > 0;
}

static void be_mover(int commands, int answers)
{
    unsigned operations;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
    random_file = open("/dev/urandom", O_RDONLY);
    while (read(commands, &operations, sizeof operations) == (ssize_t)sizeof operations) {
        if (operations == 0)
            while (!has_command(commands))
                do_operation();
        for (; operations > 0; operations--)
            do_operation();
        if (write(answers, "", 1) != 1)
            break;
    }
    _exit(0);
}

static void make_file(struct mover *mover, const char *name)
{
    char page[PAGE];
    mover->file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    for (unsigned i = 0; i < FILE_PAGES; i++) {
        memset(page, 'a' + (int)(i % 26), sizeof page);
        if (write(mover->file, page, sizeof page) != (ssize_t)sizeof page)
            abort();
    }
}

void mover_start(struct mover *mover, unsigned seed, const char *file_name)
{
    int to[2], from[2], uffd;
    make_file(mover, file_name);
    if (pipe(to) || pipe(from))
        abort();
    mover->pid = fork();
    if (mover->pid == 0) {
        close(to[1]);
        close(from[0]);
        state_of_random = seed;
        map_file = mover->file;
        uffd = pagemap_make_uffd();
        if (write(from[1], &uffd, sizeof uffd) != (ssize_t)sizeof uffd)
            _exit(1);
        be_mover(to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    mover->commands = to[1];
    mover->answers = from[0];
    if (read(mover->answers, &uffd, sizeof uffd) != (ssize_t)sizeof uffd)
        abort();
    int pidfd = pidfd_open(mover->pid, 0);
    mover->uffd = uffd >= 0 ? pidfd_getfd(pidfd, uffd, 0) : -1;
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

void mover_end(struct mover *mover)
{
    kill(mover->pid, SIGKILL);
    waitpid(mover->pid, NULL, 0);
    close(mover->commands);
    close(mover->answers);
    close(mover->file);
}
