/* protection_test.c - what schemes cost, against sums by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "coord/protection.h"

static const struct protection_load load = {
    .image_bytes = 1000, .staged_bytes = 100, .sent_bytes = 60, .send_s = 0.001};

static struct protection_cost cost_of(const char *name)
{
    for (unsigned i = 0; i < PROTECTION_SCHEMES; i++)
        if (strcmp(protection_schemes[i].name, name) == 0)
            return protection_cost(&protection_schemes[i], &load);
    fail_msg("there is no %s", name);
    return (struct protection_cost){0};
}

static void expect(struct protection_cost is, double memory, double line, double first)
{
    assert_true(fabs(is.memory_bytes - memory) < 1e-6);
    assert_true(fabs(is.line_bytes - line) < 1e-6 && fabs(is.line_ms - line) < 1e-6);
    assert_true(fabs(is.first_bytes - first) < 1e-6 && fabs(is.first_ms - first) < 1e-6);
}

static void what_schemes_cost(void **state)
{
    (void)state;
    expect(cost_of("SINGLE"), 1100, 0, 0);
    expect(cost_of("PARTNER"), 1000 + 100 + 1000 + 60, 60, 1000);
    expect(cost_of("XOR:4"), 1000 + 100 + 1000 / 3.0 + 60, 60, 1000);
    expect(cost_of("XOR:8"), 1000 + 100 + 1000 / 7.0 + 60, 60, 1000);
    expect(cost_of("RS:4+2"), 1000 + 100 + 500 + 120, 120, 2000);
    expect(cost_of("RS:8+3"), 1000 + 100 + 375 + 180, 180, 3000);
}

/* Without a link nothing is known of times. A set of N nodes holds I · N / k of parity and images. */
static void sets(void **state)
{
    (void)state;
    struct protection_load unknown = load;
    unknown.send_s = unknown.staged_bytes = unknown.sent_bytes = 0;
    for (unsigned i = 0; i < PROTECTION_SCHEMES; i++) {
        const struct protection_scheme *scheme = &protection_schemes[i];
        struct protection_cost cost = protection_cost(scheme, &unknown);
        uint32_t nodes = protection_nodes(scheme), losses = protection_losses(scheme);
        assert_true(cost.line_ms == 0 && cost.first_ms == 0);
        assert_true(fabs(cost.memory_bytes - 1000.0 * nodes / (nodes - losses)) < 1e-6);
        assert_true(i == 0 || losses >= protection_losses(&protection_schemes[i - 1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_schemes_cost),
        cmocka_unit_test(sets),
    };
    return cmocka_run_group_tests_name("protection", tests, NULL, NULL);
}
