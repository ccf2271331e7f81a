/* pack_test.c - what is packed comes back; what is damaged, cut or too large is refused; when packing pays.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node-agent/delta/pack_stream.h"

#define BYTES (3 * PACK_BLOCK_BYTES + 4099u)

struct flow {
    uint8_t *bytes;
    size_t count, at;
};

static ssize_t fill(void *context, uint8_t *to, size_t room)
{
    struct flow *flow = context;
    size_t left = flow->count - flow->at, count = left < room ? left : room;
    count = count > 1000 ? 1000 : count; /* in pieces, as ranges of a file come */
    memcpy(to, flow->bytes + flow->at, count);
    flow->at += count;
    return (ssize_t)count;
}

static int take(void *context, const uint8_t *bytes, size_t count)
{
    struct flow *flow = context;
    memcpy(flow->bytes + flow->count, bytes, count);
    flow->count += count;
    return 0;
}

/* Doubles that differ little; or what cannot become smaller. */
static void make(uint8_t *bytes, bool is_smooth)
{
    uint64_t state = 1;
    for (size_t at = 0; at + 8 <= BYTES; at += 8) {
        double value = 1000.0 + (double)at / 1e4;
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t mixed = (state >> 29 ^ state) * 0x9e3779b97f4a7c15u;
        memcpy(bytes + at, is_smooth ? (const void *)&value : (const void *)&mixed, 8);
    }
    bytes[BYTES - 1] = 7;
}

static size_t pack(enum packing packing, bool is_smooth, uint8_t *raw, uint8_t *packed)
{
    struct flow from = {.bytes = raw, .count = BYTES};
    struct packer *packer = packer_create(packing, fill, &from);
    size_t count = 0;
    ssize_t got;
    make(raw, is_smooth);
    while ((got = packer_fill(packer, packed + count, 777)) > 0)
        count += (size_t)got;
    assert_int_equal(got, 0);
    const struct packed_figures figures = packer_figures(packer);
    assert_int_equal(figures.raw_bytes, BYTES);
    assert_int_equal(figures.packed_bytes, count);
    assert_true(count <= packer_bound(BYTES));
    packer_destroy(packer);
    return count;
}

/* Returns what unpacker_take() has. */
static int unpack(const uint8_t *packed, size_t count, uint64_t bytes_max, struct flow *to, bool *is_whole)
{
    struct unpacker *unpacker = unpacker_create(bytes_max, take, to);
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < count; at += 501)
        rc = unpacker_take(unpacker, packed + at, count - at < 501 ? count - at : 501);
    int code = errno;
    *is_whole = unpacker_is_whole(unpacker);
    unpacker_destroy(unpacker);
    errno = code;
    return rc;
}

static void test_round(void **state)
{
    (void)state;
    uint8_t *raw = calloc(1, BYTES), *packed = malloc(packer_bound(BYTES)), *back = malloc(BYTES);
    for (enum packing packing = PACKING_NONE; packing < PACKINGS; packing++)
        for (int is_smooth = 0; is_smooth < 2; is_smooth++) {
            struct flow to = {.bytes = back};
            bool is_whole;
            size_t count = pack(packing, is_smooth, raw, packed);
            assert_int_equal(unpack(packed, count, BYTES, &to, &is_whole), 0);
            assert_true(is_whole && to.count == BYTES);
            assert_memory_equal(raw, back, BYTES);
            if (is_smooth && packing != PACKING_NONE)
                assert_true(count < BYTES / 2);
        }
    free(raw);
    free(packed);
    free(back);
}

static void test_what_is_not_right(void **state)
{
    (void)state;
    uint8_t *raw = calloc(1, BYTES), *packed = malloc(packer_bound(BYTES)), *back = malloc(BYTES);
    for (enum packing packing = PACKING_LZ4; packing < PACKINGS; packing++) {
        struct flow to = {.bytes = back};
        bool is_whole;
        size_t count = pack(packing, true, raw, packed);
        assert_int_equal(unpack(packed, count - 1, BYTES, &to, &is_whole), 0);
        assert_false(is_whole);
        to.count = 0;
        assert_int_equal(unpack(packed, count, BYTES - 1, &to, &is_whole), -1); /* it makes too much */
        assert_int_equal(errno, EBADMSG);
        assert_true(to.count < BYTES);
        struct pack_head head, bad;
        memcpy(&head, packed, sizeof head);
        const struct pack_head wrong[] = {{PACKINGS, head.raw_bytes, head.packed_bytes},
                                          {packing, PACK_BLOCK_BYTES + 1, head.packed_bytes},
                                          {packing, head.raw_bytes - 1, head.packed_bytes},
                                          {packing, head.raw_bytes, head.raw_bytes},
                                          {packing, head.raw_bytes, 0},
                                          {PACKING_NONE, head.raw_bytes, head.packed_bytes}};
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            bad = wrong[i];
            memcpy(packed, &bad, sizeof bad);
            to.count = 0;
            assert_int_equal(unpack(packed, count, BYTES, &to, &is_whole), -1);
            assert_int_equal(errno, EBADMSG);
        }
    }
    free(raw);
    free(packed);
    free(back);
}

static void test_when_it_pays(void **state)
{
    (void)state;
    const struct packed_figures fast = {.raw_bytes = 1u << 20, .packed_bytes = 1u << 19, .ns = 1000000};
    struct pack_rates rates = {0};
    assert_false(pack_is_worth(&rates)); /* nothing is known of the link */
    pack_note_link(&rates, 100, 1000000000);
    assert_false(pack_is_worth(&rates)); /* too little to tell */
    pack_note_link(&rates, 1u << 20, 10000000);
    assert_true(pack_is_worth(&rates)); /* nothing is known of the packer */
    pack_note_packed(&rates, &fast);
    uint32_t worth = 0;
    for (int i = 0; i < 32; i++)
        worth += pack_is_worth(&rates);
    assert_int_equal(worth, 30); /* every 16th tells of the link */
    for (int i = 0; i < 20; i++)
        pack_note_link(&rates, 1u << 20, 100000);
    for (int i = 0; i < 32; i++)
        assert_false(pack_is_worth(&rates));
}

static void test_names(void **state)
{
    (void)state;
    enum packing packing = PACKINGS;
    assert_true(packing_parse("", &packing) && packing == PACKING_NONE);
    assert_true(packing_parse("none", &packing) && packing == PACKING_NONE);
    assert_true(packing_parse("lz4", &packing) && packing == PACKING_LZ4);
    assert_true(packing_parse("zstd", &packing) && packing == PACKING_ZSTD);
    assert_false(packing_parse("gzip", &packing));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round),
        cmocka_unit_test(test_what_is_not_right),
        cmocka_unit_test(test_when_it_pays),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
