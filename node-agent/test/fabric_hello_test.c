/* fabric_hello_test.c - the handshake and the seals, without a fabric: what is accepted and what is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/secure/hello.h"
#include "common/util/limit.h"

static struct hello_terms terms_of(uint32_t node)
{
    uint8_t key[FABRIC_KEY_BYTES] = {1, 2, 3};
    struct hello_terms terms = {.mode = FABRIC_MODE_AUTHENTICATE,
                                .job = "job",
                                .epoch = 7,
                                .self = {FABRIC_ROLE_MEMBER, node, 1000 + node},
                                .address = {.bytes = "address", .count = 7}};
    hello_derive_key(key, terms.key);
    return terms;
}

/* The three hellos between 1 and 2. */
struct exchange {
    struct hello_terms one, two;
    uint8_t first[HELLO_BYTES], answer[HELLO_BYTES], confirm[HELLO_BYTES];
};

static void exchange_make(struct exchange *all)
{
    all->one = terms_of(1);
    all->two = terms_of(2);
    hello_make(&all->one, HELLO_FIRST, &all->two.self, NULL, all->first);
    hello_make(&all->two, HELLO_ANSWER, &all->one.self, all->first, all->answer);
    hello_make(&all->one, HELLO_CONFIRM, &all->two.self, all->answer, all->confirm);
}

static void both_sides_agree(void **state)
{
    (void)state;
    struct exchange all;
    struct hello hello;
    struct hello_session session, again;
    exchange_make(&all);
    assert_int_equal(hello_check(&all.two, all.first, HELLO_BYTES, &hello), HELLO_OK);
    assert_int_equal(hello.kind, HELLO_FIRST);
    assert_int_equal(hello.from.node, 1);
    assert_int_equal(hello.from.incarnation, 1001);
    assert_int_equal(hello.address.count, 7);
    assert_memory_equal(hello.address.bytes, "address", 7);
    assert_int_equal(hello_check(&all.one, all.answer, HELLO_BYTES, &hello), HELLO_OK);
    assert_true(hello_follows(&hello, all.first));
    assert_int_equal(hello_check(&all.two, all.confirm, HELLO_BYTES, &hello), HELLO_OK);
    assert_true(hello_follows(&hello, all.answer));
    assert_false(hello_follows(&hello, all.first));
    hello_derive_session(&all.one, all.confirm, &session);
    hello_derive_session(&all.two, all.confirm, &again);
    assert_memory_equal(&session, &again, sizeof session);
    assert_memory_not_equal(session.from_initiator, session.from_responder, SEAL_KEY_BYTES);
}

/* Fresh nonces: the same two agents never have the same session twice, and answers fit one hello only. */
static void sessions_are_fresh(void **state)
{
    (void)state;
    struct exchange all, other;
    struct hello hello;
    struct hello_session session, again;
    exchange_make(&all);
    exchange_make(&other);
    assert_memory_not_equal(all.first, other.first, HELLO_BYTES);
    hello_derive_session(&all.one, all.confirm, &session);
    hello_derive_session(&all.one, other.confirm, &again);
    assert_int_not_equal(session.id, again.id);
    assert_memory_not_equal(session.from_initiator, again.from_initiator, SEAL_KEY_BYTES);
    assert_int_equal(hello_check(&all.one, other.answer, HELLO_BYTES, &hello), HELLO_OK);
    assert_false(hello_follows(&hello, all.first));
    struct hello first, later;
    assert_int_equal(hello_check(&all.two, all.first, HELLO_BYTES, &first), HELLO_OK);
    assert_int_equal(hello_check(&all.two, other.first, HELLO_BYTES, &later), HELLO_OK);
    assert_true(later.order > first.order);
}

static void each_bit_counts(void **state)
{
    (void)state;
    struct exchange all;
    struct hello hello;
    exchange_make(&all);
    for (size_t bit = 0; bit < 8 * HELLO_BYTES; bit++) {
        all.first[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_not_equal(hello_check(&all.two, all.first, HELLO_BYTES, &hello), HELLO_OK);
        all.first[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t count = 0; count < HELLO_BYTES; count++)
        assert_int_not_equal(hello_check(&all.two, all.first, count, &hello), HELLO_OK);
    assert_int_equal(hello_check(&all.two, all.first, HELLO_BYTES, &hello), HELLO_OK);
}

static enum hello_verdict check(const struct hello_terms *sender, const struct fabric_identity *to)
{
    uint8_t bytes[HELLO_BYTES];
    struct hello hello;
    struct hello_terms mine = terms_of(2);
    hello_make(sender, HELLO_FIRST, to ? to : &mine.self, NULL, bytes);
    return hello_check(&mine, bytes, HELLO_BYTES, &hello);
}

static void each_term_counts(void **state)
{
    (void)state;
    struct hello_terms sender = terms_of(1);
    struct fabric_identity to = terms_of(2).self;
    assert_int_equal(check(&sender, NULL), HELLO_OK);
    sender.key[0] ^= 1;
    assert_int_equal(check(&sender, NULL), HELLO_KEY_OTHER);
    sender = terms_of(1);
    sender.job[15] ^= 1;
    assert_int_equal(check(&sender, NULL), HELLO_JOB_OTHER);
    sender = terms_of(1);
    sender.mode = FABRIC_MODE_ENCRYPT;
    assert_int_equal(check(&sender, NULL), HELLO_MODE_OTHER);
    sender = terms_of(1);
    sender.epoch--;
    assert_int_equal(check(&sender, NULL), HELLO_EPOCH_OTHER);
    sender = terms_of(1);
    to.incarnation = 0; /* not known yet */
    assert_int_equal(check(&sender, &to), HELLO_OK);
    to.incarnation = 1;
    assert_int_equal(check(&sender, &to), HELLO_NOT_FOR_US);
    to = terms_of(3).self;
    assert_int_equal(check(&sender, &to), HELLO_NOT_FOR_US);
    to = terms_of(2).self;
    to.role = FABRIC_ROLE_ARBITER;
    assert_int_equal(check(&sender, &to), HELLO_NOT_FOR_US);
}

/* Each epoch has its own: by its number, its secret and the job's key. */
static void epochs_have_their_own_keys(void **state)
{
    (void)state;
    const uint8_t job_key[FABRIC_KEY_BYTES] = {1}, other_key[FABRIC_KEY_BYTES] = {2};
    const struct fabric_epoch epochs[] = {{7, {3}}, {8, {3}}, {7, {4}}};
    uint8_t keys[5][FABRIC_KEY_BYTES];
    for (unsigned i = 0; i < 3; i++)
        hello_derive_epoch_key(job_key, &epochs[i], keys[i]);
    hello_derive_epoch_key(other_key, &epochs[0], keys[3]);
    hello_derive_key(job_key, keys[4]);
    for (unsigned i = 0; i < 5; i++)
        for (unsigned k = 0; k < i; k++)
            assert_memory_not_equal(keys[i], keys[k], FABRIC_KEY_BYTES);
    hello_derive_epoch_key(job_key, &(struct fabric_epoch){7, {3}}, keys[1]);
    assert_memory_equal(keys[0], keys[1], FABRIC_KEY_BYTES);
}

/* Of a later version nothing but the version is read, whatever its length. */
static void other_versions_are_told(void **state)
{
    (void)state;
    struct exchange all;
    struct hello hello;
    exchange_make(&all);
    all.first[8]++;
    assert_int_equal(hello_check(&all.two, all.first, HELLO_BYTES, &hello), HELLO_VERSION_OTHER);
    assert_int_equal(hello_check(&all.two, all.first, HELLO_BYTES - 5, &hello), HELLO_VERSION_OTHER);
    for (unsigned i = 0; i < HELLO_VERDICTS; i++)
        assert_non_null(hello_verdict_text((enum hello_verdict)i));
}

/* In each mode: what was sealed opens, with the same counter and space only, and not when a bit is another
 * one. */
static void seals_hold(void **state)
{
    (void)state;
    enum { CLEAR = 48, COUNT = 300 };
    const uint8_t key[SEAL_KEY_BYTES] = {9};
    for (enum fabric_mode mode = FABRIC_MODE_AUTHENTICATE; mode <= FABRIC_MODE_ENCRYPT; mode++) {
        struct seal *seal = seal_create(mode, key);
        uint8_t plain[COUNT], text[COUNT], mac[SEAL_MAC_BYTES];
        memset(plain, 5, sizeof plain);
        memcpy(text, plain, sizeof text);
        seal_close(seal, SEAL_SPACE_ORDERED, 3, text, CLEAR, COUNT, mac);
        assert_memory_equal(text, plain, CLEAR);
        assert_int_equal(memcmp(text, plain, COUNT) == 0, mode == FABRIC_MODE_AUTHENTICATE);
        for (size_t bit = 0; bit < 8 * (COUNT + SEAL_MAC_BYTES); bit++) {
            uint8_t copy[COUNT], other[SEAL_MAC_BYTES];
            memcpy(copy, text, sizeof copy);
            memcpy(other, mac, sizeof other);
            uint8_t *at = bit / 8 < COUNT ? copy + bit / 8 : other + bit / 8 - COUNT;
            *at ^= (uint8_t)(1 << bit % 8);
            assert_int_equal(seal_open(seal, SEAL_SPACE_ORDERED, 3, copy, CLEAR, COUNT, other), -1);
        }
        uint8_t copy[COUNT];
        memcpy(copy, text, sizeof copy);
        assert_int_equal(seal_open(seal, SEAL_SPACE_ORDERED, 4, copy, CLEAR, COUNT, mac), -1);
        memcpy(copy, text, sizeof copy);
        assert_int_equal(seal_open(seal, SEAL_SPACE_BEAT, 3, copy, CLEAR, COUNT, mac), -1);
        memcpy(copy, text, sizeof copy);
        assert_int_equal(seal_open(seal, SEAL_SPACE_ORDERED, 3, copy, CLEAR, COUNT, mac), 0);
        assert_memory_equal(copy, plain, COUNT);
        seal_destroy(seal);
    }
}

static void lines_are_limited(void **state)
{
    (void)state;
    struct limit limit = {0};
    uint64_t left_out = 0, said = 0;
    for (unsigned i = 0; i < 1000; i++)
        said += limit_allows(&limit, 50 + i, &left_out);
    assert_int_equal(said, LIMIT_LINES);
    assert_int_equal(left_out, 0);
    assert_true(limit_allows(&limit, 50 + LIMIT_WHILE_MS, &left_out));
    assert_int_equal(left_out, 1000 - LIMIT_LINES);
}

static int prepare(void **state)
{
    (void)state;
    return seal_prepare(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_agree),  cmocka_unit_test(sessions_are_fresh),
        cmocka_unit_test(each_bit_counts),   cmocka_unit_test(each_term_counts),
        cmocka_unit_test(seals_hold),        cmocka_unit_test(other_versions_are_told),
        cmocka_unit_test(lines_are_limited), cmocka_unit_test(epochs_have_their_own_keys),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
