/* peer_message_test.c - what agents say to one another comes as it was sent, or not at all. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire/peer_message.h"

static const struct peer_expected member = {.role = PEER_MEMBER, .node = 3, .epoch = 7, .ranks = 16};
static const struct peer_expected host = {.role = PEER_HOST, .node = 3, .epoch = 7, .ranks = 16};

static struct peer_message word(enum peer_kind kind, uint64_t line)
{
    return (struct peer_message){.kind = kind, .role = PEER_MEMBER, .node = 3, .epoch = 7, .line = line};
}

static struct peer_unpacked *carry(const struct peer_message *sent, const struct peer_expected *expected,
                                   struct peer_message *came)
{
    struct belay_error err = {0};
    size_t bytes = 0;
    uint8_t *packed = peer_message_pack(sent, &bytes);
    assert_non_null(packed);
    struct peer_unpacked *unpacked = peer_message_unpack(packed, bytes, expected, came, &err);
    assert_true(unpacked || err.code == EBADMSG);
    free(packed);
    return unpacked;
}

static void assert_refused(const struct peer_message *sent, const struct peer_expected *expected)
{
    struct peer_message came;
    assert_null(carry(sent, expected, &came));
}

static void an_order_comes_whole(void **state)
{
    (void)state;
    const struct coord_clock clocks[] = {{.comm = UINT64_MAX, .seq = 1, .size = 9},
                                         {.comm = 5, .seq = UINT64_MAX}};
    const struct peer_message sent = {.kind = PEER_TARGETS,
                                      .role = PEER_HOST,
                                      .node = 3,
                                      .epoch = 7,
                                      .line = 9,
                                      .targets_version = 2,
                                      .clocks = clocks,
                                      .clock_count = 2};
    struct peer_message came;
    struct peer_unpacked *unpacked = carry(&sent, &host, &came);
    assert_non_null(unpacked);
    assert_int_equal(came.kind, PEER_TARGETS);
    assert_int_equal(came.line, 9);
    assert_int_equal(came.targets_version, 2);
    assert_int_equal(came.clock_count, 2);
    assert_memory_equal(came.clocks, clocks, sizeof clocks);
    assert_null(came.reason);
    peer_message_release(unpacked);
    assert_refused(&sent, &member); /* an order of somebody who gives none */
}

/* Only of a line that is given up. */
static void what_is_refuted_is_told(void **state)
{
    (void)state;
    struct peer_message sent = word(PEER_ABORTED, 9), came;
    sent.is_refuted = true;
    struct peer_unpacked *unpacked = carry(&sent, &member, &came);
    assert_non_null(unpacked);
    assert_true(came.is_refuted);
    peer_message_release(unpacked);
    sent.kind = PEER_CAPTURED;
    assert_refused(&sent, &member);
}

/* Members decide nothing of it themselves. */
static void what_is_archived_is_told_with_the_commit(void **state)
{
    (void)state;
    struct peer_message sent = {.kind = PEER_COMMIT, .role = PEER_HOST, .node = 3, .epoch = 7, .line = 9},
                        came;
    sent.archives = true;
    struct peer_unpacked *unpacked = carry(&sent, &host, &came);
    assert_non_null(unpacked);
    assert_true(came.archives);
    peer_message_release(unpacked);
    sent.kind = PEER_PROTECT;
    assert_refused(&sent, &host);
}

static void clocks_come_with_their_counts(void **state)
{
    (void)state;
    const struct coord_clock clocks[] = {{.comm = 4, .seq = 1, .seen = 2, .size = 16},
                                         {.comm = 5, .seq = 7, .seen = 1}};
    const struct coord_clock many = {.comm = 4, .seq = 1, .seen = 17, .size = 16};
    struct peer_message sent = word(PEER_CLOCKS, 9), came;
    sent.clocks = clocks;
    sent.clock_count = 2;
    struct peer_unpacked *unpacked = carry(&sent, &member, &came);
    assert_non_null(unpacked);
    assert_int_equal(came.clock_count, 2);
    assert_memory_equal(came.clocks, clocks, sizeof clocks);
    peer_message_release(unpacked);
    sent.clocks = &many; /* of more ranks than there are */
    sent.clock_count = 1;
    assert_refused(&sent, &member);
}

static void a_demand_names_ranks_or_none(void **state)
{
    (void)state;
    const uint32_t ranks[] = {3, 15}, outside[] = {16};
    struct peer_message sent = word(PEER_DEMAND, 9), came;
    sent.role = PEER_HOST;
    sent.targets_version = 2;
    for (uint32_t count = 0; count <= 2; count += 2) {
        sent.ranks = ranks;
        sent.rank_count = count;
        struct peer_unpacked *unpacked = carry(&sent, &host, &came);
        assert_non_null(unpacked);
        assert_int_equal(came.targets_version, 2);
        assert_int_equal(came.rank_count, count);
        peer_message_release(unpacked);
    }
    sent.ranks = outside;
    sent.rank_count = 1;
    assert_refused(&sent, &host);
    sent.rank_count = 0;
    sent.targets_version = 0;
    assert_refused(&sent, &host);
}

static void a_report_comes_whole(void **state)
{
    (void)state;
    const int32_t peers[] = {15, 0, -1};
    struct peer_message sent = word(PEER_REPORT, 9), came;
    sent.targets_version = 4;
    sent.report = (struct peer_report){.rank = 15,
                                       .state = PEER_RANK_WAITING,
                                       .is_below = true,
                                       .comm = 1,
                                       .seq = 2,
                                       .peer_count = 3,
                                       .peers = peers};
    struct peer_unpacked *unpacked = carry(&sent, &member, &came);
    assert_non_null(unpacked);
    assert_int_equal(came.report.rank, 15);
    assert_int_equal(came.report.state, PEER_RANK_WAITING);
    assert_true(came.report.is_below);
    assert_int_equal(came.report.peer_count, 3);
    assert_memory_equal(came.report.peers, peers, sizeof peers);
    peer_message_release(unpacked);
}

static void measures_come_whole(void **state)
{
    (void)state;
    struct peer_message sent = word(PEER_RESUMED, 9), came;
    sent.measures = (struct peer_measures){1,
                                           2,
                                           3,
                                           4,
                                           5,
                                           6,
                                           UINT64_MAX,
                                           {8, 9, 10, 11, 12, 13, 14, 15},
                                           {16, 17, 18, 19, 20, 21},
                                           {22, 23, 24, 25, 26, 27, 28, 29, 30, 31}};
    struct peer_unpacked *unpacked = carry(&sent, &member, &came);
    assert_non_null(unpacked);
    assert_memory_equal(&came.measures, &sent.measures, sizeof sent.measures);
    peer_message_release(unpacked);
}

static void a_long_reason_is_cut(void **state)
{
    (void)state;
    char reason[2 * PEER_MAX_REASON];
    struct peer_message sent = word(PEER_LOST, 0), came;
    memset(reason, 'x', sizeof reason);
    reason[sizeof reason - 1] = '\0';
    sent.reason = reason;
    struct peer_unpacked *unpacked = carry(&sent, &member, &came);
    assert_non_null(unpacked);
    assert_int_equal(strlen(came.reason), PEER_MAX_REASON);
    peer_message_release(unpacked);
}

static void ranks_may_be_none(void **state)
{
    (void)state;
    const uint32_t ranks[] = {0, 3, 15}, twice[] = {3, 3}, outside[] = {16};
    struct peer_message sent = word(PEER_READY, 0), came;
    struct peer_unpacked *unpacked = carry(&sent, &member, &came);
    assert_non_null(unpacked);
    assert_int_equal(came.rank_count, 0);
    peer_message_release(unpacked);
    sent.ranks = ranks;
    sent.rank_count = 3;
    unpacked = carry(&sent, &member, &came);
    assert_non_null(unpacked);
    assert_memory_equal(came.ranks, ranks, sizeof ranks);
    peer_message_release(unpacked);
    sent.ranks = twice;
    sent.rank_count = 2;
    assert_refused(&sent, &member);
    sent.ranks = outside;
    sent.rank_count = 1;
    assert_refused(&sent, &member);
}

static void another_sender_is_refused(void **state)
{
    (void)state;
    const struct peer_message sent = word(PEER_PARKED, 9);
    struct peer_expected expected = member;
    expected.node = 4;
    assert_refused(&sent, &expected);
    expected = member;
    expected.epoch = 8;
    assert_refused(&sent, &expected);
    assert_refused(&sent, &host);
}

static void what_a_kind_does_not_carry_is_refused(void **state)
{
    (void)state;
    const struct coord_clock clock = {.comm = 1, .seq = 1};
    const int32_t peer = 16;
    struct peer_message sent = word(PEER_PARKED, 0); /* of no line */
    assert_refused(&sent, &member);
    sent = word(PEER_CLOSE, 1); /* of a line */
    assert_refused(&sent, &member);
    sent = word(PEER_PARKED, 9);
    sent.clocks = &clock;
    sent.clock_count = 1;
    assert_refused(&sent, &member);
    sent = word(PEER_PARKED, 9);
    sent.targets_version = 1;
    assert_refused(&sent, &member);
    sent = word(PEER_PARKED, 9);
    sent.reason = "why";
    assert_refused(&sent, &member);
    sent = word(PEER_REPORT, 9);
    sent.targets_version = 1;
    assert_refused(&sent, &member); /* no state */
    sent.report.state = PEER_RANK_RUNNING;
    sent.report.rank = 16;
    assert_refused(&sent, &member);
    sent.report = (struct peer_report){.state = PEER_RANK_WAITING, .peer_count = 1, .peers = &peer};
    assert_refused(&sent, &member);
    sent = word((enum peer_kind)0, 9);
    assert_refused(&sent, &member);
}

static void too_much_is_not_sent(void **state)
{
    (void)state;
    struct peer_message sent = word(PEER_REPORT, 9);
    size_t bytes;
    sent.report.peer_count = PEER_MAX_PEERS + 1;
    assert_null(peer_message_pack(&sent, &bytes));
    assert_int_equal(errno, EMSGSIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_comes_whole),
        cmocka_unit_test(what_is_refuted_is_told),
        cmocka_unit_test(what_is_archived_is_told_with_the_commit),
        cmocka_unit_test(clocks_come_with_their_counts),
        cmocka_unit_test(a_demand_names_ranks_or_none),
        cmocka_unit_test(a_report_comes_whole),
        cmocka_unit_test(measures_come_whole),
        cmocka_unit_test(a_long_reason_is_cut),
        cmocka_unit_test(ranks_may_be_none),
        cmocka_unit_test(another_sender_is_refused),
        cmocka_unit_test(what_a_kind_does_not_carry_is_refused),
        cmocka_unit_test(too_much_is_not_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
