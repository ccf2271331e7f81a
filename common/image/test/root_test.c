/* root_test.c - an image and the delta that makes it have one root; another content, line, rank or table
 * another. */
#include <errno.h>
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
#include "common/image/root.h"
#include "common/image/sums.h"

#define PAGE IMAGE_PAGE_BYTES
#define PAGES 9000u /* more than the sums that are read at once */
#define FIRST (UPPER_BASE + 3 * PAGE)
#define FAR (UPPER_BASE + (1ull << 40))

/* A rank's memory as a test sees it: one byte stands for the content of each page. */
struct memory {
    uint64_t line;
    uint32_t rank;
    uint64_t context;
    uint8_t pages[PAGES];
    uint8_t far;
    bool has_far;
};

static struct memory memory_at(uint64_t line)
{
    struct memory memory = {.line = line, .rank = 2, .context = 0x1234, .far = 9, .has_far = true};
    for (unsigned i = 0; i < PAGES; i++)
        memory.pages[i] = (uint8_t)(i % 251);
    return memory;
}

static struct image_header header_of(const struct memory *memory)
{
    return (struct image_header){
        .line = memory->line, .rank = memory->rank, .ranks = 4, .resume_context = memory->context};
}

static struct image_writer *writer_of(const struct memory *memory)
{
    struct image_writer *writer = image_writer_create();
    const struct image_region near = {.start = FIRST, .end = FIRST + PAGES * PAGE, .kind = IMAGE_REGION_ANON};
    const struct image_region far = {.start = FAR, .end = FAR + PAGE, .kind = IMAGE_REGION_ANON};
    assert_int_equal(image_writer_add_region(writer, &near, "/some/file"), 0);
    if (memory->has_far)
        assert_int_equal(image_writer_add_region(writer, &far, NULL), 0);
    return writer;
}

/* The runs of a whole image. Returns how many. */
static size_t list_runs(const struct memory *memory, struct image_run runs[2])
{
    runs[0] = (struct image_run){FIRST, PAGES * PAGE, image_offset(FIRST)};
    runs[1] = (struct image_run){FAR, PAGE, image_offset(FAR)};
    return memory->has_far ? 2 : 1;
}

static int make_image(const struct memory *memory)
{
    static char page[PAGE];
    struct image_run table[2];
    struct run_set runs = {.runs = table, .count = list_runs(memory, table)};
    const struct image_pages pages = {.runs = &runs};
    const struct image_header header = header_of(memory);
    struct image_writer *writer = writer_of(memory);
    int fd = image_make_memfd(NULL);
    for (unsigned i = 0; i < PAGES; i++) {
        memset(page, memory->pages[i], sizeof page);
        assert_int_equal(image_write_pages(fd, FIRST + i * PAGE, page, PAGE, NULL), 0);
    }
    memset(page, memory->far, sizeof page);
    if (memory->has_far)
        assert_int_equal(image_write_pages(fd, FAR, page, PAGE, NULL), 0);
    assert_int_equal(image_writer_finish(writer, &pages, &header, fd, PAGE, NULL), 0);
    image_writer_destroy(writer);
    return fd;
}

/* The change from one to the other: pages of the near region, one run for each that differs. */
static int make_delta(const struct memory *from, const struct memory *to)
{
    static char page[PAGE];
    struct image_run present[2], drop = {FAR, PAGE, 0};
    struct run_set runs = {0}, all = {.runs = present, .count = list_runs(to, present)},
                   drops = {.runs = &drop, .count = from->has_far && !to->has_far};
    struct image_header header = header_of(to);
    struct image_writer *writer = writer_of(to);
    uint64_t at = PAGE;
    int fd = memfd_create("delta", 0);
    header.base_line = from->line;
    for (unsigned i = 0; i < PAGES; i++) {
        if (from->pages[i] == to->pages[i])
            continue;
        const struct image_run run = {FIRST + i * PAGE, PAGE, at};
        memset(page, to->pages[i], sizeof page);
        assert_int_equal(runs_push(&runs, &run), 0);
        assert_int_equal(pwrite(fd, page, PAGE, (off_t)at), (ssize_t)PAGE);
        at += PAGE;
    }
    const struct image_pages pages = {.runs = &runs, .drops = &drops, .present = &all};
    assert_int_equal(image_writer_finish(writer, &pages, &header, fd, at, NULL), 0);
    image_writer_destroy(writer);
    runs_release(&runs);
    return fd;
}

static struct digest root_of(int part, int base)
{
    struct digest root = {0};
    assert_int_equal(root_of_image(part, base, &root, NULL), 0);
    assert_true(digest_is_known(&root));
    return root;
}

static struct digest root_of_memory(const struct memory *memory)
{
    int fd = make_image(memory);
    struct digest root = root_of(fd, -1);
    close(fd);
    return root;
}

static void test_a_delta_has_the_root_of_what_it_makes(void **state)
{
    (void)state;
    struct memory before = memory_at(6), after = memory_at(7);
    const unsigned changed[] = {0, 1, 77, 4095, 4096, 4097, 8191, PAGES - 1}; /* also where a block ends */
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++)
        after.pages[changed[i]] += 1;
    for (int is_smaller = 0; is_smaller < 2; is_smaller++) {
        after.has_far = !is_smaller;
        int base = make_image(&before), delta = make_delta(&before, &after);
        struct digest of_delta = root_of(delta, base), of_image = root_of_memory(&after);
        assert_true(digest_is_equal(&of_delta, &of_image));
        close(base);
        close(delta);
    }
}

static void expect_other(const struct digest *root, const struct memory *memory)
{
    struct digest other = root_of_memory(memory);
    assert_false(digest_is_equal(root, &other));
}

static void test_all_is_bound(void **state)
{
    (void)state;
    struct memory memory = memory_at(7);
    const struct digest root = root_of_memory(&memory), same = root_of_memory(&memory);
    assert_true(digest_is_equal(&root, &same));
    memory.line = 6;
    expect_other(&root, &memory);
    memory = memory_at(7);
    memory.rank = 1;
    expect_other(&root, &memory);
    memory = memory_at(7);
    memory.context++;
    expect_other(&root, &memory);
    memory = memory_at(7);
    memory.pages[PAGES / 2] += 1;
    expect_other(&root, &memory);
    memory = memory_at(7);
    memory.has_far = false;
    expect_other(&root, &memory);
}

/* Page and sum fit one another: nothing but the root tells that it is another image. */
static void test_a_page_that_was_changed_with_its_sum(void **state)
{
    (void)state;
    const struct memory memory = memory_at(7);
    int fd = make_image(&memory);
    const struct digest root = root_of(fd, -1);
    char page[PAGE] = "other";
    struct image_view view;
    assert_int_equal(image_write_pages(fd, FIRST + 5 * PAGE, page, PAGE, NULL), 0);
    assert_int_equal(image_load(fd, &view, NULL), 0);
    assert_int_equal(sums_check(fd, &view, NULL, NULL), 0);
    image_unload(&view);
    const struct digest other = root_of(fd, -1);
    assert_false(digest_is_equal(&root, &other));
    close(fd);
}

static void test_the_base_has_to_fit(void **state)
{
    (void)state;
    struct belay_error err = {0};
    struct digest root;
    struct memory before = memory_at(5), after = memory_at(7);
    int base = make_image(&before), delta;
    before.line = 6;
    delta = make_delta(&before, &after);
    assert_int_equal(root_of_image(delta, base, &root, &err), -1);
    assert_int_equal(err.code, EINVAL);
    assert_int_equal(root_of_image(delta, -1, &root, &err), -1);
    assert_int_equal(root_of_image(base, -1, &root, &err), 0);
    close(base);
    close(delta);
}

/* Somebody says that there are pages all over the address space: nothing looks for their sums. */
static void test_pages_that_are_nowhere(void **state)
{
    (void)state;
    struct belay_error err = {0};
    struct digest root;
    struct memory memory = memory_at(7);
    int fds[] = {make_image(&memory), make_image(&memory), -1};
    const uint64_t bytes = UPPER_END - UPPER_BASE;
    struct image_run run = {UPPER_BASE, bytes, image_offset(UPPER_BASE)};
    struct run_set runs = {.runs = &run, .count = 1}, none = {0};
    const struct image_pages whole = {.runs = &runs}, delta = {.runs = &none, .present = &runs};
    for (int is_delta = 0; is_delta < 2; is_delta++) {
        const struct image_region region = {.start = UPPER_BASE, .end = UPPER_END, .kind = IMAGE_REGION_ANON};
        struct image_header header = {.line = 8, .base_line = is_delta ? 7 : 0, .rank = 2, .ranks = 4};
        struct image_writer *writer = image_writer_create();
        assert_int_equal(image_writer_add_region(writer, &region, NULL), 0);
        int fd = is_delta ? (fds[2] = memfd_create("delta", 0)) : fds[1];
        assert_int_equal(image_writer_finish(writer, is_delta ? &delta : &whole, &header, fd, PAGE, &err), 0);
        image_writer_destroy(writer);
        assert_int_equal(root_of_image(fd, is_delta ? fds[0] : -1, &root, &err), -1);
        assert_int_equal(err.code, EINVAL);
        assert_non_null(strstr(err.text, "lacks pages"));
    }
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}

static void test_digests_are_added(void **state)
{
    (void)state;
    const struct digest most = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}}, one = {{1}},
                        low = {{UINT64_MAX, 3}};
    struct digest sum = digest_sum(&most, &one);
    assert_false(digest_is_known(&sum));
    sum = digest_sum(&one, &low);
    assert_int_equal(sum.words[0], 0);
    assert_int_equal(sum.words[1], 4);
    const struct digest turned = digest_sum(&low, &one);
    assert_true(digest_is_equal(&sum, &turned));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_delta_has_the_root_of_what_it_makes),
        cmocka_unit_test(test_all_is_bound),
        cmocka_unit_test(test_a_page_that_was_changed_with_its_sum),
        cmocka_unit_test(test_the_base_has_to_fit),
        cmocka_unit_test(test_pages_that_are_nowhere),
        cmocka_unit_test(test_digests_are_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
