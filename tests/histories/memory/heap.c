/*
 * heap.c - memory of malloc and its like, and of sbrk.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/histories/core/dice.h"
#include "tests/histories/core/journal.h"
#include "tests/histories/core/kind.h"
#include "tests/histories/core/world.h"

#define BLOCKS 20
#define BLOCK_MAX (600u << 10)

static struct block {
    char *at;            /* NULL: none */
    size_t bytes, known; /* so many of them are known */
    uint64_t number;
} blocks[BLOCKS], end_of_heap;

static size_t some_size(void)
{
    return (size_t)pick_between(1, PICK_ONE(24, 200, 3000, 40000, 200000, BLOCK_MAX));
}

static void set(struct block *b, char *at, size_t bytes)
{
    *b = (struct block){.at = at, .bytes = bytes, .known = bytes, .number = roll()};
    fill(at, bytes, b->number);
}

static struct block *choose_free(void)
{
    struct block *b = &blocks[pick(BLOCKS)];
    free(b->at);
    b->at = NULL;
    say(" %d", (int)(b - blocks));
    return b;
}

static void act_allocate(void)
{
    struct block *b = choose_free();
    size_t bytes = some_size(), way = pick(4);
    void *aligned = NULL;
    say(" %zu way %zu", bytes, way);
    if (way == 0)
        set(b, malloc(bytes), bytes);
    else if (way == 1)
        set(b, memalign((size_t)1 << pick_between(4, 14), bytes), bytes);
    else if (way == 2 && posix_memalign(&aligned, 4096, bytes) == 0)
        set(b, aligned, bytes);
    else
        set(b, valloc(bytes), bytes);
}

static void act_calloc(void)
{
    struct block *b = choose_free();
    size_t bytes = some_size();
    char *at = calloc(bytes, 1);
    for (size_t i = 0; i < bytes; i++)
        if (at[i])
            wrong("byte %zu of new memory", i);
    set(b, at, bytes);
}

static void act_resize(void)
{
    struct block *b = &blocks[pick(BLOCKS)];
    size_t bytes = some_size();
    say(" %d %zu to %zu", (int)(b - blocks), b->at ? b->bytes : 0, bytes);
    if (!b->at)
        return;
    b->at = realloc(b->at, bytes);
    b->bytes = bytes;
    b->known = bytes < b->known ? bytes : b->known;
}

static void act_release(void)
{
    struct block *b = &blocks[pick(BLOCKS)];
    say(" %d", (int)(b - blocks));
    free(b->at);
    b->at = NULL;
}

static void act_trim(void)
{
    malloc_trim(pick(10000));
}

/* The program's own use of sbrk, beside malloc's; given back only if nobody has moved the end since. */
static void act_sbrk(void)
{
    size_t bytes = some_size();
    bool is_shrinking = chance(60);
    struct block *b = &end_of_heap;
    if (is_shrinking && b->at && sbrk(0) == b->at + b->bytes)
        sbrk(-(intptr_t)b->bytes);
    char *at = sbrk((intptr_t)bytes);
    say(" %zu", bytes);
    answer(at == (void *)-1 ? -1 : 0);
    b->at = NULL;
    if (at != (void *)-1)
        set(b, at, bytes);
}

static const struct operation operations[] = {
    {"allocate", 8, act_allocate},
    {"calloc", 3, act_calloc},
    {"resize", 5, act_resize},
    {"release", 5, act_release},
    {"trim", 1, act_trim},
    {"sbrk", 3, act_sbrk},
    {NULL, 0, NULL},
};

static void observe_block(const char *what, const struct block *b)
{
    static char expected[BLOCK_MAX];
    fill(expected, b->known, b->number);
    if (memcmp(expected, b->at, b->known))
        wrong("%s", what);
    note_bytes(what, b->at, b->known);
}

static void observe(void)
{
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].at)
            observe_block("block", &blocks[i]);
    if (end_of_heap.at)
        observe_block("the end of the heap", &end_of_heap);
}

const struct kind kind_heap = {"heap", operations, .observe = observe};
