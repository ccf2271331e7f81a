/* test_errand.c - programs that a rank starts: what they have, what is heard of them, and how they fail. */
#include "mpi-layer/lower/errand.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SOON_MS 10000

static char text[256];

/* An arbiter that is this shell script, in the background as a real one is. */
static int start(struct errand *errand, const char *script, struct belay_error *err)
{
    char words[1024];
    snprintf(words, sizeof words, "( %s ) &", script);
    char *const argv[] = {(char *)"/bin/sh", (char *)"-c", words, NULL};
    *errand = (struct errand){.out = -1};
    return errand_start_arbiter(errand, argv, err);
}

static void test_texts_one_by_one(void **state)
{
    struct errand errand;
    struct belay_error err;
    (void)state;
    assert_int_equal(start(&errand, "printf 'one\\ntwo\\n\\nthree\\n\\n\\n\\n'; sleep 0.1", &err), 0);
    assert_int_equal(errand_hear(&errand, text, sizeof text, SOON_MS, &err), 0);
    assert_string_equal(text, "one\ntwo");
    assert_int_equal(errand_hear(&errand, text, sizeof text, SOON_MS, &err), 0);
    assert_string_equal(text, "three");
    assert_int_equal(errand_hear(&errand, text, sizeof text, SOON_MS, &err), -1);
    assert_int_equal(err.code, ECANCELED);
    assert_string_equal(err.text, "");
    errand_end(&errand);
}

static void test_text_that_is_cut_short(void **state)
{
    struct errand errand;
    struct belay_error err;
    (void)state;
    assert_int_equal(start(&errand, "printf 'one\\ntwo\\n'", &err), 0);
    assert_int_equal(errand_hear(&errand, text, sizeof text, SOON_MS, &err), -1);
    assert_int_equal(err.code, ECONNRESET);
    errand_end(&errand);
}

static void test_text_that_is_too_long(void **state)
{
    struct errand errand;
    struct belay_error err;
    (void)state;
    assert_int_equal(start(&errand, "head -c 1000 /dev/zero; printf '\\n\\n'", &err), 0);
    assert_int_equal(errand_hear(&errand, text, sizeof text, SOON_MS, &err), -1);
    assert_int_equal(err.code, ETIMEDOUT);
    errand_end(&errand);
}

static void test_silence(void **state)
{
    struct errand errand;
    struct belay_error err;
    (void)state;
    assert_int_equal(start(&errand, "exec sleep 1", &err), 0);
    assert_int_equal(errand_hear(&errand, text, sizeof text, 50, &err), -1);
    assert_int_equal(err.code, ETIMEDOUT);
    errand_end(&errand);
}

/* Descriptors 0 to 3 and none of ours, a session of its own, no blocked or ignored signal. */
static void test_what_an_arbiter_has(void **state)
{
    struct errand errand;
    struct belay_error err;
    sigset_t blocked, before;
    char expected[64];
    (void)state;
    sigfillset(&blocked);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    signal(SIGUSR1, SIG_IGN);
    assert_int_equal(dup2(STDERR_FILENO, 50), 50); /* not to be inherited */
    int rc = start(&errand,
                   "for fd in 0 1 2 3 50; do [ ! -e /proc/self/fd/$fd ] || printf '%s ' $fd; done; "
                   "readlink /proc/self/fd/3; grep -E '^Sig(Blk|Ign)' /proc/self/status | tr -d '\\t'; "
                   "ps -o sid= -p $$ | tr -d ' '; echo",
                   &err);
    signal(SIGUSR1, SIG_DFL);
    close(50);
    sigprocmask(SIG_SETMASK, &before, NULL);
    assert_int_equal(rc, 0);
    assert_int_equal(errand_hear(&errand, text, sizeof text, SOON_MS, &err), 0);
    snprintf(expected, sizeof expected, "\n%d", (int)getsid(0));
    assert_null(strstr(text, expected));
    assert_non_null(strstr(text, "0 1 2 3 anon_inode:[pidfd]\nSigBlk:0000000000000000\nSigIgn:"));
    assert_null(strstr(text, "SigIgn:0000000000000200"));
    errand_end(&errand);
}

static void test_relay_reads_its_input(void **state)
{
    struct belay_error err;
    static const uint8_t input[] = "key";
    char *const reads[] = {(char *)"/bin/sh", (char *)"-c", (char *)"[ \"$(cat)\" = key ]", NULL};
    char *const fails[] = {(char *)"/bin/sh", (char *)"-c", (char *)"exit 3", NULL};
    char *const is_none[] = {(char *)"/no/such/relay", NULL};
    (void)state;
    assert_int_equal(errand_run_relay(reads, input, 3, &err), 0);
    assert_int_equal(errand_run_relay(fails, input, 3, &err), -1);
    assert_int_equal(err.code, ECANCELED);
    assert_int_equal(errand_run_relay(is_none, input, 3, &err), -1);
    assert_non_null(strstr(err.text, "/no/such/relay"));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* none is left as a child */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_one_by_one),      cmocka_unit_test(test_text_that_is_cut_short),
        cmocka_unit_test(test_text_that_is_too_long), cmocka_unit_test(test_silence),
        cmocka_unit_test(test_what_an_arbiter_has),   cmocka_unit_test(test_relay_reads_its_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
