/* arbiter_cover_test.c - whether another loss is survived: with copies, and with parity. */
#include "coord/arbiter.h"

#include "coord/test/arbiter_fixture.h"

#define LINE 4u

/* What a node tells of XOR over three nodes: its rank's image, the tables of the rank before, its parity. */
struct told {
    struct holding held[RANKS], tables[RANKS];
    struct parity_holding parity;
};

static struct arbiter_event tell(struct told *told, uint32_t node, bool has_parity)
{
    struct arbiter_event event;

    *told = (struct told){.parity = {.lines = {LINE}, .data = 2, .parity = 1, .position = node}};
    told->held[node].image_line = LINE;
    told->tables[(node + RANKS - 1) % RANKS].image_line = LINE;
    for (uint32_t i = 0; i < PARITY_MEMBERS_MAX; i++)
        told->parity.ranks[i] = i < RANKS ? i : EPOCH_NOBODY;
    event = committed(state_of(node, 2, told->held), LINE);
    event.state.tables = told->tables;
    event.state.parities = &told->parity;
    event.state.parity_count = has_parity;
    return event;
}

static void restart_with_parity(struct recorder *recorder, uint32_t without)
{
    struct told told[NODES];

    open_first(recorder, SCHEME_PARITY);
    for (uint32_t node = 0; node < NODES; node++)
        step(recorder, tell(&told[node], node, node != without));
    assert_int_equal(arbiter_record(recorder->arbiter)->epoch, 2);
    assert_int_equal(arbiter_record(recorder->arbiter)->line, LINE);
}

static void whole_parity_covers_any_loss(void **state)
{
    struct recorder *recorder = *state;

    restart_with_parity(recorder, EPOCH_NOBODY);
    assert_true(arbiter_is_covered(recorder->arbiter));
    assert_true(arbiter_is_covered(recorder->arbiter)); /* asking changes nothing */
}

static void a_holder_without_parity_exposes(void **state)
{
    struct recorder *recorder = *state;

    restart_with_parity(recorder, 1);
    assert_false(arbiter_is_covered(recorder->arbiter));
}

/* One node has made parity anew, of a set that no other node has parity of yet, and tells of it first. */
static void parity_of_two_sets_covers_by_the_whole_one(void **state)
{
    struct recorder *recorder = *state;
    struct told told[NODES];

    open_first(recorder, SCHEME_PARITY);
    for (uint32_t node = 0; node < NODES; node++) {
        struct arbiter_event event = tell(&told[node], node, true);
        struct parity_holding both[] = {told[node].parity, told[node].parity};

        both[0].ranks[0] = told[node].parity.ranks[1];
        both[0].ranks[1] = told[node].parity.ranks[0];
        if (node == 0) {
            event.state.parities = both;
            event.state.parity_count = 2;
        }
        step(recorder, event);
    }
    assert_int_equal(arbiter_record(recorder->arbiter)->line, LINE);
    assert_true(arbiter_is_covered(recorder->arbiter));
}

/* Its image is made again; the parity that is left is not enough for another one. */
static void one_loss_exposes(void **state)
{
    struct recorder *recorder = *state;
    struct told told[NODES];

    open_first(recorder, SCHEME_PARITY);
    step(recorder, (struct arbiter_event){.type = ARBITER_EVENT_GONE, .node = 1});
    step(recorder, tell(&told[0], 0, true));
    step(recorder, tell(&told[2], 2, true));
    assert_int_equal(arbiter_record(recorder->arbiter)->epoch, 2);
    assert_int_equal(arbiter_record(recorder->arbiter)->rebuild_count, 1);
    assert_false(arbiter_is_covered(recorder->arbiter));
}

static void copies_cover_as_far_as_they_are_there(void **state)
{
    struct recorder *recorder = *state;
    struct holding held[NODES][RANKS];

    open_first(recorder, SCHEME_PARTNER);
    hold(held, LINE);
    for (uint32_t node = 0; node < NODES; node++)
        step(recorder, committed(state_of(node, 2, held[node]), LINE));
    assert_int_equal(arbiter_record(recorder->arbiter)->line, LINE);
    assert_true(arbiter_is_covered(recorder->arbiter));
    free(recorder->durable);
    recorder->durable = NULL;
    open_first(recorder, SCHEME_PARTNER);
    held[0][2].image_line = 0; /* no copy of rank 2 */
    for (uint32_t node = 0; node < NODES; node++)
        step(recorder, committed(state_of(node, 2, held[node]), LINE));
    assert_false(arbiter_is_covered(recorder->arbiter));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole_parity_covers_any_loss, setup, teardown),
        cmocka_unit_test_setup_teardown(a_holder_without_parity_exposes, setup, teardown),
        cmocka_unit_test_setup_teardown(parity_of_two_sets_covers_by_the_whole_one, setup, teardown),
        cmocka_unit_test_setup_teardown(one_loss_exposes, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_cover_as_far_as_they_are_there, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
