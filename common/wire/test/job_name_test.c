/* Names of jobs: which are taken, and that one can be made of any text. */
#include "common/wire/job_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_job_names(void **state)
{
    (void)state;
    static const char *const good[] = {"heat", "heat-1", "a.b_c", "1", "X", "_a"};
    static const char *const bad[] = {"", ".", "..", "-a", ".a", "a/b", "a b", "a\n", "\xc3\xa4"};
    char name[JOB_NAME_BYTES + 1];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(job_name_check(good[i], NULL), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (job_name_check(bad[i], NULL) == 0)
            fail_msg("'%s' was taken as a job's name", bad[i]);
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(job_name_check(name, NULL), -1);
    name[JOB_NAME_BYTES - 1] = '\0';
    assert_int_equal(job_name_check(name, NULL), 0);
}

static void test_making(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"heat", "heat"}, {"a b/c", "a_b_c"}, {".x", "_x"},
                                           {"-n", "_n"},     {"x-1.2", "x-1.2"}, {"", "job"}};
    char name[JOB_NAME_BYTES], with_number[JOB_NAME_BYTES], text[200];
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        job_name_make(pairs[i][0], name);
        assert_string_equal(name, pairs[i][1]);
    }
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    job_name_make(text, name);
    assert_true(snprintf(with_number, sizeof with_number, "%s-%u", name, UINT32_MAX) < JOB_NAME_BYTES);
    assert_true(job_name_is_valid(with_number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job_names),
        cmocka_unit_test(test_making),
    };
    return cmocka_run_group_tests_name("job_name", tests, NULL, NULL);
}
