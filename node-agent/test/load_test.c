/* load_test.c - images that are fetched while their ranks run. */
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
#include "common/util/uffd.h"
#include "node-agent/member/loads.h"
#include "node-agent/test/fetch_pair.h"

#define ROUNDS 400

static unsigned whole_told;

static void on_whole(struct job *job, uint32_t rank)
{
    assert_ptr_equal(job, &pair_sides[1].job);
    assert_int_equal(rank, 1);
    whole_told++;
}

/* Its tables have come, and no page. */
static struct load *begin_load(void)
{
    if (!uffd_demand_works())
        skip();
    pair_sides[1].settings.restore = (char *)"demand";
    whole_told = 0;
    loads_tell(fetch_loads(pair_sides[1].fetch), on_whole);
    pair_begin();
    while (pair_sides[1].told == 0) {
        if (pair_in_transit && (pair_in_transit->is_word ? !loads_count(fetch_loads(pair_sides[1].fetch))
                                                         : pair_in_transit->to == 1))
            pair_deliver_one(NULL);
        uv_run(&pair_loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(pair_sides[1].err.code, 0);
    return loads_find(fetch_loads(pair_sides[1].fetch), 1);
}

static void deliver_load(struct fuzz *damage)
{
    while (loads_count(fetch_loads(pair_sides[1].fetch)) > 0 &&
           (pair_in_transit || uv_loop_alive(&pair_loop))) {
        while (pair_in_transit)
            pair_deliver_one(damage);
        uv_run(&pair_loop, UV_RUN_NOWAIT);
    }
}

/* The rank may be launched; nobody takes what is here for an image before all of it is. */
static void an_image_is_loaded(void **state)
{
    (void)state;
    const struct load *load = begin_load();
    assert_non_null(load);
    assert_int_equal(pair_sides[1].machine.images, 1);
    assert_int_equal(parts_line(load_fd(load)), LINE);
    assert_int_equal(store_image(pair_sides[1].job.store, 1), -1);
    assert_int_equal(store_image_line(pair_sides[1].job.store, 1), 0);
    assert_int_equal(load_figures(load).here_bytes, 0);
    assert_int_equal(load_figures(load).bytes, 4 * PAGE);
    assert_int_equal(store_image_pins(pair_sides[0].job.store, 1), 1);
    int fd = dup(load_fd(load));
    deliver_load(NULL);
    assert_int_equal(whole_told, 1);
    while (pair_in_transit) /* that it is over */
        pair_deliver_one(NULL);
    assert_int_equal(store_image_pins(pair_sides[0].job.store, 1), 0);
    assert_int_equal(parts_line(store_image(pair_sides[1].job.store, 1)), LINE);
    for (uint64_t page = 0; page < 4; page++)
        assert_int_equal(parts_byte(fd, page), LINE); /* the memfd that the rank was given */
    const struct digest root = store_image_root(pair_sides[1].job.store, 1);
    struct digest wanted;
    assert_int_equal(root_of_image(store_image(pair_sides[0].job.store, 1), -1, &wanted, NULL), 0);
    assert_true(digest_is_equal(&root, &wanted));
    close(fd);
}

/* Whatever comes in place of its pages: none of it gets into the memfd, or all of it is the image's. */
static void damaged_pages_are_not_loaded(void **state)
{
    struct fuzz fuzz = fuzz_begin("damaged pages");
    unsigned failed = 0, rounds = fuzz_rounds(ROUNDS);
    (void)state;
    for (unsigned round = 0; round < rounds; round++) {
        fetch_destroy(pair_sides[1].fetch);
        store_destroy(pair_sides[1].job.store, true);
        while (pair_in_transit)
            pair_deliver_one(NULL);
        fetch_destroy(pair_sides[0].fetch); /* it would wait for the end of the former load */
        pair_sides[0].fetch = fetch_create(&pair_sides[0].job, &pair_sides[0].remotes, pair_start, NULL);
        pair_open(1);
        const struct load *load = begin_load();
        int fd = dup(load_fd(load));
        while (pair_in_transit)
            pair_deliver_one(&fuzz);
        for (int i = 0; i < 100 && !whole_told && loads_count(fetch_loads(pair_sides[1].fetch)); i++)
            uv_run(&pair_loop, UV_RUN_ONCE);
        if (whole_told == 0) {
            failed++;
            assert_int_equal(store_image_line(pair_sides[1].job.store, 1), 0);
        }
        for (uint64_t page = 0; page < 4; page++)
            assert_int_equal(parts_byte(fd, page), whole_told ? LINE : 0);
        close(fd);
    }
    assert_true(failed > rounds / 2);
}

/* Pages are sent to nobody but the member that loads the image, and no others than it has. */
static void other_pages_are_refused(void **state)
{
    struct fetch_note word = pair_note(FETCH_NOTE_WANT_PAGES, 1), answer;
    (void)state;
    word.bytes = PAGE;
    pair_say(0, 1, &word, sizeof word); /* before the tables */
    memcpy(&answer, pair_in_transit->tag, sizeof answer);
    assert_int_equal(answer.kind, FETCH_NOTE_REFUSED);
    pair_deliver_one(NULL);
    begin_load();
    while (pair_in_transit)
        pair_deliver_one(NULL);
    const uint64_t wrong[][2] = {{0, 0}, {0, 5 * PAGE}, {4 * PAGE, 1}, {UINT64_MAX, 2}, {PAGE, UINT64_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        word.offset = wrong[i][0];
        word.bytes = wrong[i][1];
        pair_say(0, 1, &word, sizeof word);
        assert_true(pair_in_transit->is_word);
        memcpy(&answer, pair_in_transit->tag, sizeof answer);
        assert_int_equal(answer.kind, FETCH_NOTE_REFUSED);
        free(pair_in_transit);
        pair_in_transit = NULL;
    }
    word.offset = 0;
    word.bytes = PAGE;
    pair_say(0, 5, &word, sizeof word);
    assert_true(pair_in_transit->is_word);
    free(pair_in_transit);
    pair_in_transit = NULL;
}

static void a_lost_link_ends_a_load(void **state)
{
    const struct remotes_ops *ops = pair_sides[1].remotes.ops;
    (void)state;
    begin_load();
    ops->lost(pair_sides[1].remotes.ops_context, 0);
    for (int i = 0; i < 3; i++)
        uv_run(&pair_loop, UV_RUN_NOWAIT);
    assert_int_equal(whole_told, 0);
    assert_int_equal(loads_count(fetch_loads(pair_sides[1].fetch)), 1); /* no line is to begin */
    assert_int_equal(store_image_line(pair_sides[1].job.store, 1), 0);
}

/* What it shares has to be there first. */
static void what_is_shared_is_not_loaded(void **state)
{
    (void)state;
    if (!uffd_demand_works())
        skip();
    pair_share();
    pair_sides[1].settings.restore = (char *)"demand";
    pair_begin();
    pair_deliver(NULL);
    assert_int_equal(pair_sides[1].err.code, 0);
    assert_int_equal(loads_count(fetch_loads(pair_sides[1].fetch)), 0);
    assert_int_equal(parts_line(store_image(pair_sides[1].job.store, 1)), LINE);
    assert_int_equal(parts_line(store_image(pair_sides[1].job.store, 3)), LINE);
    assert_int_equal(store_image_pins(pair_sides[0].job.store, 1), 0);
}

/* The group that its rank is of: the part has the number of another one. */
static void a_rank_of_a_group_that_shares_is_not_loaded(void **state)
{
    const struct store_fetched fetched = {.rank = 2, .fd = parts_image(LINE, 2), .bytes = BYTES};
    (void)state;
    if (!uffd_demand_works())
        skip();
    assert_int_equal(store_take_images(pair_sides[0].job.store, LINE, 2, &fetched, 1, NULL), 0);
    assert_true(store_shares(pair_sides[0].job.store, 1));
    pair_sides[1].settings.restore = (char *)"demand";
    pair_begin();
    pair_deliver(NULL);
    assert_int_equal(pair_sides[1].err.code, 0);
    assert_int_equal(loads_count(fetch_loads(pair_sides[1].fetch)), 0);
    assert_int_equal(parts_line(store_image(pair_sides[1].job.store, 1)), LINE);
    assert_int_equal(store_image_pins(pair_sides[0].job.store, 1), 0);
}

/* Which parts were written lately: whatever is told, or nothing, the image is the same. */
static void any_touched_set_will_do(void **state)
{
    static const char *const faults[] = {"", "agent.load.touched=error"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        if (i > 0)
            setenv("BELAY_FAULT", faults[i - 1], 1);
        pair_sides[1].settings.has_touched_window_ms = i == 0; /* nothing is asked */
        const struct load *load = begin_load();
        assert_non_null(load);
        int fd = dup(load_fd(load));
        deliver_load(NULL);
        assert_int_equal(whole_told, 1);
        for (uint64_t page = 0; page < 4; page++)
            assert_int_equal(parts_byte(fd, page), LINE);
        close(fd);
        while (pair_in_transit)
            pair_deliver_one(NULL);
        fetch_destroy(pair_sides[1].fetch);
        store_destroy(pair_sides[1].job.store, true);
        pair_open(1);
    }
    unsetenv("BELAY_FAULT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, pair_setup, pair_teardown)
        TEST(an_image_is_loaded),           TEST(damaged_pages_are_not_loaded),
        TEST(other_pages_are_refused),      TEST(a_lost_link_ends_a_load),
        TEST(what_is_shared_is_not_loaded), TEST(a_rank_of_a_group_that_shares_is_not_loaded),
        TEST(any_touched_set_will_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
