/* epoch_message_test.c - decisions and answers, as messages and back. */
#include "coord/epoch_message.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Of 3 ranks on 2 members; the caller frees it. */
static struct epoch_start *make_start(void)
{
    struct epoch_start *start = epoch_start_create(2, 3);
    start->epoch = 3;
    start->line = 8;
    start->last_line = 9;
    start->coordinator = 1;
    start->members[1] = 5;
    start->incarnations[0] = UINT64_MAX;
    start->processors[1] = UINT64_MAX;
    start->placement[2] = start->holder[1] = 1;
    start->roots[1] = (struct digest){{1, 2, 3, 4}};
    return start;
}

static void a_decision_comes_as_it_went(void **state)
{
    (void)state;
    struct epoch_start *start = make_start();
    Belay__Wire__EpochRecord record = epoch_message_of_start(start, "job");
    assert_string_equal(record.job, "job");
    struct epoch_start *came = epoch_message_to_start(&record);
    assert_non_null(came);
    assert_int_equal(came->epoch, 3);
    assert_int_equal(came->line, 8);
    assert_int_equal(came->last_line, 9);
    assert_int_equal(came->coordinator, 1);
    assert_int_equal(came->rank_count, 3);
    assert_memory_equal(came->members, start->members, 2 * sizeof(uint32_t));
    assert_memory_equal(came->incarnations, start->incarnations, 2 * sizeof(uint64_t));
    assert_memory_equal(came->processors, start->processors, 2 * sizeof(uint64_t));
    assert_memory_equal(came->placement, start->placement, 3 * sizeof(uint32_t));
    assert_memory_equal(came->holder, start->holder, 3 * sizeof(uint32_t));
    assert_memory_equal(came->roots, start->roots, 3 * sizeof(struct digest));
    free(came);
    free(start);
}

static void a_decision_without_roots_or_ranks_is_one(void **state)
{
    (void)state;
    struct epoch_start *start = make_start();
    Belay__Wire__EpochRecord record = epoch_message_of_start(start, "job");
    record.roots.len = 0; /* a record of former versions */
    struct epoch_start *came = epoch_message_to_start(&record);
    assert_non_null(came);
    assert_false(digest_is_known(&came->roots[1]));
    free(came);
    record.n_placement = record.n_holder = 0; /* nobody knows where they are yet */
    came = epoch_message_to_start(&record);
    assert_non_null(came);
    assert_int_equal(came->rank_count, 0);
    free(came);
    free(start);
}

static void a_damaged_decision_is_refused(void **state)
{
    (void)state;
    struct epoch_start *start = make_start();
    Belay__Wire__EpochRecord record = epoch_message_of_start(start, "job");
    record.roots.len--;
    assert_null(epoch_message_to_start(&record));
    start->holder[0] = 2;
    record = epoch_message_of_start(start, "job");
    assert_null(epoch_message_to_start(&record));
    assert_int_equal(errno, EBADMSG);
    free(start);
}

static void a_decision_keeps_its_members_with_other_ranks(void **state)
{
    (void)state;
    struct epoch_start *start = make_start();
    struct epoch_start *more = epoch_start_resize(start, 5), *fewer = epoch_start_resize(start, 2);
    assert_int_equal(more->rank_count, 5);
    assert_int_equal(fewer->rank_count, 2);
    assert_int_equal(more->epoch, 3);
    assert_int_equal(fewer->coordinator, 1);
    assert_memory_equal(more->members, start->members, 2 * sizeof(uint32_t));
    assert_memory_equal(fewer->incarnations, start->incarnations, 2 * sizeof(uint64_t));
    assert_memory_equal(more->placement, ((uint32_t[]){0, 0, 1, 0, 0}), 5 * sizeof(uint32_t));
    assert_memory_equal(fewer->holder, ((uint32_t[]){0, 1}), 2 * sizeof(uint32_t));
    assert_true(digest_is_equal(&more->roots[1], &start->roots[1]) && !digest_is_known(&more->roots[4]));
    free(more);
    free(fewer);
    free(start);
}

static const struct holding held[] = {{.image_line = 4},
                                      {.image_line = 3, .staging_line = 4, .base_line = 3}};
static const struct rank_size sizes[] = {{100, 1, 0}, {200, 2, 1}};
static const struct digest roots[] = {{{1}}, {{2}}, {{3}}, {{4, 5, 6, 7}}};
static const struct refuted refuted[] = {{2, 1, 4}};
static const struct epoch_state answer = {.incarnation = 77,
                                          .last_line = 6,
                                          .committed_line = 4,
                                          .protected_line = 5,
                                          .protected_epoch = 2,
                                          .entered_epoch = 3,
                                          .room = EPOCH_NO_LIMIT,
                                          .memory = {.is_known = true,
                                                     .limit_bytes = UINT64_MAX,
                                                     .machine_bytes = 9,
                                                     .machine = 11,
                                                     .sizes = sizes},
                                          .held_count = 2,
                                          .held = held,
                                          .roots = roots,
                                          .committed_root = {{8, 9}},
                                          .refuted = refuted,
                                          .refuted_count = 1};

static void an_answer_comes_as_it_went(void **state)
{
    (void)state;
    struct epoch_state came;
    Belay__Wire__NodeState message = epoch_message_of_state(&answer);
    assert_int_equal(epoch_message_to_state(&message, &came), 0);
    assert_true(came.incarnation == 77 && came.last_line == 6 && came.committed_line == 4 &&
                came.protected_line == 5 && came.protected_epoch == 2 && came.entered_epoch == 3 &&
                came.room == EPOCH_NO_LIMIT);
    assert_int_equal(came.held_count, 2);
    assert_memory_equal(came.held, held, sizeof held);
    assert_memory_equal(came.roots, roots, sizeof roots);
    assert_true(digest_is_equal(&came.committed_root, &answer.committed_root));
    assert_int_equal(came.refuted_count, 1);
    assert_memory_equal(came.refuted, refuted, sizeof refuted);
    assert_true(came.memory.is_known && came.memory.limit_bytes == UINT64_MAX &&
                came.memory.machine_bytes == 9 && came.memory.machine == 11);
    assert_memory_equal(came.memory.sizes, sizes, sizeof sizes);
}

static void an_answer_of_an_agent_that_knows_less_is_one(void **state)
{
    (void)state;
    struct epoch_state came, without = answer;
    without.memory = (struct epoch_memory){0};
    without.roots = NULL;
    without.committed_root = (struct digest){{0}};
    Belay__Wire__NodeState message = epoch_message_of_state(&without);
    assert_int_equal(epoch_message_to_state(&message, &came), 0);
    assert_null(came.roots);
    assert_false(digest_is_known(&came.committed_root));
    assert_true(!came.memory.is_known && !came.memory.sizes);
}

/* Of ranks of which a node has nothing, nothing is told. */
static void an_answer_tells_what_there_is(void **state)
{
    (void)state;
    const struct holding sparse[] = {{0}, {.image_line = 4}, {0}, {.staging_line = 5}, {0}};
    const struct digest known[] = {{{0}}, {{0}}, {{7}}, {{0}}, {{0}}, {{0}}, {{0}}, {{8}}, {{0}}, {{0}}};
    struct epoch_state went = answer, came;
    went.held_count = 5;
    went.held = sparse;
    went.roots = known;
    went.memory.sizes = NULL;
    struct epoch_state *copy = epoch_state_copy(&went);
    Belay__Wire__NodeState message = epoch_message_of_state(copy);
    assert_int_equal(epoch_message_to_state(&message, &came), 0);
    assert_int_equal(came.held_count, 2);
    assert_memory_equal(came.ranks, ((uint32_t[]){1, 3}), 2 * sizeof(uint32_t));
    assert_null(epoch_state_holding(&came, 0));
    assert_null(epoch_state_holding(&came, 2));
    assert_null(epoch_state_holding(&came, 4));
    assert_int_equal(epoch_state_holding(&came, 1)->image_line, 4);
    assert_int_equal(epoch_state_holding(&came, 3)->staging_line, 5);
    assert_true(digest_is_equal(epoch_state_root(&came, 5, 3), &known[7]));
    assert_true(digest_is_equal(epoch_state_root(&came, 4, 1), &known[2]));
    assert_memory_equal(came.refuted, refuted, sizeof refuted);
    free(copy);
}

static void a_damaged_answer_is_refused(void **state)
{
    (void)state;
    struct epoch_state came;
    const Belay__Wire__NodeState sound = epoch_message_of_state(&answer);
    Belay__Wire__NodeState damaged[10];
    uint32_t again[] = {4, 4}, many[] = {4, UINT32_MAX};
    for (int i = 0; i < 10; i++)
        damaged[i] = sound;
    damaged[0].roots.len -= DIGEST_BYTES;
    damaged[1].committed_root.len = 31;
    damaged[2].n_refuted--;
    damaged[3].n_sizes = 5;
    damaged[4].n_sizes = 3;
    damaged[5].n_held = 5;
    damaged[6].incarnation = 0;
    damaged[7].ranks = damaged[8].ranks = again;
    damaged[7].n_ranks = 2;
    damaged[8].n_ranks = 1;
    damaged[9].ranks = many;
    damaged[9].n_ranks = 2;
    for (int i = 0; i < 10; i++) {
        errno = 0;
        assert_int_equal(epoch_message_to_state(&damaged[i], &came), -1);
        assert_int_equal(errno, EBADMSG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decision_comes_as_it_went),
        cmocka_unit_test(a_decision_without_roots_or_ranks_is_one),
        cmocka_unit_test(a_damaged_decision_is_refused),
        cmocka_unit_test(a_decision_keeps_its_members_with_other_ranks),
        cmocka_unit_test(an_answer_comes_as_it_went),
        cmocka_unit_test(an_answer_of_an_agent_that_knows_less_is_one),
        cmocka_unit_test(an_answer_tells_what_there_is),
        cmocka_unit_test(a_damaged_answer_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
