/* srun lines: which words are options, what is refused, and the lines that are made of the user's. */
#include "cmd/srun_line.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/launch_line.h"
#include "cmd/srun_words.h"
#include "cmd/string_list.h"

#define WORDS_MAX 32

/* Cut a text at its blanks; the words stay in `text`. */
static void split(char *text, char *words[WORDS_MAX])
{
    size_t count = 0;
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        words[count++] = word;
    words[count] = NULL;
}

/* The list, joined and freed, is this. */
static void expect(char **list, const char *expected)
{
    char text[2048] = "";
    size_t used = 0;
    assert_non_null(list);
    for (size_t i = 0; list[i]; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", list[i]);
    string_list_free(list);
    assert_string_equal(text, expected);
}

static const char *program_of(const char *line)
{
    static char text[1024];
    char *argv[WORDS_MAX];
    snprintf(text, sizeof text, "%s", line);
    split(text, argv);
    return argv[srun_words_program(argv)];
}

static void test_where_the_program_is(void **state)
{
    (void)state;
    assert_string_equal(program_of("srun ./app -n 3"), "./app");
    assert_string_equal(program_of("srun -n 4 -N2 ./app"), "./app");
    assert_string_equal(program_of("srun -lun4 --mpi pmix --nodes=2 ./app -x"), "./app");
    assert_string_equal(program_of("srun -K -I10 -J name --kill-on-bad-exit=1 --exclusive ./app"), "./app");
    assert_string_equal(program_of("srun --ntasks-per-n 2 ./app"), "./app");
    assert_string_equal(program_of("srun -n 4 -- ./app"), "./app");
    assert_string_equal(program_of("srun --nonsense ./app"), "--nonsense");
    assert_null(program_of("srun -n 4"));
    assert_string_equal(program_of("srun -n"), "-n"); /* its value is missing */
}

static void expect_judged(const char *line, const char *environment, const char *refused)
{
    char text[1024], own[1024];
    char *argv[WORDS_MAX], *variables[WORDS_MAX];
    struct belay_error err = {0};
    snprintf(text, sizeof text, "%s", line);
    snprintf(own, sizeof own, "%s", environment);
    split(text, argv);
    split(own, variables);
    int rc = srun_line_check(argv, variables, &err);
    if (!refused) {
        assert_int_equal(rc, 0);
        return;
    }
    assert_int_equal(rc, -1);
    if (!strstr(err.text, refused))
        fail_msg("%s: \"%s\" has no \"%s\"", line, err.text, refused);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    expect_judged("srun -n 4 ./app", "SLURM_JOB_ID=1", NULL);
    expect_judged("srun --mpi=pmix_v4 --export=ALL,A=b ./app", "SLURM_JOB_ID=1", NULL);
    expect_judged("srun -n 4 ./app", "A=b", "allocation");
    expect_judged("srun --mpi=pmi2 ./app", "SLURM_JOB_ID=1", "--mpi=pmi2");
    expect_judged("srun ./app", "SLURM_JOB_ID=1 SLURM_MPI_TYPE=none", "--mpi=none");
    expect_judged("srun --mpi=pmix ./app", "SLURM_JOB_ID=1 SLURM_MPI_TYPE=none", NULL);
    expect_judged("srun --multi-prog file", "SLURM_JOB_ID=1", "--multi-prog");
    expect_judged("srun --multi file", "SLURM_JOB_ID=1", "--multi-prog");
    expect_judged("srun --pty ./app", "SLURM_JOB_ID=1", "--pty");
    expect_judged("srun -Z ./app", "SLURM_JOB_ID=1", "--no-allocate");
    expect_judged("srun --nonsense ./app", "SLURM_JOB_ID=1", "--nonsense");
    expect_judged("srun -n2 ./a : -n2 ./b", "SLURM_JOB_ID=1", "heterogeneous");
    expect_judged("srun ./a", "SLURM_JOB_ID=1 SLURM_HET_SIZE=2", "heterogeneous");
    expect_judged("srun --export=NONE ./a", "SLURM_JOB_ID=1", "--export=NONE");
    expect_judged("srun --export=A,B ./a", "SLURM_JOB_ID=1", "--export=A,B");
    expect_judged("srun --export=ALL,LD_PRELOAD=x ./a", "SLURM_JOB_ID=1", "LD_PRELOAD");
    expect_judged("srun ./a", "SLURM_JOB_ID=1 SLURM_EXPORT_ENV=NONE", "SLURM_EXPORT_ENV=NONE");
    expect_judged("srun --export=ALL ./a", "SLURM_JOB_ID=1 SLURM_EXPORT_ENV=NONE", NULL);
}

#define OWN "--overlap --mpi=none --export=ALL --job-name=belay"

static void test_other_lines(void **state)
{
    (void)state;
    char text[] = "srun -N2 -n 3 -c2 -l -o out --mpi=pmix -w a,b --export=ALL,X=y ./app -n 9";
    char *argv[WORDS_MAX], *words[] = {"/relay", "where", NULL}, *hosts[] = {"b", "a", "b"};
    char *variables[] = {"SLURM_JOB_NUM_NODES=5", NULL};
    split(text, argv);
    expect(srun_line_where(argv, words), "srun --nodes=2 --ntasks=3 --cpus-per-task=2 --mpi=pmix "
                                         "--nodelist=a,b --export=ALL /relay where pmix");
    expect(srun_line_spread(argv, variables, words),
           "srun " OWN " --nodes=5 --ntasks=5 --ntasks-per-node=1 /relay where");
    expect(srun_line_start(argv, "b", words),
           "srun " OWN " --nodes=1 --ntasks=1 --cpus-per-task=1 --nodelist=b /relay where");
    expect(srun_line_place(argv, hosts, 3),
           "srun --cpus-per-task=2 --label --output=out --mpi=pmix --export=ALL,X=y --distribution=arbitrary "
           "--overcommit --overlap --nodes=2 --ntasks=3 --nodelist=b,a,b ./app -n 9");
    expect(srun_line_build(argv, "/l/libbelay.so", "/own.so"),
           "srun --nodes=2 --ntasks=3 --cpus-per-task=2 --label --output=out --mpi=pmix --nodelist=a,b "
           "--export=ALL,X=y,LD_PRELOAD=/l/libbelay.so:/own.so ./app -n 9");
}

static void test_streams(void **state)
{
    (void)state;
    char *const plain[] = {"srun", "-n", "4", "./a", "-l", NULL};
    char *const labelled[] = {"srun", "-l", "./a", NULL};
    char *const to_file[] = {"srun", "-oout", "./a", NULL};
    char *const to_first[] = {"srun", "--input=0", "./a", NULL};
    assert_true(launch_line_leaves_output(plain));
    assert_false(launch_line_leaves_output(labelled));
    assert_false(launch_line_leaves_output(to_file));
    assert_false(launch_line_leaves_input(plain)); /* all tasks get it */
    assert_true(launch_line_leaves_input(to_first));
}

static void test_environment_after_a_loss(void **state)
{
    (void)state;
    struct launch_variables variables = {
        .preload = "/l.so", .name = "j", .rundir = "/r", .epoch = 2, .nodes = "a,c", .node_count = 2};
    char *const argv[] = {"srun", "./a", NULL};
    char *environment[] = {
        "A=b",          "LD_PRELOAD=/own.so", "SLURM_JOB_NODELIST=n[1-3]", "SLURM_NNODES=3",
        "BELAY_NAME=x", "SLURM_JOB_ID=7",     "SLURM_HOSTFILE=f",          NULL};
    expect(launch_environment_build(argv, environment, &variables),
           "A=b LD_PRELOAD=/own.so SLURM_JOB_ID=7 BELAY_NAME=j BELAY_RUNDIR=/r BELAY_EPOCH=2 "
           "SLURM_JOB_NUM_NODES=2 SLURM_JOB_NODELIST=a,c SLURM_TASKS_PER_NODE=1(x2) SLURM_NNODES=2 "
           "SLURM_NODELIST=a,c SLURM_JOB_CPUS_PER_NODE=1(x2)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_where_the_program_is),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_other_lines),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_environment_after_a_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
