/* Options: what the shared parser takes, what it refuses, and that a refusal is one line that names the word.
 */
#include "cmd/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const struct argp_option rows[] = {OPTION_JSON, {"name", 'n', "JOB", 0, NULL, 0}, {0}};
static const struct argp with_job = {.options = rows, .parser = tool_options_parser, .args_doc = "[JOB]"};
static const struct argp without_job = {.options = rows, .parser = tool_options_parser};

/* Parse a line; what goes to stderr is caught in `said`. */
static int parse(const struct argp *argp, char *argv[], bool needs_job, struct tool_options *options,
                 char said[1024])
{
    int argc = 0, pipe_fds[2], saved = dup(STDERR_FILENO);
    while (argv[argc])
        argc++;
    assert_int_equal(pipe(pipe_fds), 0);
    dup2(pipe_fds[1], STDERR_FILENO);
    close(pipe_fds[1]);
    int rc = tool_options_parse(argp, argc, argv, needs_job, options);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    ssize_t got = read(pipe_fds[0], said, 1023);
    close(pipe_fds[0]);
    said[got > 0 ? got : 0] = '\0';
    return rc;
}

static void expect_refused(const struct argp *argp, char *argv[], bool needs_job, const char *part)
{
    struct tool_options options;
    char said[1024];
    assert_int_equal(parse(argp, argv, needs_job, &options, said), -1);
    if (strncmp(said, "belay: ", 7) || !strstr(said, part))
        fail_msg("expected 'belay: ... %s ...', got: %s", part, said);
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
}

static void test_accepted(void **state)
{
    (void)state;
    struct tool_options options;
    char said[1024];
    assert_int_equal(parse(&with_job, (char *[]){"status", NULL}, false, &options, said), 0);
    assert_null(options.job);
    assert_false(options.is_json);
    assert_int_equal(parse(&with_job, (char *[]){"status", "heat", "--json", NULL}, true, &options, said), 0);
    assert_string_equal(options.job, "heat");
    assert_true(options.is_json);
    assert_int_equal(
        parse(&with_job, (char *[]){"status", "--json", "--", "heat", NULL}, true, &options, said), 0);
    assert_string_equal(options.job, "heat");
    assert_string_equal(said, "");
}

static void test_refused(void **state)
{
    (void)state;
    expect_refused(&with_job, (char *[]){"status", "--jso=n", NULL}, false, "'--jso=n'");
    expect_refused(&with_job, (char *[]){"status", "--wrong", NULL}, false, "'--wrong' is not an option");
    expect_refused(&with_job, (char *[]){"status", "--json=yes", NULL}, false, "'--json=yes' takes no value");
    expect_refused(&with_job, (char *[]){"status", "--name", NULL}, false, "'--name' needs a value");
    expect_refused(&with_job, (char *[]){"status", "-q", NULL}, false, "'-q' is not an option (");
    expect_refused(&with_job, (char *[]){"status", "a", "b", NULL}, false, "'b' was not expected");
    expect_refused(&without_job, (char *[]){"list", "a", NULL}, false, "'a' was not expected");
    expect_refused(&with_job, (char *[]){"stop", NULL}, true, "which job?");
    expect_refused(&with_job, (char *[]){"status", "../x", NULL}, true, "cannot be a job's name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
