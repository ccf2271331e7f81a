/* redundancy_test.c - what each scheme says of who holds what, and of which loss is survived. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node-agent/redundancy/partner.h"
#include "node-agent/redundancy/single.h"

#define MEMBERS 3u
#define RANKS 4u

static const uint32_t placement[RANKS] = {2, 0, 2, 1};
static uint64_t held_line;
static uint32_t held_rank;

static void on_held(void *context, uint64_t line, uint32_t rank)
{
    (void)context;
    held_line = line;
    held_rank = rank;
}

static uint32_t sent_to = UINT32_MAX;
static bool is_sent_whole;

static void on_send(void *context, uint64_t line, uint32_t rank, uint32_t member, bool is_whole)
{
    on_held(context, line, rank);
    sent_to = member;
    is_sent_whole = is_whole;
}

static const struct redundancy_ops ops = {.held = on_held, .send = on_send};

static int setup(void **state)
{
    const struct redundancy_epoch epoch = {.member_count = MEMBERS, .ranks = RANKS, .placement = placement};
    *state = single_create(&epoch, &ops, NULL);
    return *state ? 0 : -1;
}

static int setup_partner(void **state)
{
    const struct redundancy_epoch epoch = {.member_count = MEMBERS, .ranks = RANKS, .placement = placement};
    *state = partner_create(&epoch, &ops, NULL);
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    redundancy_destroy(*state);
    return 0;
}

static void what_is_staged_is_held_at_once(void **state)
{
    redundancy_protect(*state, 7, 3, false);
    assert_int_equal(held_line, 7);
    assert_int_equal(held_rank, 3);
    assert_int_equal(redundancy_need(*state, 1 << 20), 0);
}

static void each_rank_has_one_holder(void **state)
{
    uint32_t members[MEMBERS];
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(redundancy_holders(*state, rank, members), 1);
        assert_int_equal(members[0], placement[rank]);
    }
}

static void a_loss_takes_the_ranks_of_that_member(void **state)
{
    const bool is_lost[MEMBERS] = {[2] = true};
    struct belay_error err;
    assert_false(redundancy_can_restore(*state, 0, is_lost));
    assert_true(redundancy_can_restore(*state, 1, is_lost));
    assert_false(redundancy_can_restore(*state, 2, is_lost));
    assert_true(redundancy_can_restore(*state, 3, is_lost));
    assert_int_equal(redundancy_rebuild(*state, 0, &err), -1);
    assert_int_equal(err.code, ENODATA);
}

static void the_next_member_gets_a_copy(void **state)
{
    uint32_t members[MEMBERS];
    redundancy_protect(*state, 7, 3, true);
    assert_int_equal(held_line, 7);
    assert_int_equal(held_rank, 3);
    assert_int_equal(sent_to, 2);
    assert_true(is_sent_whole);
    redundancy_protect(*state, 8, 0, false);
    assert_int_equal(sent_to, 0);
    assert_false(is_sent_whole);
    assert_int_equal(redundancy_holders(*state, 1, members), 2);
    assert_int_equal(members[0], 0);
    assert_int_equal(members[1], 1);
}

static void one_loss_is_survived(void **state)
{
    for (uint32_t lost = 0; lost < MEMBERS; lost++) {
        bool is_lost[MEMBERS] = {false};
        is_lost[lost] = true;
        for (uint32_t rank = 0; rank < RANKS; rank++)
            assert_true(redundancy_can_restore(*state, rank, is_lost));
    }
    const bool are_lost[MEMBERS] = {[2] = true, [0] = true};
    assert_false(redundancy_can_restore(*state, 0, are_lost));
    assert_true(redundancy_can_restore(*state, 1, are_lost));
    assert_true(redundancy_can_restore(*state, 3, are_lost));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_staged_is_held_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(each_rank_has_one_holder, setup, teardown),
        cmocka_unit_test_setup_teardown(a_loss_takes_the_ranks_of_that_member, setup, teardown),
        cmocka_unit_test_setup_teardown(the_next_member_gets_a_copy, setup_partner, teardown),
        cmocka_unit_test_setup_teardown(one_loss_is_survived, setup_partner, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
