/* mpirun lines for several hosts: which lines are wide, and what becomes of a user's options. */
#include "cmd/host_line.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/string_list.h"

#define WORDS_MAX 40

/* Cut a text at its blanks; the words stay in `text`. */
static void split(char *text, char *words[WORDS_MAX])
{
    size_t count = 0;
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        words[count++] = word;
    words[count] = NULL;
}

static bool is_wide(const char *line, const char *environment)
{
    char line_text[1024], environment_text[1024];
    char *argv[WORDS_MAX], *variables[WORDS_MAX];
    snprintf(line_text, sizeof line_text, "%s", line);
    snprintf(environment_text, sizeof environment_text, "%s", environment);
    split(line_text, argv);
    split(environment_text, variables);
    return host_line_is_wide(argv, variables, "here");
}

static void test_which_lines_are_wide(void **state)
{
    (void)state;
    assert_true(is_wide("mpirun --host a,b ./app", ""));
    assert_true(is_wide("mpirun -H here:2,b:2 ./app", ""));
    assert_true(is_wide("mpirun -n 4 -hostfile hosts ./app", ""));
    assert_true(is_wide("mpirun -n 1 ./one : -n 1 -host b ./two", ""));
    assert_true(is_wide("mpirun -n 4 ./app", "SLURM_JOB_NUM_NODES=2"));
    assert_true(is_wide("mpirun -n 4 ./app", "OMPI_MCA_orte_default_hostfile=/h"));
    assert_false(is_wide("mpirun -n 4 ./app --host b", ""));
    assert_false(is_wide("mpirun --host localhost:4,here:2,127.0.0.1 ./app", ""));
    assert_false(is_wide("mpirun -n 4 ./app", "SLURM_JOB_NUM_NODES=1"));
    assert_false(is_wide("./script --host b", ""));
}

static void expect(char **built, const char *expected)
{
    char text[2048] = "";
    assert_non_null(built);
    for (size_t i = 0, used = 0; built[i]; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", built[i]);
    assert_string_equal(text, expected);
    string_list_free(built);
}

static void test_where(void **state)
{
    static char *const words[] = {"relay", "where", NULL};
    char line[] =
        "mpirun --tag-output --mca plm rsh -x A=b -n 2 --host a,b ./app x : -n 1 -stdin all ./other";
    char *argv[WORDS_MAX];
    (void)state;
    split(line, argv);
    expect(host_line_where(argv, words),
           "mpirun --mca plm rsh -n 2 --host a,b relay where : -n 1 relay where");
}

static void test_spread(void **state)
{
    static char *const words[] = {"relay", "where", NULL};
    char line[] = "mpirun -n 4 --mca plm rsh --bind-to core -x A --host a:2,b:2,c:2 ./app -n 8";
    char many[] = "mpirun -n 2 --hostfile h ./app : -n 1 ./other";
    char *argv[WORDS_MAX];
    (void)state;
    split(line, argv);
    expect(host_line_spread(argv, words),
           "mpirun --mca plm rsh --host a:2,b:2,c:2 --map-by ppr:1:node relay where");
    split(many, argv);
    assert_null(host_line_spread(argv, words));
    assert_int_equal(errno, EINVAL);
}

static void test_start(void **state)
{
    static char *const words[] = {"relay", "host", "1", NULL};
    char line[] =
        "/opt/mpirun -n 8 --map-by node --prefix /p --mca plm rsh --hostfile h -x A ./app x : -n 1 ./other";
    char *argv[WORDS_MAX];
    (void)state;
    split(line, argv);
    expect(host_line_start(argv, "b", words),
           "/opt/mpirun --prefix /p --mca plm rsh --hostfile h -n 1 --host b relay host 1");
}

static void test_place(void **state)
{
    static char *const hosts[] = {"a", "c", "a"};
    char line[] = "mpirun --mca plm rsh --host a:2,b -npernode 2 -x A=b ./app -n x";
    char *argv[WORDS_MAX];
    (void)state;
    split(line, argv);
    expect(host_line_place(argv, hosts, 3),
           "mpirun --map-by seq --mca plm rsh -x A=b -n 3 --host a,c,a ./app -n x");
}

static void test_place_contexts(void **state)
{
    static char *const hosts[] = {"a", "c", "a"};
    char line[] = "mpirun -n 2 --host a,b ./one : -np 1 -x B ./two y", vague[] = "mpirun -n 2 ./one : ./two",
         many[] = "mpirun -n 2 ./one : -n 2 ./two";
    char *argv[WORDS_MAX];
    (void)state;
    split(line, argv);
    expect(host_line_place(argv, hosts, 3),
           "mpirun --map-by seq -n 2 --host a,c ./one : -x B -n 1 --host a ./two y");
    split(vague, argv);
    assert_null(host_line_place(argv, hosts, 3));
    assert_int_equal(errno, EINVAL);
    split(many, argv);
    assert_null(host_line_place(argv, hosts, 3));
    assert_int_equal(errno, EINVAL);
}

static void test_names(void **state)
{
    char line[] = "mpirun --host a:2,b ./app : -hostfile h ./other", plain[] = "mpirun ./app", names[32],
         few[4];
    char *argv[WORDS_MAX];
    (void)state;
    split(line, argv);
    host_line_names(argv, names, sizeof names);
    assert_string_equal(names, "a:2,b,h");
    host_line_names(argv, few, sizeof few);
    assert_string_equal(few, "a:2");
    split(plain, argv);
    host_line_names(argv, names, sizeof names);
    assert_string_equal(names, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_lines_are_wide),
        cmocka_unit_test(test_where),
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_place),
        cmocka_unit_test(test_place_contexts),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
