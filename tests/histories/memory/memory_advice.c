/*
 * memory_advice.c - advice to the kernel about memory, and memory that is locked.
 */
#include <string.h>
#include <sys/mman.h>

#include "tests/histories/memory/areas.h"
#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/memory/memory.h"
#include "tests/histories/core/world.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

static bool has_locked(const struct area *a, int first, int count)
{
    for (int i = first; i < first + count; i++)
        if (a->page[i].is_locked)
            return true;
    return false;
}

/* What the advice does to content and to what children get. */
static void note_advice(struct area *a, int first, int count, int advice)
{
    if ((advice == MADV_DONTNEED && !a->is_shared) || advice == MADV_REMOVE)
        memset(a->content + (size_t)first * PAGE, 0, (size_t)count * PAGE);
    for (int i = first; i < first + count; i++) {
        if (advice == MADV_WIPEONFORK || advice == MADV_KEEPONFORK)
            a->page[i].is_wiped = advice == MADV_WIPEONFORK;
        if (advice == MADV_DONTFORK || advice == MADV_DOFORK)
            a->page[i].is_not_forked = advice == MADV_DONTFORK;
    }
}

/* Advice whose success does not depend on where the memory lies and what else there is. */
void memory_advise(void)
{
    int advice =
        (int)PICK_ONE(MADV_DONTNEED, MADV_DONTNEED, MADV_DONTNEED, MADV_WIPEONFORK, MADV_KEEPONFORK,
                      MADV_DONTFORK, MADV_DOFORK, MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_SEQUENTIAL,
                      MADV_RANDOM, MADV_WILLNEED, MADV_COLD, MADV_PAGEOUT, MADV_MERGEABLE, MADV_UNMERGEABLE,
                      MADV_DONTDUMP, MADV_DODUMP, MADV_POPULATE_READ, MADV_POPULATE_WRITE, MADV_REMOVE);
    int first, count;
    struct area *a = area_choose();
    if (!a || (count = area_range(a, advice == MADV_REMOVE ? PROT_WRITE : 0, &first)) == 0)
        return;
    if (has_locked(a, first, count) &&
        (advice == MADV_DONTNEED || advice == MADV_COLD || advice == MADV_PAGEOUT || advice == MADV_REMOVE))
        return; /* EINVAL, until a restart */
    say(" %d", advice);
    if (answer(madvise(a->at + (size_t)first * PAGE, (size_t)count * PAGE, advice)) == 0)
        note_advice(a, first, count, advice);
    a->is_whole = false;
}

/* The content is there or not until the next write, so all of it is written. */
void memory_free(void)
{
    int first, count;
    struct area *a = area_choose();
    if (!a || a->is_shared || (count = area_range(a, PROT_READ | PROT_WRITE, &first)) == 0)
        return;
    if (has_locked(a, first, count))
        return;
    char *at = a->at + (size_t)first * PAGE;
    answer(madvise(at, (size_t)count * PAGE, MADV_FREE));
    fill(at, (size_t)count * PAGE, world.seed);
    fill(a->content + (size_t)first * PAGE, (size_t)count * PAGE, world.seed);
}

/* Whether it is still locked cannot be seen; that it may be unlocked again can. */
void memory_lock(void)
{
    int first, count;
    bool is_lock = chance(50), is_on_fault = chance(30);
    struct area *a = area_choose();
    if (!a || (count = area_range(a, PROT_READ, &first)) == 0)
        return;
    char *at = a->at + (size_t)first * PAGE;
    size_t bytes = (size_t)count * PAGE;
    say(" %s", is_lock ? is_on_fault ? "on fault" : "lock" : "unlock");
    long result = !is_lock      ? munlock(at, bytes)
                  : is_on_fault ? mlock2(at, bytes, MLOCK_ONFAULT)
                                : mlock(at, bytes);
    if (answer(result) == 0)
        for (int i = first; i < first + count; i++)
            a->page[i].is_locked = is_lock;
    a->is_whole = false;
}

/* On fault only: reservations would be filled otherwise, which are larger than any machine. */
void memory_lock_all(void)
{
    answer(mlockall(chance(50) ? MCL_CURRENT | MCL_ONFAULT : MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT));
    answer(munlockall());
    for (int i = 0; i < AREAS; i++)
        for (int page = 0; page < AREA_PAGES; page++)
            area_at(i)->page[page].is_locked = false;
}
