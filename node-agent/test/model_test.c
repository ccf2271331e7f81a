/* model_test.c - AG-ckpt's theorems by hand, and the choice of a granularity for deltas that the test makes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "node-agent/delta/choice.h"
#include "node-agent/delta/model.h"

#define PAGE IMAGE_PAGE_BYTES
#define PAGES 1000u

static void expect_near(double is, double should)
{
    if (fabs(is - should) > 1e-9 * fabs(should) + 1e-15)
        fail_msg("%g is not %g", is, should);
}

static void theorem_3(void **state)
{
    (void)state;
    struct model_memory memory = {.share = 0.5};
    expect_near(model_exponent(1), 0);
    expect_near(model_exponent(0.5), 1);
    expect_near(model_exponent(0.25), 2);
    for (double halving = 0.5; halving <= 1; halving += 0.05) {
        memory.exponent = model_exponent(halving);
        double share = memory.share;
        for (double g = 1; g <= 64; g *= 2, share *= halving) /* by halves, and by the power */
            expect_near(model_share(&memory, g), share);
        expect_near(model_exponent_of(memory.share, model_share(&memory, 64), 64), memory.exponent);
    }
    expect_near(model_exponent_of(0.1, 0, 64), 0);
    expect_near(model_exponent_of(0, 0, 64), 0);
    expect_near(model_exponent(0), 0);
}

static void theorems_1_and_2(void **state)
{
    (void)state;
    const struct model_costs costs = {.detect_s = 1e-6, .compare_s = 1e-10, .save_s = 1e-9};
    const struct model_memory memory = {.bytes = 4096e3, .block_bytes = 4096, .share = 0.1, .exponent = 0.5};
    expect_near(model_conventional_s(&costs, &memory, 1), 1000 * 1e-6 + 0.1 * 4096e3 * 1e-9);
    expect_near(model_conventional_s(&costs, &memory, 4), 4000 * 1e-6 + 0.05 * 4096e3 * 1e-9);
    expect_near(model_hybrid_s(&costs, &memory, 4),
                1000 * 1e-6 + 0.1 * 4096e3 * 1e-10 + (0.05 * 4096e3 + 0.1 * 1000 * 8) * 1e-9);
}

static void the_best_granularity(void **state)
{
    (void)state;
    struct model_costs costs = {.detect_s = 1e-7, .compare_s = 1e-10, .save_s = 1e-9};
    struct model_memory memory = {.bytes = 1e9, .block_bytes = 4096, .share = 1, .exponent = 0.5};
    assert_int_equal(model_best(&costs, &memory, 64), 64);
    memory.exponent = 0; /* all of each page changes */
    assert_int_equal(model_best(&costs, &memory, 64), 1);
    memory.exponent = 0.5;
    costs.save_s = 1e-11; /* saving is nothing, as within one node */
    assert_int_equal(model_best(&costs, &memory, 64), 1);
}

/* An image and a delta of all its pages, in each of which so many lines changed. */
static void make_pair(unsigned lines, int *image, int *delta)
{
    static char page[PAGE];
    struct image_run whole = {UPPER_BASE, PAGES * PAGE, image_offset(UPPER_BASE)};
    struct image_run changed = {UPPER_BASE, PAGES * PAGE, PAGE};
    struct run_set runs = {.runs = &changed, .count = 1}, present = {.runs = &whole, .count = 1}, drops = {0};
    struct image_region region = {
        .start = UPPER_BASE, .end = UPPER_BASE + PAGES * PAGE, .kind = IMAGE_REGION_ANON};
    struct image_header header = {.line = 1, .ranks = 1};
    struct image_writer *writer = image_writer_create();
    *image = image_make_memfd(NULL);
    *delta = memfd_create("delta", MFD_CLOEXEC);
    for (unsigned i = 0; i < PAGES; i++) {
        memset(page, 1, sizeof page);
        assert_int_equal(image_write_pages(*image, UPPER_BASE + i * PAGE, page, PAGE, NULL), 0);
        memset(page, 2, lines * 64ul);
        assert_int_equal(pwrite(*delta, page, PAGE, (off_t)((i + 1) * PAGE)), (ssize_t)PAGE);
    }
    assert_int_equal(image_writer_add_region(writer, &region, NULL), 0);
    assert_int_equal(
        image_writer_finish(writer, &(struct image_pages){.runs = &present}, &header, *image, PAGE, NULL), 0);
    header.line = 2;
    header.base_line = 1;
    assert_int_equal(image_writer_finish(writer, &(struct image_pages){&runs, &drops, &present}, &header,
                                         *delta, (PAGES + 1) * PAGE, NULL),
                     0);
    image_writer_destroy(writer);
}

static struct choice choose(unsigned lines, const struct choice_rates *rates, enum granularity wanted)
{
    int image, delta;
    struct choice choice;
    make_pair(lines, &image, &delta);
    assert_int_equal(choice_make(rates, wanted, delta, image, &choice, NULL), 0);
    assert_int_equal(choice.pages, PAGES);
    close(image);
    close(delta);
    return choice;
}

static void choices(void **state)
{
    (void)state;
    struct choice_rates rates = {.compare_s = 2e-10, .send_s = 1e-9};
    struct choice choice = choose(16, &rates, GRANULARITY_AUTO);
    assert_int_equal(choice.granularity, GRANULARITY_LINE);
    expect_near(choice.share, 0.25);
    expect_near(choice.exponent, 1.0 / 3);
    expect_near(choice.page_s, PAGES * 4096e-9);
    expect_near(choice.line_s, PAGES * (4096 * 2e-10 + (1024 + 8) * 1e-9));
    assert_int_equal(choose(64, &rates, GRANULARITY_AUTO).granularity, GRANULARITY_PAGE);
    assert_int_equal(choose(56, &rates, GRANULARITY_AUTO).granularity, GRANULARITY_PAGE);
    assert_int_equal(choose(48, &rates, GRANULARITY_AUTO).granularity, GRANULARITY_LINE);
    assert_int_equal(choose(0, &rates, GRANULARITY_AUTO).granularity, GRANULARITY_LINE);
    rates.send_s = 1e-10; /* a fabric that is faster than the comparison */
    assert_int_equal(choose(1, &rates, GRANULARITY_AUTO).granularity, GRANULARITY_PAGE);
    assert_int_equal(choose(1, &rates, GRANULARITY_LINE).granularity, GRANULARITY_LINE);
    assert_int_equal(choose(64, &rates, GRANULARITY_LINE).granularity, GRANULARITY_LINE);
    rates.send_s = 1;
    assert_int_equal(choose(1, &rates, GRANULARITY_PAGE).granularity, GRANULARITY_PAGE);
}

static void rates_follow_what_is_measured(void **state)
{
    (void)state;
    struct choice_rates rates;
    choice_measure(&rates);
    assert_true(rates.compare_s > 1e-12 && rates.compare_s < 1e-6 && !rates.has_sent);
    choice_note_sent(&rates, 1000, 1); /* too little to say anything */
    assert_false(rates.has_sent);
    choice_note_sent(&rates, 1 << 20, 1 << 20);
    expect_near(rates.send_s, 1e-9); /* the first counts in full */
    for (unsigned i = 0; i < 60; i++)
        choice_note_sent(&rates, 1 << 20, 4 << 20);
    assert_true(fabs(rates.send_s - 4e-9) < 1e-11);
    for (unsigned i = 0; i < 60; i++)
        choice_note_compared(&rates, 1 << 20, 1 << 19);
    assert_true(fabs(rates.compare_s - 5e-10) < 1e-12);
    assert_int_equal(granularity_parse("line"), GRANULARITY_LINE);
    assert_int_equal(granularity_parse("auto"), GRANULARITY_AUTO);
    assert_int_equal(granularity_parse(""), GRANULARITY_NONE);
    assert_int_equal(granularity_parse("lines"), GRANULARITY_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(theorem_3),
        cmocka_unit_test(theorems_1_and_2),
        cmocka_unit_test(the_best_granularity),
        cmocka_unit_test(choices),
        cmocka_unit_test(rates_follow_what_is_measured),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
