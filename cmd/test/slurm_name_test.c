/* Which words name a job of Slurm's, and which jobs of Belay's belong to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cmd/slurm_name.h"

static void words(void **state)
{
    (void)state;
    assert_true(slurm_name_is_it("7"));
    assert_true(slurm_name_is_it("123456.0"));
    assert_true(slurm_name_is_it("1.12"));
    assert_false(slurm_name_is_it(""));
    assert_false(slurm_name_is_it("7."));
    assert_false(slurm_name_is_it(".7"));
    assert_false(slurm_name_is_it("7.0-heat"));
    assert_false(slurm_name_is_it("7.0.0"));
    assert_false(slurm_name_is_it("7 "));
    assert_false(slurm_name_is_it("$(id)"));
    assert_false(slurm_name_is_it("1234567890123456789012345678901234567890"));
}

static void names(void **state)
{
    (void)state;
    assert_true(slurm_name_has("7", "7.0-heat"));
    assert_true(slurm_name_has("7", "7.12-lmp"));
    assert_true(slurm_name_has("7.0", "7.0-heat"));
    assert_false(slurm_name_has("7", "71.0-heat"));
    assert_false(slurm_name_has("7.1", "7.12-lmp"));
    assert_false(slurm_name_has("7", "7"));
    assert_false(slurm_name_has("7", "heat-7"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(words), cmocka_unit_test(names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
