/* Which control groups are those of a job. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/util/job_group.h"

static void groups(void **state)
{
    (void)state;
    assert_true(job_group_is_it("/slurm/uid_1000/job_7/step_0"));
    assert_true(job_group_is_it("/slurm_n1/uid_1000/job_7"));
    assert_true(job_group_is_it("/system.slice/slurmstepd.scope/job_12/step_batch/slurm"));
    assert_true(job_group_is_it("/job_user/job_3"));
    assert_false(job_group_is_it("/"));
    assert_false(job_group_is_it("/belay/uid_1000"));
    assert_false(job_group_is_it("/system.slice/slurmd.service"));
    assert_false(job_group_is_it("/home/job_scripts"));
    assert_false(job_group_is_it("job_7"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(groups)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
