/* States: every number has one name that leads back to it, also in what a version without numbers wrote. */
#include "common/wire/states.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_names_of_jobs(void **state)
{
    (void)state;
    static const char *const names[] = {"none",     "starting", "running", "restarting",
                                        "finished", "failed",   "stopped", "lost"};
    for (int i = JOB_STATE_NONE; i <= JOB_STATE_LOST; i++) {
        assert_string_equal(job_state_name((enum job_state)i), names[i]);
        assert_int_equal(job_state_from(0, names[i]), i);
        assert_int_equal(job_state_from(i, ""), i);
        assert_int_equal(job_state_has_ended((enum job_state)i), i >= 4);
    }
}

static void test_names_of_lines(void **state)
{
    (void)state;
    static const char *const names[] = {"none", "running", "captured", "protected", "committed", "aborted"};
    for (int i = LINE_STATE_NONE; i <= LINE_STATE_ABORTED; i++) {
        assert_string_equal(line_state_name((enum line_state)i), names[i]);
        assert_int_equal(line_state_from(0, names[i]), i);
        assert_int_equal(line_state_from(i, ""), i);
    }
}

/* A number counts, whatever name is with it; what is no state is none. */
static void test_strange_messages(void **state)
{
    (void)state;
    assert_int_equal(job_state_from(JOB_STATE_LOST, "running"), JOB_STATE_LOST);
    assert_int_equal(job_state_from(0, ""), JOB_STATE_NONE);
    assert_int_equal(job_state_from(0, "Lost"), JOB_STATE_NONE);
    static const int numbers[] = {INT_MIN, -1, JOB_STATE_LOST + 1, INT_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        assert_int_equal(job_state_from(numbers[i], "lost"), JOB_STATE_NONE);
        assert_string_equal(job_state_name((enum job_state)numbers[i]), "none");
        assert_int_equal(line_state_from(numbers[i], "aborted"), LINE_STATE_NONE);
        assert_string_equal(line_state_name((enum line_state)numbers[i]), "none");
    }
}

/* The table of the .proto file has the same states. */
static void test_wire_has_no_other_states(void **state)
{
    (void)state;
    assert_int_equal(belay__wire__job_state__descriptor.n_values, JOB_STATE_LOST + 1);
    assert_int_equal(belay__wire__line_state__descriptor.n_values, LINE_STATE_ABORTED + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_of_jobs),
        cmocka_unit_test(test_names_of_lines),
        cmocka_unit_test(test_strange_messages),
        cmocka_unit_test(test_wire_has_no_other_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
