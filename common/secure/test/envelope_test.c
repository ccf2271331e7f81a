/* envelope_test.c - a secret arrives at the process that it is sealed for, whole or not at all. */
#include "common/secure/envelope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char plain[] = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
                            "202122232425262728292a2b2c2d2e2f";

struct fixture {
    struct envelope_pair pair;
    char address[ENVELOPE_ADDRESS_BYTES], text[ENVELOPE_TEXT_BYTES];
    uint8_t secret[ENVELOPE_SECRET_BYTES];
    struct belay_error err;
};

static void seal(struct fixture *fixture)
{
    memset(fixture, 0, sizeof *fixture);
    assert_int_equal(envelope_make_pair(&fixture->pair, fixture->address, &fixture->err), 0);
    assert_int_equal(envelope_seal(fixture->address, plain, fixture->text, &fixture->err), 0);
}

static void test_arrives(void **state)
{
    struct fixture fixture;
    (void)state;
    seal(&fixture);
    assert_int_equal(strlen(fixture.text), ENVELOPE_TEXT_BYTES - 1);
    assert_null(strstr(fixture.text, "0001020304"));
    assert_int_equal(envelope_open(&fixture.pair, fixture.text, fixture.secret, &fixture.err), 0);
    for (size_t i = 0; i < sizeof fixture.secret; i++)
        assert_int_equal(fixture.secret[i], i);
}

static void test_for_another(void **state)
{
    struct fixture fixture, other;
    (void)state;
    seal(&fixture);
    seal(&other);
    assert_string_not_equal(fixture.address, other.address);
    assert_string_not_equal(fixture.text, other.text);
    assert_int_equal(envelope_open(&other.pair, fixture.text, other.secret, &other.err), -1);
}

static void test_changed(void **state)
{
    struct fixture fixture;
    (void)state;
    seal(&fixture);
    for (size_t i = 0; i < ENVELOPE_TEXT_BYTES - 1; i += 7) {
        char before = fixture.text[i];
        fixture.text[i] = before == 'a' ? 'b' : 'a';
        assert_int_equal(envelope_open(&fixture.pair, fixture.text, fixture.secret, &fixture.err), -1);
        fixture.text[i] = before;
    }
    fixture.text[10] = '\0';
    assert_int_equal(envelope_open(&fixture.pair, fixture.text, fixture.secret, &fixture.err), -1);
}

static void test_no_texts(void **state)
{
    struct fixture fixture;
    (void)state;
    seal(&fixture);
    assert_int_equal(envelope_seal("", plain, fixture.text, &fixture.err), -1);
    assert_int_equal(envelope_seal("zz", plain, fixture.text, &fixture.err), -1);
    assert_int_equal(envelope_seal(fixture.address, plain + 2, fixture.text, &fixture.err), -1);
    assert_int_equal(envelope_open(&fixture.pair, "", fixture.secret, &fixture.err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrives),
        cmocka_unit_test(test_for_another),
        cmocka_unit_test(test_changed),
        cmocka_unit_test(test_no_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
