/* Sets of members, and the layout of parity. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "coord/epoch.h"
#include "coord/parity.h"

static void test_sets_cover_all_members(void **state)
{
    (void)state;
    for (uint32_t data = 1; data <= 6; data++)
        for (uint32_t parity = 1; parity <= 3; parity++)
            for (uint32_t count = 2; count <= 70; count++) {
                const struct parity_code code = {data, parity};
                uint32_t seen = 0;

                for (uint32_t i = 0; i < count; i++) {
                    struct parity_set set;

                    assert_true(parity_set_of(code, count, i, &set));
                    assert_int_equal(parity_set_member(&set, set.position), i);
                    assert_true(set.position < set.size && set.size >= 2);
                    assert_true(set.size <= PARITY_MEMBERS_MAX);
                    assert_int_equal(set.code.data + set.code.parity, set.size);
                    assert_true(set.code.parity >= 1 && set.code.parity <= set.code.data);
                    assert_true(set.code.parity == parity || set.code.parity == count / 2);
                    for (uint32_t p = 0; p < set.size; p++)
                        assert_true(parity_set_member(&set, p) < count);
                    seen += set.position == 0 ? set.size : 0;
                }
                assert_int_equal(seen, count);
            }
}

static void test_sets_are_of_the_size_that_is_asked_for(void **state)
{
    struct parity_set set;

    (void)state;
    assert_true(parity_set_of((struct parity_code){3, 1}, 8, 5, &set));
    assert_int_equal(set.size, 4);
    assert_int_equal(set.count, 2);
    assert_true(parity_is_as_asked((struct parity_code){3, 1}, 8));
    assert_false(parity_is_as_asked((struct parity_code){4, 2}, 4));
    assert_false(parity_set_of((struct parity_code){0, 0}, 8, 5, &set));
    assert_false(parity_set_of((struct parity_code){3, 1}, 1, 0, &set));
}

/* A codeword has one block of each of k members, and none of its holders. */
static void test_layout(void **state)
{
    (void)state;
    for (uint32_t data = 1; data <= 8; data++)
        for (uint32_t parity = 1; parity <= data; parity++) {
            const struct parity_code code = {data, parity};
            uint32_t size = data + parity;

            for (uint32_t q = 0; q < size; q++) {
                uint32_t blocks = 0, holders = 0, columns = 0;

                for (uint32_t p = 0; p < size; p++) {
                    uint32_t column = parity_column(code, p, q), share = parity_share(code, p, q);

                    assert_true((column < data) != (share < parity));
                    if (column < data) {
                        assert_int_equal(parity_codeword(code, p, column), q);
                        columns |= 1u << column;
                        blocks++;
                    } else {
                        holders++;
                    }
                }
                assert_int_equal(blocks, data);
                assert_int_equal(holders, parity);
                assert_int_equal(columns, (1u << data) - 1);
            }
        }
}

/* Each member keeps something of each other one: all of them are asked for a lost image, and answer. */
static void test_all_others_are_holders(void **state)
{
    const struct parity_code code = {4, 2};

    (void)state;
    for (uint32_t home = 0; home < 6; home++)
        for (uint32_t other = 0; other < 6; other++) {
            uint32_t blocks = 0;

            for (uint32_t column = 0; column < 4; column++)
                blocks += parity_share(code, other, parity_codeword(code, home, column)) < 2;
            assert_true((blocks > 0) == (home != other));
        }
}

static void test_keepers(void **state)
{
    const struct parity_code code = {2, 2};

    (void)state;
    assert_int_equal(parity_keeper(code, 4, 3, 0), 0);
    assert_int_equal(parity_keeper(code, 4, 3, 1), 1);
    assert_int_equal(parity_keeper(code, 4, 3, 2), EPOCH_NOBODY);
    assert_true(parity_is_keeper(code, 4, 3, 1));
    assert_false(parity_is_keeper(code, 4, 3, 2));
}

static void test_slots(void **state)
{
    const uint32_t placement[] = {0, 1, 0, 1, 2};

    (void)state;
    assert_int_equal(parity_slot(placement, 0), 0);
    assert_int_equal(parity_slot(placement, 3), 1);
    assert_int_equal(parity_rank(placement, 5, 0, 1), 2);
    assert_int_equal(parity_rank(placement, 5, 2, 1), EPOCH_NOBODY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets_cover_all_members),
        cmocka_unit_test(test_sets_are_of_the_size_that_is_asked_for),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_all_others_are_holders),
        cmocka_unit_test(test_keepers),
        cmocka_unit_test(test_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
