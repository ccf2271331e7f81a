/*
 * test_collective_gate.c - the gate before a collective (docs/line.md): what a rank publishes, and when it
 * goes in.
 */
#include "mpi-layer/upper/collective_gate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define LINE 3

static union {
    struct control control;
    char bytes[sizeof(struct control) + 4 * sizeof(struct control_clock)];
} page;
static struct control *const control = &page.control;

/* Two communicators, with ids 10 and 20, where the rank has entered 5 and 7 collectives. */
static int start(void **state)
{
    (void)state;
    memset(&page, 0, sizeof page);
    control->slots = 3; /* one of them is free */
    control->clocks[0] = (struct control_clock){.comm = 10, .seq = 5};
    control->clocks[2] = (struct control_clock){.comm = 20, .seq = 7};
    return 0;
}

static void order(uint32_t command, uint64_t first_target, uint64_t second_target)
{
    control->command = command;
    control->line = control->targets_line = LINE;
    control->clocks[0].target = first_target;
    control->clocks[0].target_comm = 10;
    control->clocks[2].target = second_target;
    control->clocks[2].target_comm = 20;
}

static bool enters(uint32_t slot)
{
    const struct control_clock *clock = &control->clocks[slot];
    uint64_t seq = clock->seq + 1;
    collective_gate_publish(control, slot, clock->comm, seq);
    assert_int_equal(control->state, CONTROL_STATE_INSIDE);
    assert_int_equal(clock->seq, seq);
    assert_true(control->comm == clock->comm && control->seq == seq);
    bool is_open = collective_gate_is_open(control, slot);
    if (is_open)
        return true;
    collective_gate_take_back(control, slot, clock->comm, seq);
    assert_int_equal(clock->seq, seq - 1); /* it does not count */
    assert_int_equal(control->state, CONTROL_STATE_HELD);
    assert_true(control->comm == clock->comm && control->seq == seq); /* what it would enter */
    return false;
}

static void without_a_line_it_is_open(void **state)
{
    (void)state;
    assert_true(enters(0));
    assert_true(enters(2));
}

static void up_to_the_target(void **state)
{
    (void)state;
    order(CONTROL_CONVERGE, 7, 7);
    assert_true(enters(0));
    assert_true(enters(0));
    assert_false(enters(0));
    assert_false(enters(2));
    assert_int_equal(control->clocks[0].seq, 7);
}

/* Ranks below target elsewhere go on: others may wait for them there. */
static void beyond_it_while_below_elsewhere(void **state)
{
    (void)state;
    order(CONTROL_CONVERGE, 5, 8);
    assert_true(enters(0));
    assert_true(enters(2));
    assert_false(enters(2));
    assert_false(enters(0));
    order(CONTROL_CONVERGE, 6, 9); /* targets grow with what others have entered */
    assert_true(enters(0));        /* below target on the other one */
    assert_true(enters(2));
    assert_false(enters(0));
}

static void targets_of_another_line_hold_all(void **state)
{
    (void)state;
    order(CONTROL_CONVERGE, 9, 9);
    control->targets_line = LINE - 1;
    assert_false(enters(0));
    control->targets_line = LINE;
    assert_true(enters(0));
}

/* A slot is used again: a target for the communicator that had it is none. */
static void a_target_is_of_its_communicator(void **state)
{
    (void)state;
    order(CONTROL_CONVERGE, 9, 7);
    control->clocks[0].comm = 30;
    assert_false(enters(0));
    assert_false(enters(2));
    control->clocks[1] = (struct control_clock){.comm = 0, .seq = 1, .target = 9}; /* nobody's */
    assert_false(enters(2));
}

static void once_stopped_it_is_shut(void **state)
{
    (void)state;
    order(CONTROL_STOP, 9, 9);
    assert_false(enters(0));
}

/* The agent takes nothing for good that it reads while the rank writes. */
static void the_version_is_even_afterwards(void **state)
{
    (void)state;
    uint32_t version = control->version;
    assert_int_equal(version % 2, 0);
    collective_gate_publish(control, 0, 10, 6);
    assert_true(control->version != version && control->version % 2 == 0);
    version = control->version;
    collective_gate_take_back(control, 0, 10, 6);
    assert_true(control->version != version && control->version % 2 == 0);
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_a_line_it_is_open),       TEST(up_to_the_target),
        TEST(beyond_it_while_below_elsewhere), TEST(targets_of_another_line_hold_all),
        TEST(a_target_is_of_its_communicator), TEST(once_stopped_it_is_shut),
        TEST(the_version_is_even_afterwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
