/* Which control groups are those of a job. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "slurm-plugin/outside.h"

static void groups(void **state)
{
    (void)state;
    assert_true(outside_is_of_job("/slurm/uid_1000/job_7/step_0"));
    assert_true(outside_is_of_job("/slurm_n1/uid_1000/job_7"));
    assert_true(outside_is_of_job("/system.slice/slurmstepd.scope/job_12/step_batch/slurm"));
    assert_true(outside_is_of_job("/job_user/job_3"));
    assert_false(outside_is_of_job("/"));
    assert_false(outside_is_of_job("/belay/uid_1000"));
    assert_false(outside_is_of_job("/system.slice/slurmd.service"));
    assert_false(outside_is_of_job("/home/job_scripts"));
    assert_false(outside_is_of_job("job_7"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(groups)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
