/* fabric_channel_test.c - two channels and a wire between them that loses, repeats, damages and tells late.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/test/fuzz.h"
#include "node-agent/fabric/channel.h"

#define ROUNDS 60u
#define ITEMS 400u
#define WIRE 64u

struct side {
    struct channel *channel;
    uint64_t put, came;
    struct {
        uint8_t bytes[ENDPOINT_FRAME_BYTES];
        size_t count;
    } wire[WIRE]; /* frames on their way to this side */
    unsigned on_wire;
};

static void make(struct side *sides, enum fabric_mode mode)
{
    const uint8_t one[SEAL_KEY_BYTES] = {1}, other[SEAL_KEY_BYTES] = {2};
    memset(sides, 0, 2 * sizeof *sides);
    sides[0].channel = channel_create(mode, 77, one, other);
    sides[1].channel = channel_create(mode, 77, other, one);
    assert_true(sides[0].channel && sides[1].channel);
}

static void destroy(struct side *sides)
{
    channel_destroy(sides[0].channel);
    channel_destroy(sides[1].channel);
}

/* An item's kind, length and bytes follow from its number. */
static size_t item_bytes(uint64_t number)
{
    return number % 7 == 0 ? number % 3 * 20000 : number * 37 % 9000;
}

static enum frame_kind item_kind(uint64_t number)
{
    return number % 5 == 0 ? FRAME_GRANT : FRAME_MESSAGE;
}

static void put(struct side *side)
{
    static uint8_t bytes[65536];
    enum frame_kind kind = item_kind(side->put);
    size_t count = kind == FRAME_MESSAGE ? item_bytes(side->put) : 100;
    memset(bytes, (int)side->put, count);
    if (channel_put(side->channel, kind, bytes, count) == 0)
        side->put++;
}

static void check_item(struct side *side, const struct channel_item *item)
{
    assert_int_equal(item->kind, item_kind(side->came));
    assert_int_equal(item->count, item->kind == FRAME_MESSAGE ? item_bytes(side->came) : 100);
    for (size_t i = 0; i < item->count; i++)
        assert_int_equal(item->bytes[i], (uint8_t)side->came);
    side->came++;
}

static void lay(struct side *to, const uint8_t *bytes, size_t count)
{
    if (to->on_wire == WIRE)
        return; /* lost */
    memcpy(to->wire[to->on_wire].bytes, bytes, count);
    to->wire[to->on_wire++].count = count;
}

static void send_next(struct side *side, struct side *to)
{
    size_t count;
    const uint8_t *frame = channel_next(side->channel, &count);
    if (!frame)
        return;
    lay(to, frame, count);
    channel_advance(side->channel);
}

static void beat(struct side *side, struct side *to)
{
    uint8_t bytes[FRAME_HEADER_BYTES + SEAL_MAC_BYTES];
    lay(to, bytes, channel_beat(side->channel, bytes));
}

/* Take the frame at a place of the wire; maybe leave it there, to come again. */
static enum channel_verdict come(struct side *side, unsigned at, bool is_repeated)
{
    struct channel_item item;
    uint8_t bytes[ENDPOINT_FRAME_BYTES];
    size_t count = side->wire[at].count;
    memcpy(bytes, side->wire[at].bytes, count);
    if (!is_repeated) {
        side->on_wire--;
        memmove(&side->wire[at], &side->wire[at + 1], (side->on_wire - at) * sizeof side->wire[0]);
    }
    enum channel_verdict verdict = channel_receive(side->channel, bytes, count, &item);
    if (verdict == CHANNEL_WHOLE) {
        check_item(side, &item);
        channel_taken(side->channel, item.weight);
        free(item.bytes);
    }
    return verdict;
}

static void step(struct fuzz *fuzz, struct side *side, struct side *other, unsigned damage)
{
    switch (fuzz_below(fuzz, 8)) {
    case 0:
    case 1:
        if (side->put < ITEMS)
            put(side);
        break;
    case 2:
    case 3:
        send_next(side, other);
        break;
    case 4:
        beat(side, other);
        if (channel_is_stuck(side->channel))
            channel_rewind(side->channel);
        break;
    default:
        break;
    }
    if (side->on_wire == 0)
        return;
    unsigned what = (unsigned)fuzz_below(fuzz, 100),
             at = what < damage ? (unsigned)fuzz_below(fuzz, side->on_wire) : 0;
    if (what < damage / 3) { /* flips a bit: as if it had not come */
        side->wire[at].bytes[fuzz_below(fuzz, side->wire[at].count)] ^= (uint8_t)(1 << fuzz_below(fuzz, 8));
        assert_int_equal(come(side, at, false), CHANNEL_REFUSED);
    } else if (what < damage / 2) { /* is lost, as all behind it when a connection breaks */
        side->on_wire = at;
    } else {
        assert_in_range(come(side, at, what < damage), CHANNEL_NOTHING, CHANNEL_OLD);
    }
}

/* All items come, once and in order, in both directions, whatever the wire does. */
static void all_comes_over_a_bad_wire(void **state)
{
    (void)state;
    static struct side sides[2];
    struct fuzz fuzz = fuzz_begin("bad wire");
    for (unsigned round = 0; round < fuzz_rounds(ROUNDS); round++) {
        unsigned damage = round % 4 * 8;
        make(sides, round % 2 ? FABRIC_MODE_AUTHENTICATE : FABRIC_MODE_ENCRYPT);
        unsigned steps = 0;
        while (sides[0].came < ITEMS || sides[1].came < ITEMS) {
            unsigned i = (unsigned)fuzz_below(&fuzz, 2);
            step(&fuzz, &sides[i], &sides[1 - i], damage);
            assert_true(++steps < 2000000);
        }
        destroy(sides);
    }
}

/* Frames that come a second time do nothing, and are told from live ones. */
static void repeated_frames_are_old(void **state)
{
    (void)state;
    static struct side sides[2];
    make(sides, FABRIC_MODE_AUTHENTICATE);
    put(&sides[0]);
    put(&sides[0]);
    for (unsigned i = 0; i < 2; i++)
        send_next(&sides[0], &sides[1]);
    beat(&sides[0], &sides[1]);
    assert_int_equal(sides[1].on_wire, 3);
    assert_int_equal(come(&sides[1], 1, true), CHANNEL_OLD); /* too early: one is missing */
    for (unsigned i = 0; i < 3; i++)
        assert_in_range(come(&sides[1], i, true), CHANNEL_NOTHING, CHANNEL_WHOLE);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(come(&sides[1], i, true), CHANNEL_OLD);
    assert_int_equal(sides[1].came, 2);
    destroy(sides);
}

/* A receiver that takes nothing is sent no more than the window; the queue behind it is bounded, too. */
static void window_and_queue_are_bounded(void **state)
{
    (void)state;
    static struct side sides[2];
    static uint8_t bytes[60000];
    struct channel_item item;
    size_t count, sent = 0, held = 0, whole = 0, queued = 0;
    const uint8_t *frame;
    make(sides, FABRIC_MODE_AUTHENTICATE);
    for (;;) {
        bool is_full = channel_put(sides[0].channel, FRAME_MESSAGE, bytes, sizeof bytes) < 0;
        queued += is_full ? 0 : sizeof bytes;
        while ((frame = channel_next(sides[0].channel, &count))) {
            uint8_t copy[ENDPOINT_FRAME_BYTES];
            memcpy(copy, frame, count);
            channel_advance(sides[0].channel);
            sent += count;
            enum channel_verdict verdict = channel_receive(sides[1].channel, copy, count, &item);
            assert_in_range(verdict, CHANNEL_NOTHING, CHANNEL_WHOLE);
            if (verdict == CHANNEL_WHOLE) {
                held += item.weight;
                whole++;
                free(item.bytes);
            }
        }
        if (is_full)
            break;
    }
    assert_in_range(held, CHANNEL_WINDOW_BYTES / 2, CHANNEL_WINDOW_BYTES);
    assert_in_range(queued, CHANNEL_QUEUE_BYTES,
                    CHANNEL_QUEUE_BYTES + CHANNEL_WINDOW_BYTES + 2 * sizeof bytes);
    channel_taken(sides[1].channel, held);
    assert_true(channel_owes_beat(sides[1].channel));
    beat(&sides[1], &sides[0]);
    assert_int_equal(come(&sides[0], 0, false), CHANNEL_NOTHING);
    assert_non_null(channel_next(sides[0].channel, &count));
    destroy(sides);
}

/* A peer that has the key and does not keep to the window, or confirms what was never sent. */
static void breach_ends_the_session(void **state)
{
    (void)state;
    static struct side sides[2];
    static uint8_t bytes[FABRIC_MESSAGE_BYTES];
    struct channel_item item = {0};
    enum channel_verdict verdict = CHANNEL_NOTHING;
    const uint8_t *frame;
    size_t count;
    make(sides, FABRIC_MODE_AUTHENTICATE);
    for (unsigned i = 0; verdict != CHANNEL_BROKEN; i++) {
        assert_true(i < 1000);
        channel_put(sides[0].channel, FRAME_MESSAGE, bytes, sizeof bytes);
        /* What the receiver says has been taken is not so. */
        while ((frame = channel_next(sides[0].channel, &count)) && verdict != CHANNEL_BROKEN) {
            uint8_t copy[ENDPOINT_FRAME_BYTES];
            memcpy(copy, frame, count);
            channel_advance(sides[0].channel);
            verdict = channel_receive(sides[1].channel, copy, count, &item);
            if (verdict == CHANNEL_WHOLE)
                free(item.bytes);
        }
        struct side *other = &sides[0];
        uint8_t beat_bytes[FRAME_HEADER_BYTES + SEAL_MAC_BYTES];
        const uint8_t key[SEAL_KEY_BYTES] = {2};
        struct seal *seal = seal_create(FABRIC_MODE_AUTHENTICATE, key);
        struct frame beat_frame = {.kind = FRAME_BEAT,
                                   .session = 77,
                                   .counter = i + 1,
                                   .received = 0,
                                   .taken = (i + 1) * 1000000ull};
        frame_encode(&beat_frame, beat_bytes);
        seal_close(seal, SEAL_SPACE_BEAT, i + 1, beat_bytes, FRAME_HEADER_BYTES, FRAME_HEADER_BYTES,
                   beat_bytes + FRAME_HEADER_BYTES);
        channel_receive(other->channel, beat_bytes, sizeof beat_bytes, &item);
        beat_frame.received = UINT64_MAX;
        beat_frame.counter = 1u << 20;
        frame_encode(&beat_frame, beat_bytes);
        seal_close(seal, SEAL_SPACE_BEAT, beat_frame.counter, beat_bytes, FRAME_HEADER_BYTES,
                   FRAME_HEADER_BYTES, beat_bytes + FRAME_HEADER_BYTES);
        assert_int_equal(channel_receive(other->channel, beat_bytes, sizeof beat_bytes, &item),
                         CHANNEL_BROKEN);
        seal_destroy(seal);
    }
    destroy(sides);
}

static int prepare(void **state)
{
    (void)state;
    return seal_prepare(NULL);
}

/* A frame is missing, and later ones have come: the sender hears of it soon, once for each frame that is
 * missing. */
static void gap_is_told(void **state)
{
    (void)state;
    static struct side sides[2];
    uint8_t bytes[FRAME_HEADER_BYTES + SEAL_MAC_BYTES];
    make(sides, FABRIC_MODE_AUTHENTICATE);
    for (unsigned i = 0; i < 4; i++) {
        put(&sides[0]);
        while (channel_next(sides[0].channel, &(size_t){0}))
            send_next(&sides[0], &sides[1]);
    }
    sides[1].on_wire--; /* the first one is lost */
    memmove(&sides[1].wire[0], &sides[1].wire[1], sides[1].on_wire * sizeof sides[1].wire[0]);
    while (sides[1].on_wire > 0)
        assert_int_equal(come(&sides[1], 0, false), CHANNEL_OLD);
    for (unsigned beats = 0; channel_owes_beat(sides[1].channel); beats++) {
        assert_in_range(beats, 0, 2);
        lay(&sides[0], bytes, channel_beat(sides[1].channel, bytes));
        come(&sides[0], 0, false);
    }
    assert_true(channel_is_stuck(sides[0].channel));
    assert_true(channel_rewind(sides[0].channel) > 0);
    send_next(&sides[0], &sides[1]);
    while (channel_next(sides[0].channel, &(size_t){0}))
        send_next(&sides[0], &sides[1]);
    while (sides[1].on_wire > 0)
        come(&sides[1], 0, false);
    assert_int_equal(sides[1].came, 4);
    assert_false(channel_owes_beat(sides[1].channel));
    destroy(sides);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_comes_over_a_bad_wire),
        cmocka_unit_test(repeated_frames_are_old),
        cmocka_unit_test(gap_is_told),
        cmocka_unit_test(window_and_queue_are_bounded),
        cmocka_unit_test(breach_ends_the_session),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
