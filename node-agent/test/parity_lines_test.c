/* Parity over hundreds of lines equals a recomputation from the images, whatever becomes of memory, lines and
 * members. */
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
#include "node-agent/member/set.h"
#include "node-agent/member/share.h"
#include "node-agent/store/apply.h"
#include "node-agent/store/parity_check.h"
#include "node-agent/store/parity_part.h"

#define PAGE IMAGE_PAGE_BYTES
#define PLACES 96u /* where a rank may have a page */
#define MEMBERS_MAX 6u
#define LINES 150u

/* A rank's memory. */
struct memory {
    uint8_t pages[PLACES][PAGE];
    bool is_there[PLACES], is_written[PLACES]; /* since the newest committed line */
};

static struct {
    struct parity_code code;
    uint32_t size;
    uint64_t committed;
    struct memory now[MEMBERS_MAX], at_line[MEMBERS_MAX]; /* by rank */
    int images[MEMBERS_MAX];                              /* by rank; -1: none */
    int parities[MEMBERS_MAX];                            /* by position; -1: none */
    uint32_t ranks[MEMBERS_MAX];                          /* by position */
} world;

static uint64_t random_state;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % below;
}

/* Eight pages of each of twelve blocks: four rows of three columns, or six of two. */
static uint64_t address_of(uint32_t place)
{
    return place / 8 * PARITY_BLOCK_BYTES + place % 8 * 3 * PAGE;
}

static void fill(uint8_t *page)
{
    for (size_t i = 0; i < PAGE; i++)
        page[i] = (uint8_t)draw(256);
}

/* ---- what a program does to its memory ---- */

static void come(struct memory *memory, uint32_t place)
{
    if (!memory->is_there[place])
        memset(memory->pages[place], 0, PAGE);
    memory->is_there[place] = memory->is_written[place] = true;
}

static void go(struct memory *memory, uint32_t place)
{
    memory->is_there[place] = false;
}

static void move(struct memory *memory, uint32_t from, uint32_t to)
{
    if (!memory->is_there[from] || from == to)
        return;
    come(memory, to);
    memcpy(memory->pages[to], memory->pages[from], PAGE);
    go(memory, from);
}

static void disturb(struct memory *memory)
{
    for (uint32_t i = draw(12); i > 0; i--) {
        uint32_t place = draw(PLACES);
        switch (draw(8)) {
        case 0: /* a page, whatever was there */
        case 1:
            come(memory, place);
            fill(memory->pages[place]);
            break;
        case 2: /* a byte */
            come(memory, place);
            memory->pages[place][draw(PAGE)] ^= (uint8_t)(1 + draw(255));
            break;
        case 3: /* the same bytes; or a page of zeros */
            come(memory, place);
            break;
        case 4:
            go(memory, place);
            break;
        case 5:
            move(memory, place, draw(PLACES));
            break;
        case 6: /* what is mapped shrinks */
            for (uint32_t at = place; at / 8 == place / 8 && at < PLACES; at++)
                go(memory, at);
            break;
        default: /* zeros */
            come(memory, place);
            memset(memory->pages[place], 0, PAGE);
        }
    }
}

/* ---- lines ---- */

static void add(struct run_set *set, uint64_t address, uint64_t offset)
{
    const struct image_run run = {address, PAGE, offset};
    assert_int_equal(runs_push(set, &run), 0);
}

static int finish(uint64_t line, uint64_t base_line, uint32_t rank, int fd, const struct image_pages *pages,
                  uint64_t end)
{
    static const struct image_region region = {.start = 0, .end = LAYOUT_END, .kind = IMAGE_REGION_ANON};
    const struct image_header header = {
        .line = line, .base_line = base_line, .rank = rank, .ranks = MEMBERS_MAX};
    struct belay_error err;
    struct image_writer *writer = image_writer_create();
    assert_non_null(writer);
    assert_int_equal(image_writer_add_region(writer, &region, NULL), 0);
    assert_int_equal(image_writer_finish(writer, pages, &header, fd, end, &err), 0);
    image_writer_destroy(writer);
    return fd;
}

/* What a line stages of a rank: a delta to the committed image, or an image. */
static int stage(uint32_t rank, uint64_t line, bool is_whole)
{
    const struct memory *now = &world.now[rank], *then = &world.at_line[rank];
    struct run_set runs = {0}, drops = {0}, present = {0};
    struct belay_error err;
    uint64_t end = PAGE;
    int fd = image_make_memfd(&err);
    assert_true(fd >= 0);
    for (uint32_t place = 0; place < PLACES; place++) {
        uint64_t address = address_of(place);
        bool is_new = now->is_there[place] && (is_whole || now->is_written[place] || !then->is_there[place]);
        if (is_new && is_whole) {
            assert_int_equal(image_write_pages(fd, address, now->pages[place], PAGE, &err), 0);
            add(&runs, address, image_offset(address));
        } else if (is_new) {
            assert_int_equal(pwrite(fd, now->pages[place], PAGE, (off_t)end), PAGE);
            add(&runs, address, end);
            end += PAGE;
        } else if (!now->is_there[place] && then->is_there[place]) {
            add(&drops, address, 0);
        }
        if (now->is_there[place])
            add(&present, address, image_offset(address));
    }
    const struct image_pages pages = {
        .runs = &runs, .drops = is_whole ? NULL : &drops, .present = is_whole ? NULL : &present};
    finish(line, is_whole ? 0 : world.committed, rank, fd, &pages, end);
    runs_release(&runs);
    runs_release(&drops);
    runs_release(&present);
    return fd;
}

static uint8_t weigh(const void *context, uint64_t address)
{
    return way_weigh(context, address);
}

/* The contribution of a member to a holder's parity. */
static void contribute(struct share_pages *pages, uint32_t home, uint32_t holder, int sum_fd)
{
    const struct way way = {world.code, home, holder};
    struct share *share = share_create(pages, way_route, &way, sizeof way);
    struct share_intake intake;
    struct share_sum sum;
    uint8_t bytes[3 * PAGE];
    ssize_t count;
    assert_non_null(share);
    share_sum_init(&sum, sum_fd, UINT64_MAX / 2);
    share_intake_begin(&intake, &sum, weigh, &way);
    while ((count = share_fill(share, bytes, sizeof bytes)) > 0)
        assert_int_equal(share_intake_take(&intake, bytes, (size_t)count), 0);
    assert_int_equal(count, 0);
    assert_true(share_intake_end(&intake));
    share_sum_release(&sum);
    share_destroy(share);
}

static struct parity_holding holding_of(uint32_t position)
{
    struct parity_holding holding = {
        .slot = 0, .data = world.code.data, .parity = world.code.parity, .position = position};
    for (uint32_t i = 0; i < PARITY_MEMBERS_MAX; i++)
        holding.ranks[i] = i < world.size ? world.ranks[i] : EPOCH_NOBODY;
    return holding;
}

/* What a line stages of a position's parity; all send all if it has none. */
static int fold(uint32_t position, uint64_t line, const int *staged)
{
    struct belay_error err;
    int sum = image_make_memfd(&err);
    assert_true(sum >= 0);
    for (uint32_t home = 0; home < world.size; home++) {
        uint32_t rank = world.ranks[home];
        if (home == position)
            continue;
        struct share_pages *pages =
            share_pages_staged(staged[rank], world.images[rank], world.parities[position] < 0, &err);
        assert_non_null(pages);
        contribute(pages, home, position, sum);
        share_pages_unref(pages);
    }
    const struct parity_part_request request = {.holding = holding_of(position),
                                                .line = line,
                                                .world = MEMBERS_MAX,
                                                .sum = sum,
                                                .base = world.parities[position]};
    int part = parity_part_make(&request, &err);
    assert_true(part >= 0);
    close(sum);
    return part;
}

/* COMMIT of a part, at times twice, as after a crash. */
static void apply(int *image, int part, uint64_t base_line, uint64_t line, uint32_t rank)
{
    struct belay_error err;
    if (base_line == 0 || *image < 0) {
        if (*image >= 0)
            close(*image);
        *image = part;
        return;
    }
    for (uint32_t i = draw(4) == 0 ? 2 : 1; i > 0; i--) {
        struct apply delta = {.image = *image,
                              .delta = part,
                              .copy = -1,
                              .rank = (int)rank,
                              .base_line = base_line,
                              .line = line,
                              .made = -1};
        assert_int_equal(apply_delta(&delta, &err), 0);
        assert_int_equal(delta.made, -1);
    }
    close(part);
}

static void commit(uint64_t line, const int *staged, const int *parts, bool is_whole)
{
    for (uint32_t i = 0; i < world.size; i++) {
        uint64_t base = world.parities[i] < 0 ? 0 : world.committed;
        apply(&world.parities[i], parts[i], base, line, store_parity_part(MEMBERS_MAX, 0));
        apply(&world.images[i], staged[i], is_whole ? 0 : world.committed, line, i);
        memset(world.now[i].is_written, 0, sizeof world.now[i].is_written);
        world.at_line[i] = world.now[i];
    }
    world.committed = line;
}

static void take_line(uint64_t line, bool is_aborted)
{
    int staged[MEMBERS_MAX], parts[MEMBERS_MAX];
    bool is_whole = world.committed == 0;
    for (uint32_t i = 0; i < world.size; i++)
        staged[i] = stage(i, line, is_whole);
    for (uint32_t i = 0; i < world.size; i++)
        parts[i] = fold(i, line, staged);
    if (!is_aborted) {
        commit(line, staged, parts, is_whole);
        return;
    }
    for (uint32_t i = 0; i < world.size; i++) {
        close(staged[i]);
        close(parts[i]);
    }
}

/* ---- losses ---- */

static void lose_parity(uint32_t position)
{
    if (world.parities[position] >= 0)
        close(world.parities[position]);
    world.parities[position] = -1;
}

/* A restart: ranks go on from the committed line, and the sets are other ones. */
static void restart(void)
{
    for (uint32_t i = 0; i < world.size; i++) {
        uint32_t other = draw(world.size), rank = world.ranks[i];
        world.ranks[i] = world.ranks[other];
        world.ranks[other] = rank;
        lose_parity(i);
        world.now[i] = world.at_line[i];
    }
}

/* ---- what must hold ---- */

static int recompute(uint32_t position)
{
    struct belay_error err;
    int sum = image_make_memfd(&err);
    assert_true(sum >= 0);
    for (uint32_t home = 0; home < world.size; home++) {
        struct share_pages *pages =
            home == position ? NULL : share_pages_of_image(world.images[world.ranks[home]], &err);
        if (!pages)
            continue;
        contribute(pages, home, position, sum);
        share_pages_unref(pages);
    }
    return sum;
}

static void expect_images(void)
{
    struct belay_error err;
    uint8_t page[PAGE];
    for (uint32_t rank = 0; rank < world.size; rank++)
        for (uint32_t place = 0; place < PLACES; place++) {
            if (!world.at_line[rank].is_there[place])
                continue;
            assert_int_equal(image_read_pages(world.images[rank], address_of(place), page, PAGE, &err), 0);
            assert_memory_equal(page, world.at_line[rank].pages[place], PAGE);
        }
}

static uint64_t expect_parity(void)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < world.size; i++) {
        struct belay_error err = {0};
        uint64_t bytes = 0;
        int sum = recompute(i);
        if (parity_check(world.parities[i], sum, NULL, &bytes, &err) < 0)
            fail_msg("position %u, line %u: %s", i, (unsigned)world.committed, err.text);
        all += bytes;
        close(sum);
    }
    return all;
}

static void begin(struct parity_code code, uint64_t seed)
{
    memset(&world, 0, sizeof world);
    world.code = code;
    world.size = code.data + code.parity;
    random_state = seed;
    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        world.images[i] = world.parities[i] = -1;
        world.ranks[i] = i;
    }
}

static void end(void)
{
    for (uint32_t i = 0; i < world.size; i++) {
        close(world.images[i]);
        close(world.parities[i]);
    }
}

static void run_lines(struct parity_code code, uint64_t seed)
{
    uint64_t compared = 0;
    begin(code, seed);
    for (uint64_t line = 1; line <= LINES; line++) {
        bool is_aborted = line > 1 && draw(5) == 0;
        for (uint32_t i = 0; i < world.size; i++)
            disturb(&world.now[i]);
        take_line(line, is_aborted);
        if (is_aborted)
            continue;
        expect_images();
        compared += expect_parity();
        if (draw(10) == 0)
            restart();
        else if (draw(10) == 0)
            lose_parity(draw(world.size));
    }
    assert_true(compared > LINES * world.size * PAGE);
    end();
}

static void test_xor(void **state)
{
    (void)state;
    run_lines((struct parity_code){3, 1}, 1);
    run_lines((struct parity_code){1, 1}, 2);
}

static void test_rs(void **state)
{
    (void)state;
    run_lines((struct parity_code){3, 2}, 3);
    run_lines((struct parity_code){2, 2}, 4);
}

/* The comparison finds one bit, a page too many and a page that lacks. */
static void test_what_differs_is_found(void **state)
{
    struct belay_error err;
    uint64_t bytes, address = 5 * PAGE; /* of no page */
    uint8_t page[PAGE] = {1};
    (void)state;
    begin((struct parity_code){3, 1}, 5);
    for (uint32_t i = 0; i < world.size; i++)
        come(&world.now[i], 0);
    fill(world.now[1].pages[0]);
    take_line(1, false);
    int sum = recompute(0);
    assert_int_equal(parity_check(world.parities[0], sum, NULL, &bytes, &err), 0);
    assert_int_equal(bytes, PAGE);
    assert_int_equal(pwrite(sum, page, PAGE, (off_t)image_offset(address)), PAGE);
    assert_int_equal(parity_check(world.parities[0], sum, NULL, &bytes, &err), -1);
    assert_int_equal(err.code, EBADMSG);
    close(sum);
    sum = image_make_memfd(&err);
    assert_int_equal(parity_check(world.parities[0], sum, NULL, &bytes, &err), -1);
    close(sum);
    sum = recompute(0);
    assert_int_equal(pread(sum, page, 1, (off_t)image_offset(0) + 77), 1);
    page[0] ^= 16;
    assert_int_equal(pwrite(sum, page, 1, (off_t)image_offset(0) + 77), 1);
    assert_int_equal(parity_check(world.parities[0], sum, NULL, &bytes, &err), -1);
    bool is_stopped = true;
    assert_int_equal(parity_check(world.parities[0], sum, &is_stopped, &bytes, &err), -1);
    assert_int_equal(err.code, ECANCELED);
    close(sum);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_xor),
        cmocka_unit_test(test_rs),
        cmocka_unit_test(test_what_differs_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
