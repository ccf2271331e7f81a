/*
 * fetch_test.c - an image fetched from one member by another: what is lent and to whom, what is kept, what
 * damaged words and data do.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/image/root.h"
#include "common/image/sums.h"
#include "node-agent/test/fetch_pair.h"

#define ROUNDS 400

static void an_image_is_fetched(void **state)
{
    (void)state;
    pair_begin();
    pair_deliver(NULL);
    assert_int_equal(pair_sides[1].err.code, 0);
    assert_int_equal(pair_sides[1].machine.images, 1);
    assert_int_equal(parts_line(store_image(pair_sides[1].job.store, 1)), LINE);
    for (uint64_t page = 0; page < 4; page++)
        assert_int_equal(parts_byte(store_image(pair_sides[1].job.store, 1), page),
                         parts_byte(store_image(pair_sides[0].job.store, 1), page));
    assert_int_equal(store_image(pair_sides[1].job.store, 0), -1);
    assert_int_equal(store_image_pins(pair_sides[0].job.store, 1), 0);
    assert_true(pair_sides[1].job.fetch_ms > 0);
}

/* The arbiter's decision tells the root of what is to come. */
static void another_image_is_refused(void **state)
{
    (void)state;
    fetch_destroy(pair_sides[1].fetch);
    assert_int_equal(root_of_image(store_image(pair_sides[0].job.store, 1), -1, &pair_start->roots[1], NULL),
                     0);
    pair_sides[1].fetch = fetch_create(&pair_sides[1].job, &pair_sides[1].remotes, pair_start, NULL);
    setenv("BELAY_FAULT", "agent.fetch.send@1=error", 1);
    pair_begin();
    pair_deliver(NULL);
    pair_assert_failed("what has come is another image than the one that was committed");
    assert_int_equal(pair_sides[1].machine.refuted, 1);
    unsetenv("BELAY_FAULT");
}

static void the_image_with_the_root_is_fetched(void **state)
{
    struct digest roots[4];
    (void)state;
    fetch_destroy(pair_sides[1].fetch);
    assert_int_equal(root_of_image(store_image(pair_sides[0].job.store, 1), -1, &pair_start->roots[1], NULL),
                     0);
    pair_sides[1].fetch = fetch_create(&pair_sides[1].job, &pair_sides[1].remotes, pair_start, NULL);
    pair_begin();
    pair_deliver(NULL);
    assert_int_equal(pair_sides[1].machine.images, 1);
    assert_int_equal(pair_sides[1].machine.refuted, 0);
    store_list_roots(pair_sides[1].job.store, roots);
    assert_true(digest_is_equal(&roots[2], &pair_start->roots[1]));
}

static void it_is_pinned_on_its_way(void **state)
{
    (void)state;
    pair_begin();
    pair_deliver_one(NULL); /* the word */
    assert_int_equal(store_image_pins(pair_sides[0].job.store, 1), 1);
    fetch_destroy(pair_sides[0].fetch);
    pair_sides[0].fetch = NULL;
    assert_int_equal(store_image_pins(pair_sides[0].job.store, 1), 0);
    pair_deliver(NULL);
    pair_assert_failed("rank 1 cannot be fetched from node 0");
}

static void what_is_not_held_is_told(void **state)
{
    (void)state;
    store_note_damage(pair_sides[0].job.store, 1);
    pair_begin();
    pair_deliver(NULL);
    pair_assert_failed("it is not held there");
}

static void what_is_shared_is_fetched_with_its_rank(void **state)
{
    (void)state;
    pair_share();
    pair_begin();
    pair_deliver(NULL);
    assert_int_equal(pair_sides[1].err.code, 0);
    assert_int_equal(pair_sides[1].machine.images, 1);
    assert_int_equal(parts_line(store_image(pair_sides[1].job.store, 1)), LINE);
    assert_int_equal(parts_line(store_image(pair_sides[1].job.store, 3)), LINE);
    const struct digest root = store_image_root(pair_sides[1].job.store, 1);
    assert_true(digest_is_equal(&root, &pair_start->roots[1]));
}

static void another_image_of_what_is_shared_is_refused(void **state)
{
    (void)state;
    pair_share();
    setenv("BELAY_FAULT", "agent.fetch.send@3=error", 1);
    pair_begin();
    pair_deliver(NULL);
    pair_assert_failed("what it shares, cannot be fetched from node 0: what has come is another image");
    assert_int_equal(pair_sides[1].machine.refuted, 1);
    unsetenv("BELAY_FAULT");
}

static void a_lost_link_is_told(void **state)
{
    const struct remotes_ops *ops = pair_sides[1].remotes.ops;
    (void)state;
    pair_begin();
    ops->lost(pair_sides[1].remotes.ops_context, 5); /* of another node */
    uv_run(&pair_loop, UV_RUN_NOWAIT);
    assert_int_equal(pair_sides[1].told, 0);
    ops->lost(pair_sides[1].remotes.ops_context, 0);
    ops->lost(pair_sides[1].remotes.ops_context, 0);
    pair_deliver(NULL);
    pair_assert_failed("the link to it is lost");
}

static void memory_is_short(void **state)
{
    (void)state;
    pair_sides[1].settings.memory_bytes = 1;
    pair_begin();
    pair_deliver(NULL);
    pair_assert_failed("there is not enough memory for it");
}

/* Nobody hears of the end, and nothing is kept. */
static void nobody_waits_any_more(void **state)
{
    (void)state;
    pair_begin();
    pair_deliver_one(NULL);
    pair_deliver_one(NULL); /* it is being checked */
    fetch_destroy(pair_sides[1].fetch);
    pair_sides[1].fetch = NULL;
    uv_run(&pair_loop, UV_RUN_DEFAULT);
    assert_int_equal(pair_sides[1].told, 0);
    assert_int_equal(store_image_line(pair_sides[1].job.store, 1), 0);
}

/* Only the member that runs the rank gets the image, and only of this epoch and line. */
static void it_is_lent_to_nobody_else(void **state)
{
    const struct fetch_note own = pair_note(FETCH_NOTE_WANT, 1), other = pair_note(FETCH_NOTE_WANT, 0);
    struct fetch_note wrong[4] = {own, own, own, own};
    (void)state;
    wrong[0].epoch++;
    wrong[1].line--;
    wrong[2].part = 4;
    wrong[3].magic++;
    for (unsigned i = 0; i < 4; i++)
        pair_say(0, 1, &wrong[i], sizeof wrong[i]);
    pair_say(0, 1, &own, sizeof own - 1);
    assert_null(pair_in_transit);
    pair_say(0, 5, &own, sizeof own);   /* from a node that does not run it */
    pair_say(0, 1, &other, sizeof own); /* of a rank that runs here */
    for (unsigned i = 0; i < 2; i++) {
        struct fetch_note answer;
        assert_non_null(pair_in_transit);
        assert_true(pair_in_transit->is_word);
        memcpy(&answer, pair_in_transit->tag, sizeof answer);
        assert_int_equal(answer.kind, FETCH_NOTE_REFUSED);
        assert_int_equal(answer.error, EPERM);
        pair_deliver_one(NULL);
    }
    pair_say(0, 1, &own, sizeof own);
    pair_say(0, 1, &own, sizeof own); /* once is enough */
    assert_non_null(pair_in_transit);
    assert_null(pair_in_transit->next);
}

/* An image that nobody has asked for, of the wrong rank, or from the wrong node. */
static void only_what_is_wanted_is_taken(void **state)
{
    const struct remotes *to = &pair_sides[1].remotes;
    struct fetch_note tag = pair_note(FETCH_NOTE_IMAGE, 1);
    struct transfer_intake intake;
    (void)state;
    assert_int_equal(to->ops->offered(to->ops_context, 0, &tag, sizeof tag, BYTES, &intake), EPERM);
    pair_begin();
    assert_int_equal(to->ops->offered(to->ops_context, 5, &tag, sizeof tag, BYTES, &intake), EPERM);
    tag.part = 0;
    assert_int_equal(to->ops->offered(to->ops_context, 0, &tag, sizeof tag, BYTES, &intake), EPERM);
    tag.part = 1;
    tag.kind = FETCH_NOTE_WANT;
    assert_int_equal(to->ops->offered(to->ops_context, 0, &tag, sizeof tag, BYTES, &intake), EPROTO);
    tag.kind = FETCH_NOTE_IMAGE;
    assert_int_equal(to->ops->offered(to->ops_context, 0, &tag, sizeof tag, BYTES, &intake), 0);
    struct transfer_intake second;
    assert_int_equal(to->ops->offered(to->ops_context, 0, &tag, sizeof tag, BYTES, &second), EALREADY);
    intake.done(intake.context, ECONNRESET);
    pair_deliver(NULL);
    pair_assert_failed("the link to it is lost");
}

/* Whatever comes: it is the image, or it is not kept. */
static void damaged_data_are_not_kept(void **state)
{
    struct fuzz fuzz = fuzz_begin("damaged images");
    unsigned failed = 0, rounds = fuzz_rounds(ROUNDS);
    (void)state;
    for (unsigned round = 0; round < rounds; round++) {
        fetch_destroy(pair_sides[1].fetch);
        store_destroy(pair_sides[1].job.store, true);
        pair_open(1);
        pair_begin();
        pair_deliver(&fuzz);
        if (pair_sides[1].err.code == 0) {
            for (uint64_t page = 0; page < 4; page++)
                assert_int_equal(parts_byte(store_image(pair_sides[1].job.store, 1), page), LINE);
            continue;
        }
        pair_assert_failed("cannot be fetched from node 0");
        failed++;
    }
    assert_true(failed > rounds / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, pair_setup, pair_teardown)
        TEST(an_image_is_fetched),
        TEST(it_is_pinned_on_its_way),
        TEST(what_is_not_held_is_told),
        TEST(a_lost_link_is_told),
        TEST(memory_is_short),
        TEST(nobody_waits_any_more),
        TEST(it_is_lent_to_nobody_else),
        TEST(only_what_is_wanted_is_taken),
        TEST(another_image_is_refused),
        TEST(the_image_with_the_root_is_fetched),
        TEST(damaged_data_are_not_kept),
        TEST(what_is_shared_is_fetched_with_its_rank),
        TEST(another_image_of_what_is_shared_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
