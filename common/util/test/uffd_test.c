/* Pages that come later: what is mapped when the mapping of a memfd is not the one any more that it was. */
#include "common/util/uffd.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/pagemap.h"

#define PAGE 4096ul
#define PAGES 32ul

static struct {
    int uffd, file, pagemap;
    char *pages;
} area;

static uint64_t address_of(size_t page)
{
    return (uintptr_t)area.pages + page * PAGE;
}

/* A memfd with a byte in each page, mapped, of which nothing is in the page table. */
static int setup(void **state)
{
    (void)state;
    area.uffd = uffd_demand_works() ? uffd_make_full() : -1;
    area.file = memfd_create("belay-test", MFD_CLOEXEC);
    area.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (area.file < 0 || area.pagemap < 0 || ftruncate(area.file, PAGES * PAGE))
        return -1;
    for (size_t i = 0; i < PAGES; i++)
        if (pwrite(area.file, "x", 1, (off_t)(i * PAGE)) != 1)
            return -1;
    area.pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, area.file, 0);
    if (area.pages == MAP_FAILED)
        return -1;
    return area.uffd >= 0 &&
                   (uffd_begin(area.uffd, UFFD_MODE_DEMAND) < 0 ||
                    uffd_register(area.uffd, UFFD_MODE_DEMAND, address_of(0), address_of(PAGES)) < 0)
               ? -1
               : 0;
}

static int teardown(void **state)
{
    (void)state;
    munmap(area.pages, PAGES * PAGE);
    close(area.pagemap);
    close(area.file);
    if (area.uffd >= 0)
        close(area.uffd);
    return 0;
}

static void assert_mapped(size_t first, size_t end, bool is_mapped)
{
    for (size_t i = first; i < end; i++) {
        uint64_t entry;
        assert_int_equal(pagemap_entries(area.pagemap, address_of(i), &entry, 1), 1);
        if (!(entry & PAGEMAP_ENTRY_PRESENT) == is_mapped)
            fail_msg("page %zu is%s mapped", i, is_mapped ? " not" : "");
    }
}

static void all_is_mapped(void **state)
{
    (void)state;
    if (area.uffd < 0)
        skip();
    uffd_map(area.uffd, address_of(3), address_of(4));
    assert_mapped(0, 3, false);
    uffd_map(area.uffd, address_of(0), address_of(PAGES));
    assert_mapped(0, PAGES, true);
}

/* By mprotect(): the kernel refuses a range of several mappings as a whole. */
static void a_mapping_was_split(void **state)
{
    (void)state;
    if (area.uffd < 0)
        skip();
    assert_int_equal(mprotect(area.pages + 7 * PAGE, 4 * PAGE, PROT_READ), 0);
    assert_int_equal(mprotect(area.pages + 20 * PAGE, PAGE, PROT_READ), 0);
    uffd_map(area.uffd, address_of(0), address_of(PAGES));
    assert_mapped(0, PAGES, true);
}

/* Other memory is in the place of a part: it is left alone, and the rest is mapped. */
static void a_part_is_other_memory(void **state)
{
    (void)state;
    if (area.uffd < 0)
        skip();
    assert_int_equal(munmap(area.pages + 3 * PAGE, 2 * PAGE), 0);
    assert_ptr_equal(mmap(area.pages + 12 * PAGE, 5 * PAGE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                     area.pages + 12 * PAGE);
    uffd_map(area.uffd, address_of(0), address_of(PAGES));
    assert_mapped(0, 3, true);
    assert_mapped(3, 5, false);
    assert_mapped(5, 12, true);
    assert_mapped(12, 17, false);
    assert_mapped(17, PAGES, true);
    assert_int_equal(area.pages[13 * PAGE], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_is_mapped, setup, teardown),
        cmocka_unit_test_setup_teardown(a_mapping_was_split, setup, teardown),
        cmocka_unit_test_setup_teardown(a_part_is_other_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
