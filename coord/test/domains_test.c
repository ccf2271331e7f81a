/* domains_test.c - orders of nodes in which each one is followed by one of another failure domain. */
#include "coord/domains.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NODES_MAX 8u

static const struct parity_code copies; /* without parity */

/* Arrange the nodes 0, 1, ..., whose domains these are; the order is a permutation. Returns whether they are
 * apart. */
static bool arrange_for(struct parity_code code, const uint32_t *domains, uint32_t count,
                        uint32_t order[NODES_MAX])
{
    uint32_t nodes[NODES_MAX], arranged[NODES_MAX], room[NODES_MAX], seen = 0;

    for (uint32_t i = 0; i < count; i++)
        nodes[i] = i;
    domains_arrange(nodes, count, domains, code, order, room);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(order[i] < count);
        seen |= 1u << order[i];
        arranged[i] = nodes[order[i]];
    }
    assert_int_equal(seen, (1u << count) - 1);
    return domains_are_apart(arranged, count, domains, code);
}

static bool arrange(const uint32_t *domains, uint32_t count, uint32_t order[NODES_MAX])
{
    return arrange_for(copies, domains, count, order);
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
    assert_int_equal(domains_find_large(nodes, 5, domains, copies, &domain), 3);
    assert_int_equal(domain, 4);
    assert_int_equal(domains_find_large(nodes, 4, (const uint32_t[]){1, 1, 2, 2}, copies, &domain), 0);
    assert_int_equal(domains_find_large(nodes, 1, domains, copies, &domain), 1);
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

/* Four racks of two nodes: each of two sets has one node of a rack. Copies would want another order. */
static void sets_span_domains(void **state)
{
    const uint32_t racks[] = {0, 1, 2, 3, 0, 1, 2, 3}, expected[] = {0, 4, 1, 5, 2, 6, 3, 7};
    const struct parity_code code = {.data = 3, .parity = 1};
    uint32_t order[NODES_MAX], domain;

    (void)state;
    assert_true(arrange_for(code, racks, 8, order));
    assert_memory_equal(order, expected, sizeof(expected));
    assert_int_equal(
        domains_find_large(expected, 8, (const uint32_t[]){0, 0, 0, 1, 1, 2, 2, 3}, code, &domain), 3);
    assert_int_equal(domain, 0);
}

/* All ways to give four to eight nodes to four domains, for sets of one size: apart if and only if no domain
 * has more nodes than all sets may lose. */
static void sets_are_apart_if_they_can_be(void **state)
{
    const struct parity_code codes[] = {{.data = 3, .parity = 1}, {.data = 2, .parity = 2}};

    (void)state;
    for (uint32_t i = 0; i < 4 * (1u << 16); i++) {
        const struct parity_code code = codes[i & 1];
        uint32_t count = i & 2 ? 8 : 4, domains[NODES_MAX], order[NODES_MAX], size[4] = {0}, largest = 0;

        for (uint32_t node = 0; node < count; node++)
            size[domains[node] = i >> 2 >> (2 * node) & 3]++;
        for (uint32_t domain = 0; domain < 4; domain++)
            largest = size[domain] > largest ? size[domain] : largest;
        assert_int_equal(arrange_for(code, domains, count, order), largest <= count / 4 * code.parity);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_order_stays),
        cmocka_unit_test(racks_are_interleaved),
        cmocka_unit_test(what_cannot_be_stays_as_it_is),
        cmocka_unit_test(an_order_is_found_if_there_is_one),
        cmocka_unit_test(sets_span_domains),
        cmocka_unit_test(sets_are_apart_if_they_can_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
