/* test_arena.c - memory of the MPI layer: zeroed, aligned, of any size, used again, nobody's twice. */
#include "mpi-layer/upper/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#define STEPS 3000
#define BLOCKS 100

static struct {
    unsigned char *at;
    size_t bytes;
    unsigned char fill;
} blocks[BLOCKS];

/* Around the sizes of classes, and those that are mapped alone. */
static size_t any_size(void)
{
    size_t power = 1ul << (rand() % 18);
    return power + (size_t)(rand() % 40) - (power > 20 ? 20 : 0);
}

static void blocks_are_apart(void **state)
{
    (void)state;
    srand(1);
    for (int step = 0; step < STEPS; step++) {
        int i = rand() % BLOCKS;
        if (blocks[i].at) {
            for (size_t at = 0; at < blocks[i].bytes; at++)
                if (blocks[i].at[at] != blocks[i].fill)
                    fail_msg("byte %zu of a block of %zu bytes is another's", at, blocks[i].bytes);
            arena_free(blocks[i].at);
            blocks[i].at = NULL;
            continue;
        }
        blocks[i].bytes = any_size();
        blocks[i].at = arena_alloc(blocks[i].bytes);
        assert_non_null(blocks[i].at);
        assert_int_equal((uintptr_t)blocks[i].at % 16, 0);
        for (size_t at = 0; at < blocks[i].bytes; at++)
            if (blocks[i].at[at])
                fail_msg("byte %zu of a new block of %zu bytes is not zero", at, blocks[i].bytes);
        blocks[i].fill = (unsigned char)(1 + rand() % 255);
        memset(blocks[i].at, blocks[i].fill, blocks[i].bytes);
    }
    for (int i = 0; i < BLOCKS; i++)
        arena_free(blocks[i].at);
    arena_free(NULL);
}

static size_t address_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    size_t pages = 0;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu", &pages), 1);
    fclose(file);
    return pages * 4096;
}

/* What is given back is used again, or goes to the system. */
static void memory_does_not_grow(void **state)
{
    (void)state;
    const size_t sizes[] = {1, 16, 17, 4000, 65536 - 16, 65536 - 15, 3u << 20};
    arena_free(arena_alloc(4000));
    fclose(fopen("/proc/self/statm", "r"));
    size_t before = address_bytes();
    for (int i = 0; i < 2000; i++)
        arena_free(arena_alloc(sizes[i % 7]));
    assert_true(address_bytes() <= before + (4u << 20));
}

static void limit_address_space(size_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = bytes ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
}

static void more_than_there_is(void **state)
{
    (void)state;
    for (size_t less = 0; less < 40; less++)
        assert_null(arena_alloc(SIZE_MAX - less));
    assert_null(arena_alloc(SIZE_MAX / 2 + 1));
    assert_null(arena_alloc(SIZE_MAX / 4));
}

/* A drain finds memory in a process that has come to its limit, as long as it holds the ballast up. */
static void ballast_is_room_at_the_limit(void **state)
{
    (void)state;
    void *large = NULL;
    arena_take_ballast();
    limit_address_space(address_bytes());
    void *refused = arena_alloc(6u << 20);
    arena_drop_ballast();
    large = arena_alloc(6u << 20);
    arena_take_ballast(); /* there is no room for it now, which is no error */
    arena_drop_ballast();
    limit_address_space(0);
    assert_null(refused);
    assert_non_null(large);
    arena_free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_apart),
        cmocka_unit_test(memory_does_not_grow),
        cmocka_unit_test(more_than_there_is),
        cmocka_unit_test(ballast_is_room_at_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
