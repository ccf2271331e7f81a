/* job_test.c - which states of a job may follow which. */
#include "node-agent/job/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* A row is a state, in the order of enum job_state, a column one that may follow it. */
static void test_transitions(void **state)
{
    (void)state;
    static const char *const expected[] = {
        /*                NSrRFfsl (none, Starting, running, Restarting, Finished, failed, stopped, lost) */
        [JOB_STATE_NONE] = ".x.x...x",     [JOB_STATE_STARTING] = ".xxxxxxx",
        [JOB_STATE_RUNNING] = "...xxxxx",  [JOB_STATE_RESTARTING] = "..xxxxxx",
        [JOB_STATE_FINISHED] = ".x.x....", [JOB_STATE_FAILED] = ".x.x....",
        [JOB_STATE_STOPPED] = ".x.x....",  [JOB_STATE_LOST] = ".x.x....",
    };
    for (int from = JOB_STATE_NONE; from <= JOB_STATE_LOST; from++)
        for (int to = JOB_STATE_NONE; to <= JOB_STATE_LOST; to++)
            if (job_may_become((enum job_state)from, (enum job_state)to) != (expected[from][to] == 'x'))
                fail_msg("from %s to %s", job_state_name((enum job_state)from),
                         job_state_name((enum job_state)to));
}

static void test_becoming(void **state)
{
    (void)state;
    struct job job = {0};
    static const enum job_state life[] = {JOB_STATE_STARTING,   JOB_STATE_RUNNING, JOB_STATE_RESTARTING,
                                          JOB_STATE_RUNNING,    JOB_STATE_LOST,    JOB_STATE_RESTARTING,
                                          JOB_STATE_RESTARTING, JOB_STATE_RUNNING, JOB_STATE_FINISHED};
    for (size_t i = 0; i < sizeof life / sizeof life[0]; i++) {
        job_become(&job, life[i]);
        assert_int_equal(job.state, life[i]);
        assert_int_equal(job_is_running(&job), life[i] < JOB_STATE_FINISHED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transitions),
        cmocka_unit_test(test_becoming),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
