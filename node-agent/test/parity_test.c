/* The arithmetic of parity, shares of pages, and the part of the store that is made of them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/image/image.h"
#include "common/image/layout.h"
#include "common/image/sums.h"
#include "node-agent/store/parity_part.h"
#include "node-agent/member/share.h"

#define BLOCK 256u
#define PAGE IMAGE_PAGE_BYTES

static void fill(uint8_t *bytes, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        bytes[i] = (uint8_t)(seed >> 56);
    }
}

/* Make the data of column `lost` from these blocks. */
static void decode(struct parity_code code, uint8_t all[][BLOCK], const uint32_t *blocks, uint32_t lost)
{
    uint8_t coefficients[PARITY_MEMBERS_MAX], made[BLOCK] = {0};
    assert_int_equal(code_decode(code, blocks, lost, coefficients), 0);
    for (uint32_t i = 0; i < code.data; i++) {
        struct code_factor factor;
        code_factor_set(&factor, coefficients[i]);
        code_fold(&factor, all[blocks[i]], made, BLOCK);
    }
    assert_memory_equal(made, all[lost], BLOCK);
}

/* All patterns of as many losses as there are blocks of parity. */
static void check_code(struct parity_code code)
{
    uint8_t all[PARITY_MEMBERS_MAX][BLOCK] = {{0}};
    uint32_t size = code.data + code.parity;
    for (uint32_t c = 0; c < code.data; c++)
        fill(all[c], BLOCK, c + 1);
    for (uint32_t t = 0; t < code.parity; t++)
        for (uint32_t c = 0; c < code.data; c++) {
            struct code_factor factor;
            code_factor_set(&factor, code_coefficient(code, t, c));
            code_fold(&factor, all[c], all[code.data + t], BLOCK);
        }
    for (uint32_t lost = 0; lost < 1u << size; lost++) {
        uint32_t blocks[PARITY_MEMBERS_MAX], count = 0;
        if ((uint32_t)__builtin_popcount(lost) != code.parity)
            continue;
        for (uint32_t i = 0; i < size; i++)
            if (!(lost & 1u << i))
                blocks[count++] = i;
        for (uint32_t c = 0; c < code.data; c++)
            if (lost & 1u << c)
                decode(code, all, blocks, c);
    }
}

static void test_all_losses_can_be_decoded(void **state)
{
    (void)state;
    for (uint32_t data = 1; data <= 8; data++)
        for (uint32_t parity = 1; parity <= data && parity <= 4; parity++)
            check_code((struct parity_code){data, parity});
}

static int make_image(uint64_t line, uint64_t base_line, const uint64_t *addresses, const uint64_t *seeds,
                      size_t count)
{
    struct belay_error err;
    struct run_set runs = {0};
    const struct image_region region = {.start = 0, .end = LAYOUT_END, .kind = IMAGE_REGION_ANON};
    const struct image_header header = {.line = line, .base_line = base_line, .rank = 0, .ranks = 4};
    struct image_writer *writer = image_writer_create();
    uint8_t page[PAGE];
    int fd = image_make_memfd(&err);
    assert_true(fd >= 0 && writer);
    assert_int_equal(image_writer_add_region(writer, &region, NULL), 0);
    for (size_t i = 0; i < count; i++) {
        fill(page, PAGE, seeds[i]);
        assert_int_equal(image_write_pages(fd, addresses[i], page, PAGE, &err), 0);
        const struct image_run run = {addresses[i], PAGE, image_offset(addresses[i])};
        assert_int_equal(runs_push(&runs, &run), 0);
    }
    const struct image_pages pages = {.runs = &runs};
    assert_int_equal(image_writer_finish(writer, &pages, &header, fd, PAGE, &err), 0);
    image_writer_destroy(writer);
    runs_release(&runs);
    return fd;
}

static bool go_as_they_are(const void *context, uint64_t block, uint64_t *to_block, uint8_t *coefficient)
{
    *to_block = block;
    *coefficient = *(const uint8_t *)context;
    return true;
}

static void add_share(struct share_pages *pages, uint8_t coefficient, int sum_fd)
{
    struct share_sum sum;
    struct share *share = share_create(pages, go_as_they_are, &coefficient, sizeof coefficient);
    assert_non_null(share);
    share_sum_init(&sum, sum_fd, UINT64_MAX / 2);
    assert_int_equal(share_add(share, &sum), 0);
    assert_true(share_given(share) <= share_bound(share));
    share_sum_release(&sum);
    share_destroy(share);
}

static void read_page(int fd, uint64_t address, uint8_t *page)
{
    assert_int_equal(pread(fd, page, PAGE, (off_t)image_offset(address)), PAGE);
}

/* A page that came, one that went, one that changed, one that did not. */
static void test_a_share_is_what_has_changed(void **state)
{
    const uint64_t base[] = {0x1000, 0x2000, 0x40000}, fresh[] = {0x1000, 0x2000, 0x80000};
    const uint64_t base_seeds[] = {1, 2, 3}, fresh_seeds[] = {1, 4, 5};
    int old = make_image(1, 0, base, base_seeds, 3), new = make_image(2, 0, fresh, fresh_seeds, 3);
    struct belay_error err;
    int sum = image_make_memfd(&err);
    uint8_t page[PAGE], one[PAGE], other[PAGE];
    struct share_pages *pages = share_pages_staged(new, old, false, &err);
    (void)state;
    assert_non_null(pages);
    add_share(pages, 1, sum);
    read_page(sum, 0x1000, page);
    memset(one, 0, PAGE);
    assert_memory_equal(page, one, PAGE);
    read_page(sum, 0x2000, page);
    fill(one, PAGE, 2);
    fill(other, PAGE, 4);
    for (size_t i = 0; i < PAGE; i++)
        assert_int_equal(page[i], one[i] ^ other[i]);
    read_page(sum, 0x40000, page);
    fill(one, PAGE, 3);
    assert_memory_equal(page, one, PAGE);
    read_page(sum, 0x80000, page);
    fill(one, PAGE, 5);
    assert_memory_equal(page, one, PAGE);
    share_pages_unref(pages);
    close(sum);
    close(new);
    close(old);
}

/* One byte costs a line and a record. */
static void test_a_share_is_small(void **state)
{
    const uint64_t address = 0x3000, seed = 9;
    int old = make_image(1, 0, &address, &seed, 1), new = make_image(2, 0, &address, &seed, 1);
    struct belay_error err;
    uint8_t page[PAGE], buffer[2 * PAGE], coefficient = 1;
    (void)state;
    struct share_pages *pages = share_pages_staged(new, old, false, &err);
    struct share *share = share_create(pages, go_as_they_are, &coefficient, 1);
    assert_int_equal(share_fill(share, buffer, sizeof buffer), 0);
    share_destroy(share);
    share_pages_unref(pages);
    read_page(new, address, page);
    page[100] ^= 1;
    assert_int_equal(image_write_pages(new, address, page, PAGE, &err), 0);
    pages = share_pages_staged(new, old, false, &err);
    share = share_create(pages, go_as_they_are, &coefficient, 1);
    assert_int_equal(share_fill(share, buffer, sizeof buffer), sizeof(struct share_record) + 64);
    share_destroy(share);
    share_pages_unref(pages);
    close(new);
    close(old);
}

/* What a peer sends is checked before it is used. */
static void test_records_that_are_refused(void **state)
{
    static const struct share_record bad[] = {{0x1001, 1}, {LAYOUT_END, 1}, {0x1000, 0}};
    struct belay_error err;
    struct share_sum sum;
    (void)state;
    share_sum_init(&sum, image_make_memfd(&err), 1 << 20);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint8_t bytes[sizeof *bad + 64] = {0};
        struct share_intake intake;
        memcpy(bytes, &bad[i], sizeof *bad);
        share_intake_begin(&intake, &sum, NULL, NULL);
        assert_int_equal(share_intake_take(&intake, bytes, sizeof bytes), -1);
        share_intake_end(&intake);
    }
    close(sum.fd);
    share_sum_release(&sum);
}

/* Cut anywhere, a share is the same; what ends within a record is not whole. */
/* The same bytes, whatever the room is for which they are asked. */
static void check_fill_in_parts(struct share_pages *pages, const uint8_t *all, size_t count)
{
    const size_t rooms[] = {1, 15, 17, 1000, SHARE_RECORD_BYTES, SHARE_RECORD_BYTES + 1};
    uint8_t coefficient = 1, part[SHARE_RECORD_BYTES + 1];
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        struct share *share = share_create(pages, go_as_they_are, &coefficient, 1);
        size_t at = 0;
        for (ssize_t got; (got = share_fill(share, part, rooms[i])) > 0; at += (size_t)got)
            assert_memory_equal(part, all + at, (size_t)got);
        assert_int_equal(at, count);
        share_destroy(share);
    }
}

static void take_in_parts(struct share_intake *intake, const uint8_t *bytes, size_t count, size_t most)
{
    for (size_t at = 0; at < count; at += most)
        assert_int_equal(share_intake_take(intake, bytes + at, count - at < most ? count - at : most), 0);
    assert_int_equal(intake->got, 0);
}

static void test_a_share_comes_in_pieces(void **state)
{
    const uint64_t addresses[] = {0x1000, 0x2000}, seeds[] = {7, 8};
    struct belay_error err;
    int image = make_image(1, 0, addresses, seeds, 2);
    struct share_pages *pages = share_pages_of_image(image, &err);
    uint8_t coefficient = 1, buffer[4 * PAGE], page[PAGE], wanted[PAGE];
    struct share *share = share_create(pages, go_as_they_are, &coefficient, 1);
    ssize_t count = share_fill(share, buffer, sizeof buffer);
    struct share_intake intake;
    struct share_sum sum;
    (void)state;
    share_sum_init(&sum, image_make_memfd(&err), 1 << 20);
    share_intake_begin(&intake, &sum, NULL, NULL);
    check_fill_in_parts(pages, buffer, (size_t)count);
    const size_t parts[] = {1, 15, 16, 17, PAGE + 15, PAGE + 16, PAGE + 17, 2 * PAGE, sizeof buffer};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) /* an odd number of times */
        take_in_parts(&intake, buffer, (size_t)count, parts[i]);
    assert_true(share_intake_end(&intake));
    read_page(sum.fd, 0x2000, page);
    fill(wanted, PAGE, 8);
    assert_memory_equal(page, wanted, PAGE);
    share_intake_begin(&intake, &sum, NULL, NULL);
    assert_int_equal(share_intake_take(&intake, buffer, (size_t)count - 1), 0);
    assert_false(share_intake_end(&intake));
    close(sum.fd);
    share_sum_release(&sum);
    share_destroy(share);
    share_pages_unref(pages);
    close(image);
}

/* Four pages of memory stand for a range of an image, at 0x4000 and 0x10000. */
struct memory {
    uint8_t pages[4][PAGE];
};

static uint8_t *find_in_memory(const void *context, uint64_t address)
{
    struct memory *memory = (struct memory *)(uintptr_t)context;
    return address >= 0x4000 && address < 0x6000     ? memory->pages[(address - 0x4000) / PAGE]
           : address >= 0x10000 && address < 0x12000 ? memory->pages[2 + (address - 0x10000) / PAGE]
                                                     : NULL;
}

/* Of some pages of an image, wherever a piece is cut; added up in memory, twice, it is nothing. */
static void test_a_share_in_a_range(void **state)
{
    const uint64_t addresses[] = {0x3000, 0x4000, 0x5000, 0x6000, 0x11000}, seeds[] = {1, 2, 3, 4, 5};
    static const uint64_t wanted[4] = {2, 3, 0, 5};
    static struct memory memory;
    struct belay_error err;
    struct share_sum sum;
    uint8_t coefficient = 1, page[PAGE];
    int image = make_image(1, 0, addresses, seeds, 5);
    struct share_pages *all = share_pages_of_image(image, &err);
    (void)state;
    share_sum_init_memory(&sum, find_in_memory, &memory, 1 << 20);
    for (int round = 0; round < 2; round++) {
        struct share_pages *part = share_pages_part(all);
        assert_int_equal(share_pages_add(part, 0x10000, 0x12000), 0); /* in any order */
        assert_int_equal(share_pages_add(part, 0x4000, 0x6000), 0);
        assert_int_equal(share_pages_add(part, 0x8000, 0x9000), 0); /* nothing is there */
        struct share *share = share_create(part, go_as_they_are, &coefficient, 1);
        share_pages_unref(part);
        assert_int_equal(share_bound(share), 3 * SHARE_RECORD_BYTES);
        assert_int_equal(share_add(share, &sum), 0);
        share_destroy(share);
        for (size_t i = 0; round == 0 && i < 4; i++) {
            memset(page, 0, PAGE);
            if (wanted[i])
                fill(page, PAGE, wanted[i]);
            assert_memory_equal(memory.pages[i], page, PAGE);
        }
    }
    memset(page, 0, PAGE);
    for (size_t i = 0; i < 4; i++)
        assert_memory_equal(memory.pages[i], page, PAGE);
    share_sum_release(&sum);
    share_pages_unref(all);
    close(image);
}

/* A page that is not of the range, and more than a range can have. */
static void test_what_is_not_of_a_range_is_refused(void **state)
{
    static const uint64_t addresses[] = {0x3000, 0x6000, 0xf000, 0x12000};
    static struct memory memory;
    static uint8_t bytes[sizeof(struct share_record) + 64];
    const struct share_record good = {0x4000, 1};
    struct share_intake intake;
    struct share_sum sum;
    (void)state;
    share_sum_init_memory(&sum, find_in_memory, &memory, 2 * PAGE);
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        const struct share_record record = {addresses[i], 1};
        memcpy(bytes, &record, sizeof record);
        share_intake_begin(&intake, &sum, NULL, NULL);
        assert_int_equal(share_intake_take(&intake, bytes, sizeof bytes), -1);
        assert_int_equal(errno, EBADMSG);
        share_intake_end(&intake);
    }
    memcpy(bytes, &good, sizeof good);
    share_intake_begin(&intake, &sum, NULL, NULL);
    assert_int_equal(share_intake_take(&intake, bytes, sizeof bytes), 0);
    assert_int_equal(share_intake_take(&intake, bytes, sizeof bytes), 0);
    assert_int_equal(share_intake_take(&intake, bytes, sizeof bytes), -1);
    assert_int_equal(errno, ENOMEM);
    share_intake_end(&intake);
    share_sum_release(&sum);
}

static struct parity_part_request request_of(uint64_t line, int sum, int base)
{
    struct parity_part_request request = {.holding = {.slot = 1, .data = 2, .parity = 1, .position = 2},
                                          .line = line,
                                          .world = 4,
                                          .sum = sum,
                                          .base = base};
    for (uint32_t i = 0; i < PARITY_MEMBERS_MAX; i++)
        request.holding.ranks[i] = i == 0 ? 3 : EPOCH_NOBODY;
    return request;
}

static void put(int fd, uint64_t address, uint64_t seed)
{
    uint8_t page[PAGE];
    fill(page, PAGE, seed);
    assert_int_equal(pwrite(fd, page, PAGE, (off_t)image_offset(address)), PAGE);
}

/* New values, whatever was folded; pages that become zero go; the part says what it is of. */
static void test_a_part_has_new_values(void **state)
{
    struct belay_error err = {0};
    struct image_view view;
    struct parity_holding read = {0};
    uint8_t page[PAGE], one[PAGE], other[PAGE];
    int sum = image_make_memfd(&err), change = image_make_memfd(&err);
    (void)state;
    put(sum, 0, 1);
    put(sum, 0x1000, 2);
    const struct parity_part_request first = request_of(5, sum, -1);
    int whole = parity_part_make(&first, &err);
    assert_true(whole >= 0);
    assert_int_equal(image_load(whole, &view, &err), 0);
    assert_int_equal(view.header->base_line, 0);
    assert_int_equal(sums_check(whole, &view, NULL, &err), 0);
    image_unload(&view);
    assert_int_equal(parity_part_read(whole, &read, &err), 0);
    assert_true(parity_part_is_same(&read, &first.holding));
    put(change, 0, 1);      /* it becomes zero */
    put(change, 0x1000, 3); /* it changes */
    put(change, 0x5000, 4); /* it comes */
    const struct parity_part_request second = request_of(6, change, whole);
    int delta = parity_part_make(&second, &err);
    assert_true(delta >= 0);
    assert_int_equal(image_load(delta, &view, &err), 0);
    assert_int_equal(view.header->base_line, 5);
    assert_int_equal(view.header->run_count, 2);
    assert_int_equal(view.header->drop_count, 1);
    assert_int_equal(view.header->present_count, 2);
    assert_int_equal(pread(delta, page, PAGE, (off_t)view.runs[0].data_offset), PAGE);
    fill(one, PAGE, 2);
    fill(other, PAGE, 3);
    for (size_t i = 0; i < PAGE; i++)
        assert_int_equal(page[i], one[i] ^ other[i]);
    image_unload(&view);
    close(delta);
    close(whole);
    close(change);
    close(sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_losses_can_be_decoded),
        cmocka_unit_test(test_a_share_is_what_has_changed),
        cmocka_unit_test(test_a_share_is_small),
        cmocka_unit_test(test_records_that_are_refused),
        cmocka_unit_test(test_a_share_comes_in_pieces),
        cmocka_unit_test(test_a_share_in_a_range),
        cmocka_unit_test(test_a_part_has_new_values),
        cmocka_unit_test(test_what_is_not_of_a_range_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
