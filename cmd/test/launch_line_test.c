/* Launch lines: where -x goes, MPMD, a user's own LD_PRELOAD, and launchers that are not mpirun. */
#include "cmd/launch_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/string_list.h"

#define WORDS_MAX 32
#define OURS "-x LD_PRELOAD=/l/libbelay.so -x BELAY_NAME=j -x BELAY_RUNDIR=/r -x BELAY_EPOCH=7"
#define OURS_AND(own)                                                                                        \
    "-x LD_PRELOAD=/l/libbelay.so:" own " -x BELAY_NAME=j -x BELAY_RUNDIR=/r -x BELAY_EPOCH=7"

static const struct launch_variables variables = {
    .preload = "/l/libbelay.so",
    .name = "j",
    .rundir = "/r",
    .epoch = 7,
};

/* Cut a text at its blanks; the words stay in `text`. */
static void split(char *text, char *words[WORDS_MAX])
{
    size_t count = 0;
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        words[count++] = word;
    words[count] = NULL;
}

static void join(char *const words[], char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (; *words; words++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? " " : "", *words);
}

static void expect_line(const char *line, const char *environment, const char *expected)
{
    char line_text[1024], environment_text[1024], result[4096];
    char *argv[WORDS_MAX], *variables_of_user[WORDS_MAX];
    snprintf(line_text, sizeof line_text, "%s", line);
    snprintf(environment_text, sizeof environment_text, "%s", environment);
    split(line_text, argv);
    split(environment_text, variables_of_user);
    char **built = launch_line_build(argv, variables_of_user, &variables);
    assert_non_null(built);
    join(built, result, sizeof result);
    assert_string_equal(result, expected);
    string_list_free(built);
}

static void test_which_launchers_take_x(void **state)
{
    (void)state;
    assert_true(launch_line_is_mpirun("mpirun"));
    assert_true(launch_line_is_mpirun("/usr/bin/mpiexec"));
    assert_true(launch_line_is_mpirun("orterun"));
    assert_true(launch_line_is_mpirun("./prun"));
    assert_false(launch_line_is_mpirun("srun"));
    assert_false(launch_line_is_mpirun("mpirun.sh"));
    assert_false(launch_line_is_mpirun("/opt/mpirun/job"));
}

static void test_one_context(void **state)
{
    (void)state;
    expect_line("mpirun -n 4 ./app a", "", "mpirun " OURS " -n 4 ./app a");
    expect_line("/usr/bin/mpirun ./app", "HOME=/h", "/usr/bin/mpirun " OURS " ./app");
    expect_line("mpirun", "", "mpirun " OURS);
}

static void test_each_context_of_mpmd(void **state)
{
    (void)state;
    expect_line("mpirun -n 1 ./a : -n 2 ./b x : ./c", "",
                "mpirun " OURS " -n 1 ./a : " OURS " -n 2 ./b x : " OURS " ./c");
}

static void test_own_preload_option_is_merged(void **state)
{
    (void)state;
    expect_line("mpirun -x LD_PRELOAD=/u.so -n 1 ./a", "", "mpirun " OURS_AND("/u.so") " -n 1 ./a");
    expect_line("mpirun -mca btl self -x LD_PRELOAD=/u.so:/v.so ./a", "",
                "mpirun " OURS_AND("/u.so:/v.so") " -mca btl self ./a");
    expect_line("mpirun --x LD_PRELOAD -n 1 ./a", "LD_PRELOAD=/e.so",
                "mpirun " OURS_AND("/e.so") " -n 1 ./a");
    expect_line("mpirun -x LD_PRELOAD= ./a", "LD_PRELOAD=/e.so", "mpirun " OURS " ./a");
    expect_line("mpirun -x LD_PRELOADS=1 ./a", "", "mpirun " OURS " -x LD_PRELOADS=1 ./a");
    expect_line("mpirun -n 1 ./a : -x LD_PRELOAD=/u.so ./b", "",
                "mpirun " OURS " -n 1 ./a : " OURS_AND("/u.so") " ./b");
}

static void test_preload_of_the_environment_comes_second(void **state)
{
    (void)state;
    expect_line("mpirun ./a", "LD_PRELOAD=/e.so", "mpirun " OURS_AND("/e.so") " ./a");
    expect_line("mpirun ./a", "LD_PRELOAD=", "mpirun " OURS " ./a");
}

static void test_words_of_the_program_are_left_alone(void **state)
{
    (void)state;
    expect_line("mpirun -n 1 ./a -x LD_PRELOAD=/u.so", "", "mpirun " OURS " -n 1 ./a -x LD_PRELOAD=/u.so");
    expect_line("mpirun -mca a b ./a -x LD_PRELOAD", "", "mpirun " OURS " -mca a b ./a -x LD_PRELOAD");
    expect_line("mpirun -wdir -x ./a", "", "mpirun " OURS " -wdir -x ./a");
}

static void test_truncated_options(void **state)
{
    (void)state;
    expect_line("mpirun -n", "", "mpirun " OURS " -n");
    expect_line("mpirun -mca a", "", "mpirun " OURS " -mca a");
    expect_line("mpirun -x", "", "mpirun " OURS " -x");
    expect_line("mpirun ./a :", "", "mpirun " OURS " ./a : " OURS);
}

static void test_faults_and_log_level_are_passed_on(void **state)
{
    (void)state;
    expect_line("mpirun ./a", "BELAY_LOG=debug BELAY_FAULT=x=kill BELAY_LATE_MPI=julia BELAY_OTHER=1",
                "mpirun " OURS " -x BELAY_FAULT=x=kill -x BELAY_LATE_MPI=julia -x BELAY_LOG=debug ./a");
}

static void test_other_launchers_keep_their_line(void **state)
{
    (void)state;
    expect_line("./script -n 4 ./app", "LD_PRELOAD=/e.so", "./script -n 4 ./app");
}

static void expect_environment(const char *line, char *const environment[], const char *expected)
{
    char line_text[1024], text[1024], *argv[WORDS_MAX];
    snprintf(line_text, sizeof line_text, "%s", line);
    split(line_text, argv);
    char **built = launch_environment_build(argv, environment, &variables);
    assert_non_null(built);
    join(built, text, sizeof text);
    assert_string_equal(text, expected);
    string_list_free(built);
}

static void test_environment(void **state)
{
    (void)state;
    char *environment[] = {"A=1", "LD_PRELOAD=/e.so", "BELAY_EPOCH=3", "BELAY_NAME=old", "B=2", NULL};
    static const char unchanged[] = "A=1 LD_PRELOAD=/e.so BELAY_EPOCH=3 BELAY_NAME=old B=2";
    static const char ours[] =
        "A=1 B=2 LD_PRELOAD=/l/libbelay.so:/e.so BELAY_NAME=j BELAY_RUNDIR=/r BELAY_EPOCH=7";
    expect_environment("./script ./a", environment, ours);
    expect_environment("mpirun -n 2 ./a --app file", environment, unchanged);
    expect_environment("mpirun -wdir --app ./a", environment, unchanged);
    expect_environment("mpirun -mca a b --app file", environment, ours);
    expect_environment("mpirun -app file", environment, ours);
}

static void test_programs(void **state)
{
    (void)state;
    char *argv[] = {"mpirun", "-n", "1",  "-mca", "a", "b",   "./a", "-n",
                    "x",      ":",  "-n", "2",    ":", "./b", NULL};
    size_t at = 1;
    assert_string_equal(launch_line_program(argv, &at), "./a");
    assert_null(launch_line_program(argv, &at));
    assert_string_equal(launch_line_program(argv, &at), "./b");
    assert_null(argv[at]);
    char *truncated[] = {"mpirun", "-mca", "a", NULL};
    at = 1;
    assert_null(launch_line_program(truncated, &at));
    assert_null(truncated[at]);
}

static void test_streams_are_left(void **state)
{
    (void)state;
    char *plain[] = {"mpirun", "-n", "4", "./app", "--tag-output", NULL};
    char *tagged[] = {"/usr/bin/mpirun", "-n", "4", "--tag-output", "./app", NULL};
    char *second[] = {"mpirun", "-n", "1", "./a", ":", "-n", "1", "-output-filename", "x", "./b", NULL};
    char *script[] = {"./launch.sh", NULL};
    assert_true(launch_line_leaves_output(plain));
    assert_false(launch_line_leaves_output(tagged));
    assert_false(launch_line_leaves_output(second));
    assert_false(launch_line_leaves_output(script));
    char *directed[] = {"mpirun", "-stdin", "all", "-n", "2", "./app", NULL};
    assert_true(launch_line_leaves_input(tagged));
    assert_false(launch_line_leaves_input(directed));
    assert_false(launch_line_leaves_input(script));
}

static void test_name(void **state)
{
    (void)state;
    static char *const lines[][12] = {
        {"mpirun", "-x", "A=b", "--mca", "a", "b", "-n", "4", "/usr/bin/heat", "--steps", NULL},
        {"/usr/bin/mpiexec", "--map-by", "core", "heat", ":", "-n", "1", "other", NULL},
        {"srun", "-n", "4", "--mpi=pmix", "./heat", "-n", "3", NULL},
        {"./heat", NULL},
        {"mpirun", "-n", "4", "--stdin", "all", "heat", NULL},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        assert_string_equal(launch_line_name(lines[i]), "heat");
    assert_string_equal(launch_line_name((char *[]){"mpirun", "-n", NULL}), "mpirun");
    assert_string_equal(launch_line_name((char *[]){"srun", "-n", NULL}), "srun");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_launchers_take_x),
        cmocka_unit_test(test_one_context),
        cmocka_unit_test(test_each_context_of_mpmd),
        cmocka_unit_test(test_own_preload_option_is_merged),
        cmocka_unit_test(test_preload_of_the_environment_comes_second),
        cmocka_unit_test(test_words_of_the_program_are_left_alone),
        cmocka_unit_test(test_truncated_options),
        cmocka_unit_test(test_faults_and_log_level_are_passed_on),
        cmocka_unit_test(test_other_launchers_keep_their_line),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_streams_are_left),
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_name),
    };
    return cmocka_run_group_tests_name("launch_line", tests, NULL, NULL);
}
