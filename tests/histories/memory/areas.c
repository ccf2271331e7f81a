#include "tests/histories/memory/areas.h"

#include <string.h>
#include <sys/mman.h>

#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"

#define AREA_SPACING (16ul << 20)

static struct area areas[AREAS];
static const char zeros[PAGE];

int area_place(const struct area *a)
{
    return (int)(a - areas);
}

struct area *area_at(int place)
{
    return &areas[place];
}

struct area *area_choose(void)
{
    struct area *found[AREAS];
    size_t count = 0;
    for (int i = 0; i < AREAS; i++)
        if (areas[i].at)
            found[count++] = &areas[i];
    if (count == 0) {
        say(" nothing");
        return NULL;
    }
    struct area *a = found[pick(count)];
    say(" ~%d", area_place(a));
    return a;
}

struct area *area_renew(void)
{
    struct area *a = &areas[pick(AREAS)];
    for (int i = 0; i < AREAS && a->at; i++)
        if (!areas[i].at)
            a = &areas[i];
    if (a->at)
        area_drop(a);
    say(" ~%d", area_place(a));
    return a;
}

void area_set(struct area *a, char *at, int pages, int protection)
{
    *a = (struct area){.at = at, .pages = pages, .is_whole = true};
    for (int i = 0; i < pages; i++)
        a->page[i] = (struct area_page){.is_mapped = true, .protection = protection};
}

void area_drop(struct area *a)
{
    for (int i = 0; i < a->pages; i++)
        if (a->page[i].is_mapped)
            munmap(a->at + (size_t)i * PAGE, PAGE);
    a->at = NULL;
}

/* Low ones, but below those of MAP_32BIT; and some between the usual places of programs and libraries. */
char *area_address(const struct area *a)
{
    static const unsigned long bases[] = {0x10000000,     0x180000000,    0x7000000000,   0xd0000000000,
                                          0x200000000000, 0x3c0000000000, 0x500000000000, 0x6a0000000000};
    size_t which = pick(sizeof bases / sizeof *bases);
    say(" at %lx", bases[which]);
    return (char *)(bases[which] + (unsigned long)area_place(a) * AREA_SPACING);
}

static bool is_fit(const struct area_page *page, int protection)
{
    return page->is_mapped && (page->protection & protection) == protection;
}

int area_range(const struct area *a, int protection, int *first)
{
    int start = (int)pick((size_t)a->pages), wanted = 1 + (int)pick(chance(50) ? 3 : AREA_PAGES), count = 0;
    for (int i = 0; i < a->pages && !is_fit(&a->page[start], protection); i++)
        start = (start + 1) % a->pages;
    while (start + count < a->pages && count < wanted && is_fit(&a->page[start + count], protection))
        count++;
    say(" pages %d+%d", start, count);
    *first = start;
    return count;
}

void area_filled(const char *at, const void *data, size_t bytes)
{
    for (int i = 0; i < AREAS; i++) {
        size_t offset = (size_t)(at - areas[i].at);
        if (areas[i].at && at >= areas[i].at && offset < (size_t)areas[i].pages * PAGE &&
            areas[i].page[offset / PAGE].is_mapped) /* another area may lie in a hole of this one */
            memcpy(areas[i].content + offset, data, bytes);
    }
}

/* A part of the range, from anywhere to anywhere in it. */
static char *part_of(struct area *a, int first, int count, size_t bytes_max, size_t *bytes)
{
    size_t from = pick((size_t)count * PAGE), left = (size_t)count * PAGE - from;
    *bytes = 1 + pick(left < bytes_max ? left : bytes_max);
    return a->at + (size_t)first * PAGE + from;
}

void area_write(struct area *a, int first, int count)
{
    size_t bytes;
    char *at = part_of(a, first, count, (size_t)count * PAGE, &bytes);
    if (chance(30)) { /* all of it */
        at = a->at + (size_t)first * PAGE;
        bytes = (size_t)count * PAGE;
    }
    const char *data = some_bytes(bytes);
    say(" %zu", bytes);
    memcpy(at, data, bytes);
    area_filled(at, data, bytes);
}

char *area_room(size_t bytes_max, size_t *bytes)
{
    int first, count;
    struct area *a = area_choose();
    if (!a || (count = area_range(a, PROT_READ | PROT_WRITE, &first)) == 0)
        return NULL;
    return part_of(a, first, count, bytes_max, bytes);
}

/* What must be in a page; NULL if it cannot be read. */
static const char *expected(const struct area *a, int page, bool is_child)
{
    const struct area_page *p = &a->page[page];
    if (!is_fit(p, PROT_READ) || (is_child && p->is_not_forked))
        return NULL;
    return is_child && p->is_wiped ? zeros : a->content + (size_t)page * PAGE;
}

static bool is_area_right(const struct area *a, bool is_child)
{
    bool is_right = true;
    for (int i = 0; i < a->pages; i++) {
        const char *content = expected(a, i, is_child), *real = a->at + (size_t)i * PAGE;
        if (!content || !memcmp(content, real, PAGE))
            continue;
        if (is_right)
            wrong("area %d, page %d%s", area_place(a), i, memcmp(real, zeros, PAGE) ? "" : ": zeros");
        is_right = false;
    }
    return is_right;
}

bool areas_are_right(bool is_child)
{
    bool are_right = true;
    for (int i = 0; i < AREAS; i++)
        if (areas[i].at && !is_area_right(&areas[i], is_child))
            are_right = false;
    return are_right;
}

void areas_be_childs(void)
{
    for (int i = 0; i < AREAS; i++) {
        if (areas[i].is_shared) /* what it wrote there would be seen by its parent */
            areas[i].at = NULL;
        for (int page = 0; areas[i].at && page < areas[i].pages; page++) {
            struct area_page *p = &areas[i].page[page];
            if (p->is_wiped)
                memset(areas[i].content + (size_t)page * PAGE, 0, PAGE);
            if (p->is_not_forked)
                p->is_mapped = false;
            p->is_locked = false;
        }
    }
}
