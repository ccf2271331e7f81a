/* domain_file_test.c - files of failure domains: what they say of a job's hosts, and what is refused. */
#include "cmd/domain_file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const names[] = {"a", "b", "c", "d"};
#define NODES 4u

static int read_text(const char *text, struct domains *domains, struct belay_error *err)
{
    char path[] = "/tmp/belay-domains-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    int rc = domain_file_read(path, names, NODES, domains, err);
    unlink(path);
    return rc;
}

static void test_domains(void **state)
{
    const struct parity_code copies = {0}, parity = {.data = 3, .parity = 1}, two = {.data = 2, .parity = 2};
    struct domains domains;
    struct belay_error err;
    (void)state;
    assert_int_equal(
        read_text("# racks\n\nrack1 a x  c # ours\n\track2\tb y\nrack2 d\nrack3 z\nrack1 a", &domains, &err),
        0);
    assert_int_equal(domains.count, 2);
    assert_string_equal(domains.names[domains.of[0]], "rack1");
    assert_string_equal(domains.names[domains.of[1]], "rack2");
    assert_int_equal(domains.of[0], domains.of[2]);
    assert_int_equal(domains.of[1], domains.of[3]);
    assert_int_equal(domains_check(&domains, "FILE", NODES, copies, &err), 0);
    assert_int_equal(domains_check(&domains, "FILE", 3, copies, &err), -1);
    assert_int_equal(err.code, ERANGE);
    assert_string_equal(err.text,
                        "--failure-domains FILE: 2 of the job's 3 nodes are in domain rack1, so that not "
                        "all of them can have their copies in another one");
    assert_int_equal(domains_check(&domains, "FILE", NODES, two, &err), 0);
    assert_int_equal(domains_check(&domains, "FILE", NODES, parity, &err), -1);
    assert_string_equal(err.text,
                        "--failure-domains FILE: 2 of the job's 4 nodes are in domain rack1, more than all "
                        "sets of nodes together may lose");
}

static void test_refused(void **state)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"rack1 a b c", "node d is in no domain"},
        {"rack1 a b c d\nrack2 b", "line 2: b is in another domain already"},
        {"rack1 a b c d\n\nrack2 # none", "line 3: rack2 has no host"},
        {"", "node a is in no domain"},
    };
    struct domains domains;
    struct belay_error err;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(read_text(cases[i].text, &domains, &err), -1);
        assert_int_equal(err.code, EINVAL);
        assert_non_null(strstr(err.text, cases[i].words));
    }
    assert_int_equal(domain_file_read("/nowhere/domains", names, NODES, &domains, &err), -1);
    assert_int_equal(err.code, ENOENT);
    assert_int_equal(domain_file_read("/tmp", names, NODES, &domains, &err), -1);
    assert_int_equal(err.code, EISDIR);
}

static void test_long_name(void **state)
{
    char text[DOMAIN_NAME_BYTES + 8];
    struct domains domains;
    struct belay_error err;
    (void)state;
    memset(text, 'r', DOMAIN_NAME_BYTES);
    strcpy(text + DOMAIN_NAME_BYTES, " a");
    assert_int_equal(read_text(text, &domains, &err), -1);
    assert_non_null(strstr(err.text, "is too long for the name of a domain"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_domains),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_long_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
