/* domains_test.c - orders of nodes in which each one is followed by one of another failure domain. */
#include "coord/domains.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NODES_MAX 8u

/* Arrange the nodes 0, 1, ..., whose domains these are; the order is a permutation. Returns whether they are
 * apart. */
static bool arrange(const uint32_t *domains, uint32_t count, uint32_t order[NODES_MAX])
{
    uint32_t nodes[NODES_MAX], arranged[NODES_MAX], room[NODES_MAX], seen = 0;

    for (uint32_t i = 0; i < count; i++)
        nodes[i] = i;
    domains_arrange(nodes, count, domains, order, room);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(order[i] < count);
        seen |= 1u << order[i];
        arranged[i] = nodes[order[i]];
    }
    assert_int_equal(seen, (1u << count) - 1);
    return domains_are_apart(arranged, count, domains);
}

static void a_right_order_stays(void **state)
{
    const uint32_t domains[] = {7, 3, 7, 3, 5};
    uint32_t order[NODES_MAX];

    (void)state;
    assert_true(arrange(domains, 5, order));
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(order[i], i);
}

static void racks_are_interleaved(void **state)
{
    const uint32_t domains[] = {0, 0, 1, 1}, expected[] = {0, 2, 1, 3};
    uint32_t order[NODES_MAX];

    (void)state;
    assert_true(arrange(domains, 4, order));
    assert_memory_equal(order, expected, sizeof(expected));
}

/* It has more than half of the nodes. */
static void what_cannot_be_stays_as_it_is(void **state)
{
    const uint32_t domains[] = {4, 9, 4, 4, 9}, nodes[] = {0, 1, 2, 3, 4};
    uint32_t order[NODES_MAX], domain = 0;

    (void)state;
    assert_false(arrange(domains, 5, order));
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(order[i], i);
    assert_int_equal(domains_find_large(nodes, 5, domains, &domain), 3);
    assert_int_equal(domain, 4);
    assert_int_equal(domains_find_large(nodes, 4, (const uint32_t[]){1, 1, 2, 2}, &domain), 0);
    assert_int_equal(domains_find_large(nodes, 1, domains, &domain), 1);
}

/* All ways to give up to seven nodes to four domains: apart if and only if no domain has more than half. */
static void an_order_is_found_if_there_is_one(void **state)
{
    (void)state;
    for (uint32_t count = 2; count <= 7; count++) {
        for (uint32_t code = 0; code < 1u << (2 * count); code++) {
            uint32_t domains[NODES_MAX], order[NODES_MAX], size[4] = {0};
            bool is_possible = true;

            for (uint32_t i = 0; i < count; i++)
                size[domains[i] = code >> (2 * i) & 3]++;
            for (uint32_t domain = 0; domain < 4; domain++)
                is_possible &= 2 * size[domain] <= count;
            assert_int_equal(arrange(domains, count, order), is_possible);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_order_stays),
        cmocka_unit_test(racks_are_interleaved),
        cmocka_unit_test(what_cannot_be_stays_as_it_is),
        cmocka_unit_test(an_order_is_found_if_there_is_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
