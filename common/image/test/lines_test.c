/* lines_test.c - masks and packed lines against what a loop over bytes says, for thousands of random pages.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/image/lines.h"

#define PAGE IMAGE_PAGE_BYTES
#define LINES (PAGE / LINE_BYTES)
#define ROUNDS 3000u

static char old_page[PAGE + 1], new_page[PAGE + 1], packed[PAGE + 2], other[PAGE + 1];

static void fill(char *page, uint64_t seed)
{
    for (size_t i = 0; i < PAGE; i++)
        page[i] = (char)((seed = seed * 6364136223846793005ull + 1442695040888963407ull) >> 56);
}

static uint64_t compare_bytes(const char *a, const char *b)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < PAGE; i++)
        mask |= (uint64_t)(a[i] != b[i]) << (i / LINE_BYTES);
    return mask;
}

/* Change as many bytes of the new page as that, anywhere. */
static void change(char *page, unsigned count)
{
    while (count-- > 0)
        page[(size_t)rand() % PAGE] ^= (char)(1 + rand() % 255);
}

static void test_each_byte_and_each_bit_counts(void **state)
{
    (void)state;
    fill(old_page, 1);
    memcpy(new_page, old_page, PAGE);
    assert_true(lines_compare(old_page, new_page) == 0);
    for (size_t i = 0; i < PAGE; i++)
        for (int bit = 0; bit < 8; bit++) {
            new_page[i] ^= (char)(1 << bit);
            assert_true(lines_compare(old_page, new_page) == 1ull << (i / LINE_BYTES));
            new_page[i] ^= (char)(1 << bit);
        }
}

static void test_packing_and_back(void **state)
{
    (void)state;
    srand(7);
    for (unsigned round = 0; round < ROUNDS; round++) {
        char *a = old_page + round % 2, *b = new_page + round / 2 % 2, *c = packed + round / 4 % 2;
        fill(a, round);
        memcpy(b, a, PAGE);
        change(b, round % 200);
        uint64_t mask = lines_compare(a, b);
        size_t bytes = lines_bytes(mask);
        assert_true(mask == compare_bytes(a, b));
        c[bytes] = 'x'; /* nothing is written behind */
        assert_int_equal(lines_pack(mask, b, c), bytes);
        memcpy(other, a, PAGE);
        assert_int_equal(lines_unpack(mask, c, bytes, other), bytes);
        assert_memory_equal(other, b, PAGE);
        assert_int_equal(lines_unpack(mask, c, bytes, other), bytes); /* twice is harmless */
        assert_memory_equal(other, b, PAGE);
        assert_int_equal(lines_pack_xor(mask, a, b, c), bytes);
        memcpy(other, a, PAGE);
        assert_int_equal(lines_fold(mask, c, bytes + 1, other), bytes);
        assert_memory_equal(other, b, PAGE);
        assert_int_equal(lines_fold(mask, c, bytes, other), bytes); /* twice undoes it */
        assert_memory_equal(other, a, PAGE);
        assert_int_equal(c[bytes], 'x');
    }
}

/* Pages that come from nothing, and go. */
static void test_pages_of_zeros(void **state)
{
    (void)state;
    static const char zeros[PAGE];
    memset(new_page, 0, PAGE);
    assert_true(lines_compare(NULL, NULL) == 0);
    assert_true(lines_compare(NULL, new_page) == 0);
    new_page[PAGE - 1] = 1;
    assert_true(lines_compare(NULL, new_page) == 1ull << 63);
    assert_true(lines_compare(new_page, NULL) == 1ull << 63);
    fill(new_page, 3);
    assert_true(lines_compare(NULL, new_page) == LINES_ALL);
    assert_int_equal(lines_pack_xor(LINES_ALL, NULL, new_page, packed), PAGE);
    assert_memory_equal(packed, new_page, PAGE);
    memset(packed, 1, PAGE);
    assert_int_equal(lines_pack_xor(LINES_ALL, new_page, NULL, packed), PAGE);
    assert_memory_equal(packed, new_page, PAGE);
    assert_int_equal(lines_fold(LINES_ALL, packed, PAGE, new_page), PAGE);
    assert_memory_equal(new_page, zeros, PAGE);
    memset(packed, 1, PAGE);
    assert_int_equal(lines_pack(LINES_ALL, NULL, packed), PAGE);
    assert_memory_equal(packed, zeros, PAGE);
}

/* What another node says of a mask is not believed: no byte behind what it has sent is read. */
static void test_too_few_packed_lines(void **state)
{
    (void)state;
    fill(old_page, 9);
    memcpy(other, old_page, PAGE);
    for (unsigned lines = 1; lines <= LINES; lines++) {
        uint64_t mask = lines == LINES ? LINES_ALL : ((1ull << lines) - 1) << (LINES - lines);
        size_t bytes = lines * (size_t)LINE_BYTES - 1;
        char *exact = malloc(bytes); /* a sanitizer, or valgrind, sees what is read behind */
        assert_non_null(exact);
        memset(exact, 5, bytes);
        errno = 0;
        assert_int_equal(lines_unpack(mask, exact, bytes, other), -1);
        assert_int_equal(errno, EINVAL);
        assert_int_equal(lines_fold(mask, exact, bytes, other), -1);
        assert_memory_equal(other, old_page, PAGE);
        free(exact);
    }
    assert_int_equal(lines_unpack(0, NULL, 0, other), 0);
    assert_int_equal(lines_fold(0, NULL, 0, other), 0);
    assert_memory_equal(other, old_page, PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_byte_and_each_bit_counts),
        cmocka_unit_test(test_packing_and_back),
        cmocka_unit_test(test_pages_of_zeros),
        cmocka_unit_test(test_too_few_packed_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
