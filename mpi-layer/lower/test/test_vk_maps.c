/* test_vk_maps.c - mappings of this process are found, clipped, told apart and named. */
#include "mpi-layer/lower/vk_maps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define PAGE 4096ul
#define PAGES 6

/* Pages of a file: private r-x, hole, private rw- (anonymous), shared r-- of the file, guard, guard. */
static struct {
    uint64_t at, inode;
    char path[64];
} made;

static void *at_page(unsigned page)
{
    return (void *)(made.at + page * PAGE);
}

static int start(void **state)
{
    struct stat st;
    (void)state;
    strcpy(made.path, "/tmp/belay vk_maps XXXXXX"); /* with blanks */
    int fd = mkstemp(made.path);
    char *all = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fd < 0 || all == MAP_FAILED || ftruncate(fd, 2 * PAGE) || fstat(fd, &st))
        return -1;
    made.at = (uintptr_t)all;
    made.inode = st.st_ino;
    mmap(at_page(0), PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0);
    munmap(at_page(1), PAGE);
    mprotect(at_page(2), PAGE, PROT_READ | PROT_WRITE);
    mmap(at_page(3), PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, PAGE);
    close(fd);
    return 0;
}

static int end(void **state)
{
    (void)state;
    munmap(at_page(0), PAGES * PAGE);
    return unlink(made.path);
}

static void check_part(uint64_t from, uint64_t to, uint64_t inode, unsigned page, long prot, bool is_private)
{
    struct vk_part part;
    assert_true(vk_maps_find(from, to, inode, &part));
    assert_int_equal(part.start, made.at + page * PAGE);
    assert_int_equal(part.end, made.at + (page + 1) * PAGE);
    assert_int_equal(part.prot, prot);
    assert_int_equal(part.is_private, is_private);
}

static void test_find(void **state)
{
    (void)state;
    struct vk_part part;
    uint64_t all = made.at, over = made.at + PAGES * PAGE;
    check_part(all, over, VK_MAPS_ANY, 0, PROT_READ | PROT_EXEC, true);
    check_part(all, over, made.inode, 0, PROT_READ | PROT_EXEC, true);
    check_part(all + PAGE, over, VK_MAPS_ANY, 2, PROT_READ | PROT_WRITE, true);
    check_part(all + PAGE, over, made.inode, 3, PROT_READ, false);
    assert_false(vk_maps_find(all + PAGE, all + 2 * PAGE, VK_MAPS_ANY, &part)); /* the hole */
    assert_false(vk_maps_find(all + 4 * PAGE, over, made.inode, &part));
    assert_true(vk_maps_find(all, over, 0, &part)); /* anonymous */
    assert_int_equal(part.start, all + 2 * PAGE);
    assert_int_equal(part.inode, 0);
}

static void test_clipping(void **state)
{
    (void)state;
    struct vk_part part;
    uint64_t guard = made.at + 4 * PAGE;
    assert_true(vk_maps_find(guard + 100, guard + PAGE + 50, VK_MAPS_ANY, &part));
    assert_int_equal(part.start, guard + 100);
    assert_int_equal(part.end, guard + PAGE + 50);
    assert_int_equal(part.prot, PROT_NONE);
}

static void test_path(void **state)
{
    (void)state;
    static char path[VK_MAPS_PATH_BYTES];
    assert_true(vk_maps_path(made.at + 10, path));
    assert_string_equal(path, made.path);
    assert_true(vk_maps_path(made.at + 3 * PAGE, path));
    assert_string_equal(path, made.path);
    assert_false(vk_maps_path(made.at + PAGE, path));     /* the hole */
    assert_false(vk_maps_path(made.at + 2 * PAGE, path)); /* no file */
    assert_false(vk_maps_path((uintptr_t)&path - (uintptr_t)&path, path));
    int on_stack;
    assert_false(vk_maps_path((uintptr_t)&on_stack, path)); /* "[stack]" is no path */
}

struct seen {
    uint64_t end;
    unsigned count, stop_at;
    bool is_in_order;
};

static bool visit(const struct vk_part *part, void *context)
{
    struct seen *seen = context;
    seen->is_in_order &= part->start >= seen->end && part->end > part->start;
    seen->end = part->end;
    return ++seen->count == seen->stop_at;
}

static void test_walk(void **state)
{
    (void)state;
    struct seen all = {.is_in_order = true}, some = {.is_in_order = true, .stop_at = 3};
    vk_maps_walk(visit, &all);
    assert_true(all.is_in_order);
    assert_true(all.count > 10);
    assert_true(all.end > made.at);
    vk_maps_walk(visit, &some);
    assert_int_equal(some.count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_clipping),
        cmocka_unit_test(test_path),
        cmocka_unit_test(test_walk),
    };
    return cmocka_run_group_tests(tests, start, end);
}
