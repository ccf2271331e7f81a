/*
 * memory.c - memory that is mapped, written, protected, given back and unmapped.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/histories/memory/areas.h"
#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/memory/memory.h"
#include "tests/histories/memory/ranges.h"
#include "tests/histories/core/world.h"

#define RESERVED_BYTES (64ul << 30)
#define RESERVED_PARTS 16

static struct {
    char *at; /* NULL: none */
    bool is_huge;
    uint64_t stamps[RESERVED_PARTS];
} reserved;

static struct {
    char *at; /* NULL: none */
    uint64_t sum;
} huge;

static int some_protection(void)
{
    return (int)PICK_ONE(PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE,
                         PROT_READ | PROT_WRITE | PROT_EXEC, PROT_READ | PROT_EXEC);
}

static int some_pages(void)
{
    return 1 + (int)pick(chance(50) ? 4 : AREA_PAGES);
}

/* ---- mapped ---- */

static void map_at(struct area *a, char *address, int pages, int flags)
{
    int protection = chance(75) ? PROT_READ | PROT_WRITE : some_protection();
    bool is_shared = chance(15);
    flags |= MAP_ANONYMOUS | (is_shared ? MAP_SHARED : MAP_PRIVATE);
    say(" %d pages %x %x", pages, (unsigned)protection, (unsigned)flags);
    char *at = mmap(address, (size_t)pages * PAGE, protection, flags, -1, 0);
    answer(at == MAP_FAILED ? -1 : 0);
    if (at == MAP_FAILED)
        return;
    area_set(a, at, pages, protection);
    a->is_shared = is_shared;
    a->is_fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE);
    for (int i = 0; i < pages && flags & MAP_LOCKED; i++)
        a->page[i].is_locked = true;
}

static void act_map(void)
{
    int flags = (int)PICK_ONE(0, 0, 0, MAP_NORESERVE, MAP_POPULATE, MAP_32BIT, MAP_STACK);
    struct area *a = area_renew();
    map_at(a, NULL, some_pages(), flags);
}

/* A wish only: what comes of it is not told. */
static void act_map_near(void)
{
    struct area *a = area_renew();
    map_at(a, area_address(a), some_pages(), 0);
}

static void act_map_fixed(void)
{
    struct area *a = area_renew();
    char *address = area_address(a);
    map_at(a, address, some_pages(), chance(50) ? MAP_FIXED : MAP_FIXED_NOREPLACE);
}

/* Over a part of what is mapped. */
static void act_map_over(void)
{
    int first, count, protection = some_protection();
    struct area *a = area_choose();
    if (!a || (count = area_range(a, 0, &first)) == 0)
        return;
    char *at = a->at + (size_t)first * PAGE;
    say(" %x", (unsigned)protection);
    int flags = MAP_ANONYMOUS | MAP_FIXED | (a->is_shared ? MAP_SHARED : MAP_PRIVATE);
    void *got = mmap(at, (size_t)count * PAGE, protection, flags, -1, 0);
    answer(got == at ? 0 : -1);
    memset(a->content + (size_t)first * PAGE, 0, (size_t)count * PAGE);
    for (int i = first; i < first + count; i++)
        a->page[i] = (struct area_page){.is_mapped = true, .protection = protection};
    a->is_whole = false;
}

/* Back to where a hole has been made, in an area where the kernel puts nothing by itself. */
static void act_map_hole(void)
{
    struct area *a = area_choose();
    int page = 0;
    while (a && page < a->pages && a->page[page].is_mapped)
        page++;
    if (!a || !a->is_fixed || page == a->pages)
        return;
    say(" page %d", page);
    char *at = a->at + (size_t)page * PAGE;
    int flags = MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | (a->is_shared ? MAP_SHARED : MAP_PRIVATE);
    char *got = mmap(at, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (answer(got == at ? 0 : -1))
        return;
    memset(a->content + (size_t)page * PAGE, 0, PAGE);
    a->page[page] = (struct area_page){.is_mapped = true, .protection = PROT_READ | PROT_WRITE};
}

/* A stack: it grows down when the page below is touched. */
static void act_grow_down(void)
{
    struct area *a = area_renew();
    char *top = area_address(a) + (8ul << 20), *at = top - 2 * PAGE;
    int pages = 2 + (int)pick(20);
    char *got = mmap(at, 2 * PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED_NOREPLACE, -1, 0);
    answer(got == at ? 0 : -1);
    if (got != at)
        return;
    for (int i = 2; i < pages; i++)
        *(volatile char *)(top - (size_t)(i + 1) * PAGE) = 0;
    area_set(a, top - (size_t)pages * PAGE, pages, PROT_READ | PROT_WRITE);
    a->is_fixed = true;
    a->is_whole = false;
    area_write(a, 0, pages);
}

static void act_unmap(void)
{
    int first, count;
    struct area *a = area_choose();
    if (!a || (count = area_range(a, 0, &first)) == 0)
        return;
    answer(munmap(a->at + (size_t)first * PAGE, (size_t)count * PAGE));
    for (int i = first; i < first + count; i++)
        a->page[i] = (struct area_page){.is_mapped = false};
    a->is_whole = false;
    int left = 0;
    for (int i = 0; i < a->pages; i++)
        left += a->page[i].is_mapped;
    if (left == 0)
        a->at = NULL;
}

static void act_unmap_all(void)
{
    struct area *a = area_choose();
    if (a)
        area_drop(a);
}

/* ---- used ---- */

static void act_write(void)
{
    int first, count;
    struct area *a = area_choose();
    if (a && (count = area_range(a, PROT_READ | PROT_WRITE, &first)) > 0)
        area_write(a, first, count);
}

static void act_protect(void)
{
    int first, count, protection = some_protection();
    struct area *a = area_choose();
    if (!a || (count = area_range(a, 0, &first)) == 0)
        return;
    say(" %x", (unsigned)protection);
    if (answer(mprotect(a->at + (size_t)first * PAGE, (size_t)count * PAGE, protection)))
        return;
    for (int i = first; i < first + count; i++)
        a->page[i].protection = protection;
    a->is_whole = a->is_whole && first == 0 && count == a->pages;
}

/* The kernel writes there. */
static void act_fill(void)
{
    static const int size = 4000;
    size_t bytes, way = pick(3);
    char *at = area_room((size_t)size, &bytes);
    int pipe[2];
    if (!at)
        return;
    const char *data = some_bytes(bytes);
    struct iovec from = {(char *)data, bytes}, to = {at, bytes};
    say(" way %zu", way);
    if (way == 0) {
        answer(process_vm_writev(getpid(), &from, 1, &to, 1, 0));
    } else if (pipe2(pipe, O_CLOEXEC) == 0) {
        answer(write(pipe[1], data, bytes));
        answer(way == 1 ? read(pipe[0], at, bytes) : readv(pipe[0], &to, 1));
        close(pipe[0]);
        close(pipe[1]);
    }
    area_filled(at, data, bytes);
}

/* A device writes there, past the page table: O_DIRECT, of the file that nobody changes. */
static void act_fill_direct(void)
{
    int first, count;
    char path[PATH_MAX];
    struct area *a = area_choose();
    if (!a || (count = area_range(a, PROT_READ | PROT_WRITE, &first)) == 0)
        return;
    snprintf(path, sizeof path, "%.*s/constant", PATH_MAX - 16, world.base);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    char *at = a->at + (size_t)first * PAGE, *copy = malloc(PAGE);
    if (answer(pread(fd, at, PAGE, (off_t)(pick(10) * PAGE))) == (long)PAGE) {
        memcpy(copy, at, PAGE);
        area_filled(at, copy, PAGE);
        say_bytes(copy, PAGE);
    }
    free(copy);
    if (fd >= 0)
        close(fd);
}

/* A huge page; ordinary memory where none is left: how many are set aside is the whole machine's, and may
 * change between two runs. */
static char *map_huge(size_t bytes)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_HUGETLB, -1, 0);
    if (at == MAP_FAILED)
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    answer(at == MAP_FAILED ? -1 : 0);
    return at == MAP_FAILED ? NULL : at;
}

/* A child does not write to its parent's page: it would need another one, and ends if none is left. */
static void act_map_huge(void)
{
    const size_t bytes = 2ul << 20;
    uint64_t number = roll();
    if (huge.at && chance(30)) {
        answer(munmap(huge.at, bytes));
        huge.at = NULL;
        return;
    }
    if (!huge.at)
        huge.at = map_huge(bytes);
    if (huge.at && !world.is_child) {
        fill(huge.at + number % 64 * PAGE, PAGE, number);
        huge.sum = sum_of(huge.at, bytes);
    }
}

/* The kernel cannot read or write where the program may not. */
static void act_probe(void)
{
    struct area *a = area_choose();
    if (!a)
        return;
    int page = (int)pick((size_t)a->pages);
    char copy[16] = "";
    struct iovec mine = {copy, sizeof copy}, there = {a->at + (size_t)page * PAGE + 100, sizeof copy};
    if (!a->page[page].is_mapped)
        return;
    say(" page %d", page);
    if (answer(process_vm_readv(getpid(), &mine, 1, &there, 1, 0)) == sizeof copy)
        answer(process_vm_writev(getpid(), &mine, 1, &there, 1, 0));
}

/* ---- reserved ---- */

static uint64_t *word_of(int part)
{
    return (uint64_t *)(void *)(reserved.at + (size_t)part * (RESERVED_BYTES / RESERVED_PARTS) +
                                (size_t)part * 8);
}

/* Much more than there is, a little of which is used. */
static void act_reserve(void)
{
    int protection = chance(50) ? PROT_NONE : PROT_READ | PROT_WRITE, part = (int)pick(RESERVED_PARTS);
    if (!reserved.at) {
        char *at = mmap(NULL, RESERVED_BYTES, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        answer(at == MAP_FAILED ? -1 : 0);
        reserved.at = at == MAP_FAILED ? NULL : at;
        memset(reserved.stamps, 0, sizeof reserved.stamps);
    }
    if (!reserved.at)
        return;
    uint64_t *word = word_of(part);
    answer(mprotect((char *)((uintptr_t)word & ~(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE));
    *word = reserved.stamps[part] = roll();
}

static void act_unreserve(void)
{
    if (!reserved.at)
        return;
    answer(munmap(reserved.at, RESERVED_BYTES));
    reserved.at = NULL;
}

/* What /proc/self/maps tells of each page. */
static void act_maps(void)
{
    ranges_read();
    for (int i = 0; i < AREAS; i++) {
        const struct area *a = area_at(i);
        char text[AREA_PAGES + 1] = "";
        for (int page = 0; a->at && page < a->pages; page++) {
            int seen = ranges_protection(a->at + (size_t)page * PAGE);
            if (a->page[page].is_mapped && seen != a->page[page].protection)
                wrong("protection %x of area %d, page %d", (unsigned)seen, i, page);
            text[page] = !a->page[page].is_mapped ? '-' : seen < 0 ? '?' : (char)('0' + seen);
        }
        if (a->at)
            say(" ~%d %s", i, text);
    }
}

static const struct operation operations[] = {
    {"map", 10, act_map},
    {"map_near", 2, act_map_near},
    {"map_fixed", 5, act_map_fixed},
    {"map_over", 4, act_map_over},
    {"map_hole", 3, act_map_hole},
    {"grow_down", 2, act_grow_down},
    {"unmap", 4, act_unmap},
    {"unmap_all", 3, act_unmap_all},
    {"write", 25, act_write},
    {"protect", 10, act_protect},
    {"fill", 6, act_fill},
    {"fill_direct", 3, act_fill_direct},
    {"map_huge", 1, act_map_huge},
    {"probe", 3, act_probe},
    {"maps", 3, act_maps},
    {"reserve", 2, act_reserve},
    {"unreserve", 1, act_unreserve},
    {"advise", 10, memory_advise},
    {"free", 3, memory_free},
    {"lock", 3, memory_lock},
    {"lock_all", 1, memory_lock_all},
    {"grow", 5, memory_grow},
    {"grow_in_place", 2, memory_grow_in_place},
    {"shrink", 3, memory_shrink},
    {"move", 4, memory_move},
    {"move_keep", 3, memory_move_keep},
    {NULL, 0, NULL},
};

static void observe_reserved(void)
{
    for (int i = 0; i < RESERVED_PARTS && reserved.at; i++)
        if (reserved.stamps[i]) {
            note("reserved %d %llx", i, (unsigned long long)*word_of(i));
            if (*word_of(i) != reserved.stamps[i])
                wrong("reserved memory, part %d", i);
        }
}

static void observe(void)
{
    areas_are_right(false);
    observe_reserved();
    if (huge.at && sum_of(huge.at, 2ul << 20) != huge.sum)
        wrong("huge pages");
    for (int i = 0; i < AREAS; i++)
        for (int page = 0; area_at(i)->at && page < area_at(i)->pages; page++)
            if (area_at(i)->page[page].is_mapped)
                note_bytes("content", area_at(i)->content + (size_t)page * PAGE, PAGE);
}

const struct kind kind_memory = {"memory", operations, .observe = observe};
