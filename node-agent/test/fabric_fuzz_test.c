/* fabric_fuzz_test.c - damaged hellos, frames and notices: refused, or read as what they say, never beyond.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "common/test/fuzz.h"
#include "node-agent/fabric/channel.h"
#include "common/secure/hello.h"

#define ROUNDS 20000u

/* Exactly as many bytes as there are, so that a sanitizer sees a step beyond. */
static uint8_t *exact(const uint8_t *bytes, size_t count)
{
    uint8_t *copy = malloc(count + !count);
    memcpy(copy, bytes, count);
    return copy;
}

/* Also with a MAC that is right: a peer that has the key may be wrong, too. */
static void damaged_hellos(void **state)
{
    (void)state;
    struct fuzz fuzz = fuzz_begin("damaged hellos");
    struct hello_terms terms = {.mode = FABRIC_MODE_AUTHENTICATE,
                                .self = {FABRIC_ROLE_MEMBER, 1, 5},
                                .address = {.bytes = "there", .count = 5}};
    unsigned right = 0, read = 0;
    for (unsigned round = 0; round < fuzz_rounds(ROUNDS); round++) {
        uint8_t bytes[HELLO_BYTES + 64];
        size_t count = HELLO_BYTES, mac_at = HELLO_BYTES - crypto_auth_hmacsha256_BYTES;
        struct hello hello = {0};
        hello_make(&terms, 1 + (enum hello_kind)fuzz_below(&fuzz, 3), &terms.self, NULL, bytes);
        fuzz_damage(&fuzz, bytes, &count, sizeof bytes);
        bool is_signed = round % 2 && count == HELLO_BYTES;
        if (is_signed)
            crypto_auth_hmacsha256(bytes + mac_at, bytes, mac_at, terms.key);
        uint8_t *copy = exact(bytes, count);
        enum hello_verdict verdict = hello_check(&terms, copy, count, &hello);
        free(copy);
        assert_true(is_signed || verdict < HELLO_JOB_OTHER);
        if (verdict != HELLO_OK)
            continue;
        assert_in_range(hello.address.count, 1, FABRIC_ADDRESS_BYTES);
        assert_in_range(hello.kind, HELLO_FIRST, HELLO_CONFIRM);
        assert_in_range(hello.from.role, FABRIC_ROLE_MEMBER, FABRIC_ROLE_ARBITER);
        right++;
        read += hello.address.count != 5;
    }
    assert_true(right > ROUNDS / 20 && read > 0);
}

static void damaged_frames(void **state)
{
    (void)state;
    struct fuzz fuzz = fuzz_begin("damaged frames");
    unsigned read = 0;
    for (unsigned round = 0; round < fuzz_rounds(ROUNDS); round++) {
        uint8_t bytes[ENDPOINT_FRAME_BYTES] = {0};
        struct frame frame = {.kind = 1 + (enum frame_kind)fuzz_below(&fuzz, FRAME_KINDS - 1),
                              .session = 4,
                              .counter = 1 + fuzz_below(&fuzz, 9),
                              .count = (uint32_t)fuzz_below(&fuzz, 600)};
        frame.count = frame.kind == FRAME_BEAT ? 0 : frame.count;
        frame.total = frame.kind == FRAME_MESSAGE ? frame.count : 0;
        size_t count = FRAME_HEADER_BYTES + frame.count + SEAL_MAC_BYTES;
        frame_encode(&frame, bytes);
        fuzz_damage(&fuzz, bytes, &count, sizeof bytes);
        uint8_t *copy = exact(bytes, count);
        if (frame_decode(copy, count, &frame) == 0) {
            read++;
            assert_int_equal(FRAME_HEADER_BYTES + frame.count + SEAL_MAC_BYTES, count);
            assert_in_range(frame.kind, FRAME_BEAT, FRAME_KINDS - 1);
            assert_true(frame.kind != FRAME_MESSAGE || frame.count <= frame.total);
            assert_true(frame.total <= FABRIC_MESSAGE_BYTES);
        }
        free(copy);
    }
    assert_true(read > ROUNDS / 10);
}

static void damaged_notices(void **state)
{
    (void)state;
    struct fuzz fuzz = fuzz_begin("damaged notices");
    unsigned read = 0;
    for (unsigned round = 0; round < fuzz_rounds(ROUNDS); round++) {
        uint8_t body[NOTICE_BYTES + 64];
        struct notice notice = {.transfer = round, .count = 3}, again = {0};
        notice.tag_bytes = (uint32_t)fuzz_below(&fuzz, FABRIC_TAG_BYTES + 1);
        memset(notice.tag, 7, notice.tag_bytes);
        size_t count = notice_encode(&notice, body);
        assert_int_equal(notice_decode(body, count, &again), 0);
        assert_memory_equal(&notice, &again, sizeof notice);
        fuzz_damage(&fuzz, body, &count, sizeof body);
        uint8_t *copy = exact(body, count);
        if (notice_decode(copy, count, &again) == 0) {
            assert_true(again.tag_bytes <= FABRIC_TAG_BYTES);
            read++;
        }
        free(copy);
    }
    assert_true(read > ROUNDS / 10);
}

/* Frames whose MAC is right and whose header is not: the channel ends or goes on, and holds no memory. */
static void frames_of_a_wrong_peer(void **state)
{
    (void)state;
    const uint8_t key[SEAL_KEY_BYTES] = {1};
    struct fuzz fuzz = fuzz_begin("frames of a wrong peer");
    struct seal *seal = seal_create(FABRIC_MODE_ENCRYPT, key);
    unsigned broken = 0, whole = 0;
    for (unsigned round = 0; round < fuzz_rounds(ROUNDS / 10); round++) {
        struct channel *channel = channel_create(FABRIC_MODE_ENCRYPT, 4, key, key);
        enum channel_verdict verdict = CHANNEL_NOTHING;
        for (uint64_t counter = 1; counter < 20 && verdict != CHANNEL_BROKEN; counter++) {
            uint8_t bytes[ENDPOINT_FRAME_BYTES] = {0};
            struct channel_item item;
            bool is_message = fuzz_below(&fuzz, 3) > 0;
            struct frame frame = {
                .kind = is_message ? FRAME_MESSAGE : FRAME_OFFER, .session = 4, .counter = counter};
            frame.count = (uint32_t)fuzz_below(&fuzz, 2000);
            frame.total = is_message ? frame.count * (1 + (uint32_t)fuzz_below(&fuzz, 3)) : 0;
            if (fuzz_below(&fuzz, 30) == 0)
                frame.received = fuzz_edge(&fuzz);
            if (fuzz_below(&fuzz, 30) == 0)
                frame.taken = fuzz_edge(&fuzz);
            frame_encode(&frame, bytes);
            size_t count = FRAME_HEADER_BYTES + frame.count;
            seal_close(seal, SEAL_SPACE_ORDERED, counter, bytes, FRAME_HEADER_BYTES, count, bytes + count);
            verdict = channel_receive(channel, bytes, count + SEAL_MAC_BYTES, &item);
            if (verdict == CHANNEL_WHOLE) {
                whole++;
                channel_taken(channel, item.weight);
                free(item.bytes);
            }
        }
        broken += verdict == CHANNEL_BROKEN;
        channel_destroy(channel);
    }
    seal_destroy(seal);
    assert_true(broken > 0 && whole > 0);
}

static int prepare(void **state)
{
    (void)state;
    return seal_prepare(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_hellos),
        cmocka_unit_test(damaged_frames),
        cmocka_unit_test(damaged_notices),
        cmocka_unit_test(frames_of_a_wrong_peer),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
