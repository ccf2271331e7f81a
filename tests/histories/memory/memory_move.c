/*
 * memory_move.c - memory that mremap resizes and moves.
 */
#include <string.h>
#include <sys/mman.h>

#include "tests/histories/memory/areas.h"
#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/memory/memory.h"
#include "tests/histories/core/world.h"

/* One that is a single mapping: mremap takes no other. */
static struct area *choose_whole(void)
{
    struct area *a = area_choose();
    if (!a || a->is_whole)
        return a;
    say(" in parts");
    return NULL;
}

static void note_growth(struct area *a, char *at, int pages)
{
    a->at = at;
    for (int i = a->pages; i < pages; i++) {
        a->page[i] = a->page[0];
        memset(a->content + (size_t)i * PAGE, 0, PAGE);
    }
    a->pages = pages;
}

void memory_grow(void)
{
    struct area *a = choose_whole();
    if (!a || a->is_shared ||
        a->pages == AREA_PAGES) /* what is shared does not grow: no memory is behind its end */
        return;
    int pages = (int)pick_between(a->pages + 1, AREA_PAGES);
    char *at = mremap(a->at, (size_t)a->pages * PAGE, (size_t)pages * PAGE, MREMAP_MAYMOVE);
    say(" %d", pages);
    if (answer(at == MAP_FAILED ? -1 : 0) == 0)
        note_growth(a, at, pages);
}

/* There is room behind it, since that was just unmapped. */
void memory_grow_in_place(void)
{
    struct area *a = area_renew();
    int pages = 1 + (int)pick(AREA_PAGES / 2), more = 1 + (int)pick(AREA_PAGES / 2);
    size_t bytes = (size_t)pages * PAGE, all = (size_t)(pages + more) * PAGE;
    char *at = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (answer(at == MAP_FAILED ? -1 : 0))
        return;
    area_set(a, at, pages, PROT_READ | PROT_WRITE);
    area_write(a, 0, pages);
    munmap(at + bytes, all - bytes);
    char *got = mremap(at, bytes, all, 0);
    if (answer(got == at ? 0 : -1) == 0)
        note_growth(a, at, pages + more);
}

void memory_shrink(void)
{
    struct area *a = choose_whole();
    if (!a || a->pages == 1)
        return;
    int pages = (int)pick_between(1, a->pages - 1);
    char *at = mremap(a->at, (size_t)a->pages * PAGE, (size_t)pages * PAGE, 0);
    say(" %d", pages);
    if (answer(at == a->at ? 0 : -1) == 0)
        a->pages = pages;
}

/* To where something else is, or to an address of the history's choice. */
void memory_move(void)
{
    struct area *a = choose_whole();
    size_t bytes = a ? (size_t)a->pages * PAGE : 0;
    if (!a)
        return;
    char *target = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *at = mremap(a->at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, target);
    if (answer(at == target ? 0 : -1) == 0)
        a->at = at;
}

/* The old place stays mapped, as zeros. */
void memory_move_keep(void)
{
    struct area *a = choose_whole();
    if (!a || a->is_shared)
        return;
    struct area *b = area_renew();
    size_t bytes = (size_t)a->pages * PAGE;
    if (b == a)
        return;
    char *old = a->at, *at = mremap(old, bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    if (answer(at == MAP_FAILED ? -1 : 0))
        return;
    *b = *a;
    b->at = at;
    memset(a->content, 0, bytes);
}
