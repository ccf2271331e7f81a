/* mover_ops.c - what a mover does to its memory, one operation at a time. */
#include "node-agent/test/mover_ops.h"

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/image/image.h"
#include "common/image/layout.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define PAGE IMAGE_PAGE_BYTES
#define STACK_PAGES 64u
#define CHILDREN 3u
#define HUGE_BYTES (2ul << 20)
#define READ_MAX 65536u

enum kind { KIND_NONE = 0, KIND_ANON, KIND_FILE, KIND_SHARED, KIND_OUTSIDE, KIND_STACK, KIND_HUGE };

struct slot {
    enum kind kind;
    unsigned pages;
    unsigned exile_first, exile_pages; /* a part of it that lies elsewhere for a while; 0: none does */
};

static struct mover_files files;
static struct slot slots[MOVER_SLOTS];
static pid_t children[CHILDREN];
static unsigned state_of_random;
static __thread sigjmp_buf after_fault;

static unsigned pick(unsigned below)
{
    state_of_random = state_of_random * 1664525u + 1013904223u;
    return (state_of_random >> 8) % below;
}

static char *at(unsigned slot, unsigned page)
{
    return (char *)(uintptr_t)(UPPER_BASE + slot * MOVER_SLOT_BYTES + page * PAGE);
}

/* Where the exiled part of a slot lies. */
static char *exile_of(unsigned slot)
{
    return at(MOVER_SLOTS + slot, 0);
}

static void on_fault(int number)
{
    (void)number;
    siglongjmp(after_fault, 1);
}

void mover_ops_begin(unsigned seed, const struct mover_files *given)
{
    state_of_random = seed;
    files = *given;
    signal(SIGSEGV, on_fault);
    signal(SIGBUS, on_fault);
}

/* Pages that may not be written stay as they are. */
static void write_word(volatile uint32_t *word, uint32_t value)
{
    if (sigsetjmp(after_fault, 1) == 0)
        *word = value;
}

static void write_page(unsigned slot, unsigned page)
{
    write_word((volatile uint32_t *)(void *)at(slot, page) + pick(PAGE / 4), state_of_random);
}

static void read_page(unsigned slot, unsigned page)
{
    if (sigsetjmp(after_fault, 1) == 0)
        (void)*(volatile char *)at(slot, page);
}

void mover_ops_write_beside(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    unsigned slot = (*state >> 8) % MOVER_SLOTS, page = (*state >> 12) % 256;
    write_word((volatile uint32_t *)(void *)at(slot, page) + (*state >> 20) % (PAGE / 4), *state);
}

/* A part of a slot. */
static void pick_range(const struct slot *slot, unsigned *first, unsigned *pages)
{
    *first = pick(slot->pages);
    unsigned left = slot->pages - *first;
    *pages = pick(4) ? 1 + pick(left < 40 ? left : 40) : left;
}

static void pick_kind(struct slot *slot)
{
    static const enum kind kinds[] = {KIND_ANON,   KIND_ANON,    KIND_ANON,  KIND_ANON, KIND_FILE,
                                      KIND_SHARED, KIND_OUTSIDE, KIND_STACK, KIND_HUGE, KIND_ANON};
    slot->kind = kinds[pick(sizeof kinds / sizeof kinds[0])];
    slot->pages = pick(3) ? 1 + pick(200) : MOVER_SLOT_PAGES / 2 + pick(MOVER_SLOT_PAGES / 2);
    if (slot->kind == KIND_FILE || slot->kind == KIND_SHARED || slot->kind == KIND_OUTSIDE)
        slot->pages = 1 + slot->pages % MOVER_FILE_PAGES;
    if (slot->kind == KIND_STACK)
        slot->pages = MOVER_SLOT_PAGES;
    if (slot->kind == KIND_HUGE)
        slot->pages = (1 + pick(2)) * HUGE_BYTES / PAGE;
}

/* Pages that are being copied are copied before they are taken away or moved. */
static void hold(const void *start, size_t bytes)
{
    if (files.hold)
        files.hold((uintptr_t)start, (uintptr_t)start + bytes);
}

static int munmap_held(void *start, size_t bytes)
{
    hold(start, bytes);
    return munmap(start, bytes);
}

static void *mmap_held(void *start, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    hold(start, bytes);
    return mmap(start, bytes, prot, flags, fd, offset);
}

static void *mremap_held(void *from, size_t old_bytes, size_t bytes, int flags, void *to)
{
    hold(NULL, SIZE_MAX); /* neighbours that the kernel merges with it lose their protection */
    return mremap(from, old_bytes, bytes, flags, to);
}

static int madvise_held(void *start, size_t bytes, int advice)
{
    hold(start, bytes);
    return madvise(start, bytes, advice);
}

static void map_slot(unsigned i)
{
    struct slot *slot = &slots[i];
    unsigned first = 0;
    munmap_held(at(i, 0), MOVER_SLOT_PAGES * PAGE);
    pick_kind(slot);
    int fd = slot->kind == KIND_FILE ? files.mapped : slot->kind == KIND_OUTSIDE ? files.shared : -1;
    int flags = slot->kind == KIND_SHARED || slot->kind == KIND_OUTSIDE ? MAP_SHARED : MAP_PRIVATE;
    flags |= MAP_FIXED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
    if (slot->kind == KIND_STACK) {
        flags |= MAP_GROWSDOWN;
        first = MOVER_SLOT_PAGES - STACK_PAGES;
    }
    if (slot->kind == KIND_HUGE)
        flags |= MAP_HUGETLB;
    size_t bytes = (slot->pages - first) * PAGE;
    if (mmap_held(at(i, first), bytes, PROT_READ | PROT_WRITE, flags, fd, 0) == MAP_FAILED) {
        slot->kind = KIND_NONE; /* the machine has no huge pages set aside */
        return;
    }
    if (slot->kind == KIND_ANON && pick(3) == 0)
        madvise_held(at(i, 0), slot->pages * PAGE, MADV_HUGEPAGE);
}

static void write_some(unsigned i, unsigned first, unsigned pages)
{
    unsigned step = pick(3) ? 1 : 1 + pick(7);
    for (unsigned page = first; page < first + pages; page += step)
        write_page(i, page);
}

/* Of the trackers, some have to be told. */
static void *move(void *from, size_t old_bytes, size_t bytes, int flags, void *to)
{
    void *moved = mremap_held(from, old_bytes, bytes, flags, to);
    if (moved != MAP_FAILED)
        control_note_move(files.moves, (uintptr_t)moved, (uintptr_t)moved + bytes);
    return moved;
}

static void move_slot(unsigned from, unsigned to)
{
    struct slot *slot = &slots[from];
    if (from == to || (slot->kind != KIND_ANON && slot->kind != KIND_FILE))
        return;
    unsigned left = MOVER_SLOT_PAGES - slot->pages + 1;
    unsigned pages = slot->kind == KIND_ANON && pick(2) ? slot->pages + pick(left) : slot->pages;
    munmap_held(at(to, 0), MOVER_SLOT_PAGES * PAGE);
    slots[to].kind = KIND_NONE;
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    bool stays = slot->kind == KIND_ANON && pages == slot->pages && pick(3) == 0;
    if (stays)
        flags |= MREMAP_DONTUNMAP;
    if (move(at(from, 0), slot->pages * PAGE, pages * PAGE, flags, at(to, 0)) == MAP_FAILED)
        return; /* it has holes */
    slots[to].kind = slot->kind;
    slots[to].pages = pages;
    if (!stays)
        slot->kind = KIND_NONE;
}

/*
 * A part goes elsewhere, and comes back, in another line or in this one: between its former neighbours the
 * kernel makes one mapping of the three again.
 */
static void exile_part(unsigned i, unsigned first, unsigned pages)
{
    struct slot *slot = &slots[i];
    const int flags = MREMAP_MAYMOVE | MREMAP_FIXED | (pick(2) ? MREMAP_DONTUNMAP : 0);
    if (slot->exile_pages > 0) {
        size_t bytes = slot->exile_pages * PAGE;
        move(exile_of(i), bytes, bytes, flags, at(i, slot->exile_first));
        munmap_held(exile_of(i), bytes);
        slot->exile_pages = 0;
    } else if (move(at(i, first), pages * PAGE, pages * PAGE, flags, exile_of(i)) != MAP_FAILED) {
        slot->exile_first = first;
        slot->exile_pages = pages;
    }
}

/* Two parts of the same size change places. */
static void swap_parts(unsigned i, unsigned first, unsigned pages)
{
    const int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    size_t bytes = pages * PAGE;
    if (slots[i].exile_pages > 0 || first + 2 * pages > slots[i].pages ||
        move(at(i, first), bytes, bytes, flags, exile_of(i)) == MAP_FAILED)
        return;
    move(at(i, first + pages), bytes, bytes, flags, at(i, first));
    move(exile_of(i), bytes, bytes, flags, at(i, first + pages));
    munmap_held(exile_of(i), bytes);
}

/* As the heap does: at its end, in place. */
static void resize_slot(unsigned i)
{
    struct slot *slot = &slots[i];
    unsigned pages = 1 + pick(MOVER_SLOT_PAGES), old = slot->pages;
    if (slot->kind != KIND_ANON)
        return;
    if (pages < old)
        munmap_held(at(i, pages), (old - pages) * PAGE);
    else if (pick(2))
        mmap_held(at(i, old), (pages - old) * PAGE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    else
        mremap_held(at(i, old - 1), PAGE, (pages - old + 1) * PAGE, 0, NULL);
    slot->pages = pages;
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
    for (unsigned i = 0; i < MOVER_SLOTS; i++) /* also to what it shares with its parent */
        if (slots[i].kind != KIND_NONE)
            write_some(i, 0, slots[i].pages < 20 ? slots[i].pages : 20);
    raise(SIGSTOP);
    _exit(0);
}

static void advise(unsigned i, unsigned first, unsigned pages)
{
    static const int advices[] = {MADV_DONTNEED, MADV_DONTNEED,  MADV_DONTNEED,       MADV_NOHUGEPAGE,
                                  MADV_HUGEPAGE, MADV_FREE,      MADV_WIPEONFORK,     MADV_KEEPONFORK,
                                  MADV_DONTFORK, MADV_DOFORK,    MADV_COLLAPSE,       MADV_PAGEOUT,
                                  MADV_COLD,     MADV_MERGEABLE, MADV_POPULATE_WRITE, MADV_DONTNEED_LOCKED};
    int advice = advices[pick(sizeof advices / sizeof advices[0])];
    if (advice == MADV_COLLAPSE) { /* all of a huge page's memory, or nothing */
        write_some(i, 0, slots[i].pages < 512 ? slots[i].pages : 512);
        madvise_held(at(i, 0), HUGE_BYTES, advice);
    } else {
        madvise_held(at(i, first), pages * PAGE, advice);
    }
}

/* The kernel writes, as it does for a file and for a message that is fetched from another process. */
static void let_kernel_write(unsigned i, unsigned first, unsigned pages)
{
    size_t bytes = pages * PAGE < READ_MAX ? pages * PAGE : READ_MAX;
    struct iovec from = {at(pick(MOVER_SLOTS), 0), bytes}, to = {at(i, first), bytes};
    ssize_t got;
    if (pick(2))
        got = read(files.random, at(i, first), bytes);
    else
        got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    (void)got;
}

static void protect(unsigned i, unsigned first, unsigned pages)
{
    static const int protections[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE};
    mprotect(at(i, first), pages * PAGE, protections[pick(4)]);
}

/* Many small mappings side by side, of which some are new or moved at the next line. */
static void shred(unsigned i, unsigned first, unsigned pages)
{
    for (unsigned page = 0; page + 1 < pages; page += 2)
        mprotect(at(i, first + page), PAGE, page % 4 ? PROT_READ : PROT_NONE);
    if (pages > 2 && pick(2))
        mmap_held(at(i, first + pick(pages)), PAGE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

static void map_over(unsigned i, unsigned first, unsigned pages)
{
    mmap_held(at(i, first), pages * PAGE, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

static void read_some(unsigned i, unsigned first, unsigned pages)
{
    for (unsigned page = first; page < first + pages; page++)
        read_page(i, page);
}

static void lock(unsigned i, unsigned first, unsigned pages)
{
    if (pick(2))
        mlock(at(i, first), pages * PAGE);
    else
        munlock(at(i, first), pages * PAGE);
}

void mover_ops_do_one(void)
{
    unsigned i = pick(MOVER_SLOTS), first, pages;
    if (slots[i].kind == KIND_NONE) {
        map_slot(i);
        return;
    }
    pick_range(&slots[i], &first, &pages);
    switch (pick(25)) {
    case 0:
        map_slot(i);
        break;
    case 1:
        munmap_held(at(i, first), pages * PAGE);
        break;
    case 2:
        move_slot(i, pick(MOVER_SLOTS));
        break;
    case 3:
    case 4:
        exile_part(i, first, pages);
        break;
    case 5:
        swap_parts(i, first, pages);
        break;
    case 6:
        resize_slot(i);
        break;
    case 7:
        protect(i, first, pages);
        break;
    case 8:
    case 9:
    case 10:
    case 11:
        advise(i, first, pages);
        break;
    case 12:
        map_over(i, first, pages);
        break;
    case 13:
    case 14:
        let_kernel_write(i, first, pages);
        break;
    case 15:
        read_some(i, first, pages);
        break;
    case 16:
        if (pick(4) == 0)
            replace_child(pick(CHILDREN));
        break;
    case 17:
        lock(i, first, pages);
        break;
    case 18:
        shred(i, first, pages);
        break;
    default:
        write_some(i, first, pages);
        break;
    }
}
