/* epoch_message_test.c - decisions and answers, as messages and back. */
#include "coord/epoch_message.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_decision_comes_as_it_went(void **state)
{
    (void)state;
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
    record.roots.len--;
    assert_null(epoch_message_to_start(&record));
    record.roots.len = 0; /* a record of former versions */
    came = epoch_message_to_start(&record);
    assert_false(digest_is_known(&came->roots[1]));
    free(came);
    record.n_placement = record.n_holder = 0; /* nobody knows where they are yet */
    came = epoch_message_to_start(&record);
    assert_int_equal(came->rank_count, 0);
    free(came);
    start->holder[0] = 2;
    record = epoch_message_of_start(start, "job");
    assert_null(epoch_message_to_start(&record));
    assert_int_equal(errno, EBADMSG);
    free(start);
}

static void an_answer_comes_as_it_went(void **state)
{
    (void)state;
    const struct holding held[] = {{.image_line = 4}, {.image_line = 3, .staging_line = 4, .base_line = 3}};
    const struct rank_size sizes[] = {{100, 1, 0}, {200, 2, 1}};
    const struct digest roots[] = {{{1}}, {{2}}, {{3}}, {{4, 5, 6, 7}}};
    const struct refuted refuted[] = {{2, 1, 4}};
    const struct epoch_state went = {.incarnation = 77,
                                     .last_line = 6,
                                     .committed_line = 4,
                                     .protected_line = 5,
                                     .protected_epoch = 2,
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
    struct epoch_state came, without = went;
    Belay__Wire__NodeState message = epoch_message_of_state(&went);
    assert_int_equal(epoch_message_to_state(&message, &came), 0);
    assert_true(came.incarnation == 77 && came.last_line == 6 && came.committed_line == 4 &&
                came.protected_line == 5 && came.protected_epoch == 2 && came.room == EPOCH_NO_LIMIT);
    assert_int_equal(came.held_count, 2);
    assert_memory_equal(came.held, held, sizeof held);
    assert_memory_equal(came.roots, roots, sizeof roots);
    assert_true(digest_is_equal(&came.committed_root, &went.committed_root));
    assert_int_equal(came.refuted_count, 1);
    assert_memory_equal(came.refuted, refuted, sizeof refuted);
    message.roots.len -= DIGEST_BYTES;
    assert_int_equal(epoch_message_to_state(&message, &came), -1);
    message.roots.len = 0; /* of an agent that knows none */
    message.committed_root.len = 0;
    assert_int_equal(epoch_message_to_state(&message, &came), 0);
    assert_null(came.roots);
    assert_false(digest_is_known(&came.committed_root));
    message.committed_root.len = 31;
    assert_int_equal(epoch_message_to_state(&message, &came), -1);
    message.committed_root.len = 0;
    message.n_refuted--;
    assert_int_equal(epoch_message_to_state(&message, &came), -1);
    message.n_refuted++;
    assert_true(came.memory.is_known && came.memory.limit_bytes == UINT64_MAX &&
                came.memory.machine_bytes == 9 && came.memory.machine == 11);
    assert_memory_equal(came.memory.sizes, sizes, sizeof sizes);
    message.n_sizes = 5;
    assert_int_equal(epoch_message_to_state(&message, &came), -1);
    message.n_sizes = 3;
    assert_int_equal(epoch_message_to_state(&message, &came), -1);
    without.memory = (struct epoch_memory){0};
    message = epoch_message_of_state(&without);
    assert_int_equal(epoch_message_to_state(&message, &came), 0);
    assert_true(!came.memory.is_known && !came.memory.sizes);
    message.n_held = 5;
    assert_int_equal(epoch_message_to_state(&message, &came), -1);
    assert_int_equal(errno, EBADMSG);
    message.n_held = 6;
    message.incarnation = 0;
    assert_int_equal(epoch_message_to_state(&message, &came), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decision_comes_as_it_went),
        cmocka_unit_test(an_answer_comes_as_it_went),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
