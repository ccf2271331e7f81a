/* peer_message_fuzz_test.c - damaged messages of agents: refused, or what is handed on is within bounds. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/test/fuzz.h"
#include "common/wire/peer_message.h"

#define ROUNDS 40000
#define ROOM 4096
#define WORLD 8u

static uint8_t *make(struct fuzz *fuzz, size_t *bytes)
{
    static const enum peer_kind kinds[] = {PEER_CLOCKS, PEER_REPORT,  PEER_READY,
                                           PEER_PARKED, PEER_RESUMED, PEER_ABORTED};
    static const struct coord_clock clocks[] = {{1, 1, 2, 8}, {UINT64_MAX, 7, 8, 8}, {3, UINT64_MAX, 0, 0}};
    static const uint32_t ranks[] = {1, 2, 7};
    static const int32_t peers[] = {0, 7, -1};
    struct peer_message message = {.kind = kinds[fuzz_below(fuzz, sizeof kinds / sizeof kinds[0])],
                                   .role = PEER_MEMBER,
                                   .node = 2,
                                   .epoch = 300,
                                   .line = 70000};
    if (message.kind == PEER_CLOCKS) {
        message.clocks = clocks;
        message.clock_count = 3;
    } else if (message.kind == PEER_REPORT) {
        message.targets_version = 2;
        message.report = (struct peer_report){
            .rank = 7, .state = PEER_RANK_WAITING, .comm = 1, .seq = 1, .peer_count = 3, .peers = peers};
    } else if (message.kind == PEER_READY) {
        message.line = 0;
        message.ranks = ranks;
        message.rank_count = 3;
    } else if (message.kind == PEER_ABORTED) {
        message.reason = "no memory";
    }
    return peer_message_pack(&message, bytes);
}

static volatile uint64_t read; /* so that all of it is */

static void assert_within_bounds(const struct peer_message *message)
{
    assert_int_equal(message->role, PEER_MEMBER);
    assert_int_equal(message->node, 2);
    assert_int_equal(message->epoch, 300);
    assert_true(message->clock_count <= PEER_MAX_CLOCKS);
    for (uint32_t i = 0; i < message->clock_count; i++)
        assert_true(message->clocks[i].seen <= WORLD && message->clocks[i].size <= WORLD);
    for (uint32_t i = 0; i < message->clock_count; i++)
        read = message->clocks[i].comm ^ message->clocks[i].seq;
    for (uint32_t i = 0; i < message->rank_count; i++)
        assert_true(message->ranks[i] < WORLD && (i == 0 || message->ranks[i] > message->ranks[i - 1]));
    assert_true(message->report.rank < WORLD && message->report.peer_count <= PEER_MAX_PEERS);
    for (uint32_t i = 0; i < message->report.peer_count; i++)
        assert_true(message->report.peers[i] < (int32_t)WORLD);
    assert_true(!message->reason || strlen(message->reason) <= PEER_MAX_REASON);
}

static void damaged_messages(void **state)
{
    (void)state;
    const struct peer_expected expected = {.role = PEER_MEMBER, .node = 2, .epoch = 300, .ranks = WORLD};
    struct fuzz fuzz = fuzz_begin("damaged messages of agents");
    size_t whole = 0, refused = 0;
    for (unsigned round = 0; round < fuzz_rounds(ROUNDS); round++) {
        struct belay_error err = {0};
        struct peer_message message;
        uint8_t damaged[ROOM];
        size_t bytes;
        uint8_t *packed = make(&fuzz, &bytes);
        assert_non_null(packed);
        memcpy(damaged, packed, bytes);
        free(packed);
        fuzz_damage(&fuzz, damaged, &bytes, sizeof damaged);
        uint8_t *exact = malloc(bytes + 1); /* so that a sanitizer sees what is read beyond it */
        memcpy(exact, damaged, bytes);
        struct peer_unpacked *unpacked = peer_message_unpack(exact, bytes, &expected, &message, &err);
        if (unpacked)
            assert_within_bounds(&message);
        else
            assert_int_equal(err.code, EBADMSG);
        whole += unpacked != NULL;
        refused += unpacked == NULL;
        peer_message_release(unpacked);
        free(exact);
    }
    assert_true(whole > ROUNDS / 100);
    assert_true(refused > ROUNDS / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(damaged_messages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
