/* store_parity_test.c - parity that is made anew: beside the former one, in its place, and gone with its
 * line. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/image/image.h"
#include "node-agent/store/parity_part.h"
#include "node-agent/test/store_parts.h"

#define RANKS 2u
#define LINE 3u
#define SLOT 1u

/* Of a set of two or three members. */
static struct parity_holding set_of(uint64_t data)
{
    struct parity_holding holding = {.slot = SLOT, .data = data, .parity = 1, .position = 1};
    for (uint32_t i = 0; i < PARITY_MEMBERS_MAX; i++)
        holding.ranks[i] = i <= data ? i : EPOCH_NOBODY;
    return holding;
}

static int parity_of(uint64_t data, uint64_t line)
{
    struct belay_error err;
    char page[PAGE];
    int sum = image_make_memfd(&err);
    memset(page, (int)data, PAGE);
    assert_int_equal(pwrite(sum, page, PAGE, (off_t)image_offset(0)), PAGE);
    const struct parity_part_request request = {
        .holding = set_of(data), .line = line, .world = RANKS, .sum = sum, .base = -1};
    int fd = parity_part_make(&request, &err);
    assert_true(fd >= 0);
    close(sum);
    return fd;
}

static bool is_told(const struct store *store, uint64_t data)
{
    const struct parity_holding wanted = set_of(data);
    struct parity_holding *told;
    uint32_t count;
    bool is = false;
    assert_int_equal(store_list_parity(store, &told, &count), 0);
    for (uint32_t i = 0; i < count; i++)
        is |= parity_part_is_same(&told[i], &wanted) && parity_holding_has(&told[i], LINE);
    free(told);
    return is;
}

/* One set's parity is in the images, and another one's a spare. */
static struct store *begin(void)
{
    const struct parity_holding former = set_of(2), next = set_of(1);
    struct store *store = store_create(parts_keeper, "job", NULL);
    struct belay_error err;
    parts_commit(store, LINE);
    assert_int_equal(store_spare_parity(store, SLOT, parity_of(2, LINE), &err), 0);
    assert_int_equal(store_swap_parity(store, SLOT, RANKS, &err), 0); /* there was none */
    assert_int_equal(store_spare(store, SLOT), -1);
    uint64_t held = store_held_bytes(store);
    assert_int_equal(store_spare_parity(store, SLOT, parity_of(1, LINE), &err), 0);
    assert_true(store_held_bytes(store) > held);
    assert_true(is_told(store, 2) && is_told(store, 1));
    assert_int_equal(store_find_parity(store, &next), store_spare(store, SLOT));
    assert_int_equal(store_find_parity(store, &former), store_image(store, store_parity_part(RANKS, SLOT)));
    return store;
}

static void test_swapped(void **state)
{
    (void)state;
    const struct parity_holding former = set_of(2), next = set_of(1);
    struct belay_error err;
    struct store *store = begin();
    unsigned kept = parts_held();
    assert_int_equal(store_swap_parity(store, SLOT, RANKS, &err), 0);
    assert_true(is_told(store, 2) && is_told(store, 1));
    assert_int_equal(store_find_parity(store, &next), store_image(store, store_parity_part(RANKS, SLOT)));
    assert_int_equal(store_find_parity(store, &former), store_spare(store, SLOT));
    assert_int_equal(parts_held(), kept);
    store_drop_spares(store);
    assert_int_equal(parts_held(), kept - 1);
    assert_true(!is_told(store, 2) && is_told(store, 1));
    assert_int_equal(store_swap_parity(store, SLOT, RANKS, &err), -1);
    assert_int_equal(err.code, ENOENT);
    store_destroy(store, false);
    store = parts_adopt(1u << LINE); /* the agent was killed */
    assert_true(!is_told(store, 2) && is_told(store, 1));
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

static struct store *adopt_again(struct store *store)
{
    store_destroy(store, false);
    store = parts_adopt(1u << LINE);
    assert_int_equal(store_adopt_done(store, NULL), 0);
    return store;
}

/* Also the parity that is not in the images outlives its agent, before and after it changes its place. */
static void test_outlives_the_agent(void **state)
{
    (void)state;
    const struct parity_holding former = set_of(2), next = set_of(1);
    struct belay_error err;
    struct store *store = begin();
    unsigned kept = parts_held();
    for (int i = 0; i < 3; i++) {
        const struct parity_holding *placed = i % 2 ? &next : &former, *other = i % 2 ? &former : &next;
        store = adopt_again(store);
        assert_true(is_told(store, 2) && is_told(store, 1));
        assert_int_equal(store_find_parity(store, placed),
                         store_image(store, store_parity_part(RANKS, SLOT)));
        assert_int_equal(store_find_parity(store, other), store_spare(store, SLOT));
        assert_int_equal(parts_held(), kept);
        assert_int_equal(store_swap_parity(store, SLOT, RANKS, &err), 0);
    }
    parts_commit(store, LINE + 1);
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

/* The agent was killed when the keeper had the former parity under both names, or the new one. */
static void test_killed_amid_the_swap(void **state)
{
    (void)state;
    struct belay_error err;
    for (int i = 0; i < 2; i++) {
        struct store *store = begin();
        char name[KEEPER_NAME_BYTES];
        unsigned kept = parts_held();
        snprintf(name, sizeof name, "job/spare/%u/%u", LINE, 2 * SLOT + 1);
        int fd = dup(i ? store_spare(store, SLOT) : store_image(store, store_parity_part(RANKS, SLOT)));
        assert_int_equal(keeper_put(parts_keeper, name, fd, &err), 0);
        store = adopt_again(store);
        assert_true(is_told(store, 2) && is_told(store, 1));
        assert_int_equal(parts_held(), kept);
        close(fd);
        store_destroy(store, true);
        assert_int_equal(parts_held(), 0);
    }
}

/* What the keeper has under such a name is not believed. */
static void test_spares_that_are_none(void **state)
{
    (void)state;
    struct belay_error err;
    struct store *store = begin();
    unsigned kept = parts_held();
    int fds[] = {parity_of(1, LINE + 1), parity_of(1, LINE), image_make_memfd(&err), parity_of(1, LINE)};
    const char *names[] = {"job/spare/3/4", "job/spare/3/6", "job/spare/3/4294967295", "job/spare/2/3"};
    for (int i = 0; i < 4; i++)
        assert_int_equal(keeper_put(parts_keeper, names[i], fds[i], &err), 0);
    store_destroy(store, false);
    store = parts_adopt(1u << LINE | 1u << (LINE - 1));
    assert_int_equal(store_adopt_done(store, NULL), 0);
    assert_int_equal(parts_held(), kept);
    assert_true(is_told(store, 2) && is_told(store, 1));
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

/* Damaged parity is not kept beside that which takes its place. */
static void test_in_the_place_of_damaged_parity(void **state)
{
    (void)state;
    struct belay_error err;
    struct store *store = begin();
    store_note_damage(store, store_parity_part(RANKS, SLOT));
    assert_int_equal(store_swap_parity(store, SLOT, RANKS, &err), 0);
    assert_true(!is_told(store, 2) && is_told(store, 1));
    assert_int_equal(store_spare(store, SLOT), -1);
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

static void test_gone_with_the_line(void **state)
{
    (void)state;
    struct belay_error err;
    struct store *store = begin();
    assert_int_equal(store_spare_parity(store, SLOT, parity_of(1, LINE + 1), &err), -1);
    assert_int_equal(err.code, EINVAL);
    parts_commit(store, LINE + 1);
    assert_int_equal(store_spare(store, SLOT), -1);
    assert_true(!is_told(store, 1));
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

/* Nobody runs here: parity is all that a node has of a line, and the next agent takes it up. */
static void test_without_ranks(void **state)
{
    (void)state;
    struct commit_entry entry = {.line = LINE};
    struct belay_error err;
    struct store *store = store_create(parts_keeper, "job", NULL);
    const struct store_guest parity = {.rank = store_parity_part(RANKS, SLOT),
                                       .ranks = RANKS,
                                       .here = STORE_NOBODY_HERE,
                                       .fd = parity_of(2, LINE)};
    assert_int_equal(store_stage_guest(store, LINE, &parity, &err), 0);
    assert_int_equal(store_commit(store, &entry, &err), 0);
    store_destroy(store, false);
    store = parts_adopt(1u << LINE);
    assert_true(is_told(store, 2));
    store_destroy(store, true);
    assert_int_equal(parts_held(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_swapped),
        EACH(test_outlives_the_agent),
        EACH(test_killed_amid_the_swap),
        EACH(test_spares_that_are_none),
        EACH(test_in_the_place_of_damaged_parity),
        EACH(test_gone_with_the_line),
        EACH(test_without_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
