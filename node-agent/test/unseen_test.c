/*
 * unseen_test.c - memory that is written without its page table showing it. This process is its own subject:
 * it writes to itself by io_uring, whose registered buffers are pinned.
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/uffd.h"
#include "node-agent/test/half.h"
#include "node-agent/test/steps.h"

#define PAGE IMAGE_PAGE_BYTES
#define PAGES 8u

/* A ring with one entry; `page` is registered with it. */
struct ring {
    int fd, file; /* the file has one byte in every page-sized block: what is read */
    char *page;
    uint32_t *tail, *array;
    uint32_t *result_head;
    struct io_uring_sqe *entry;
};

static char *memory_of_test(void)
{
    return (char *)(uintptr_t)UPPER_BASE;
}

static int ring_open(struct ring *ring, char *page)
{
    struct io_uring_params params = {0};
    struct iovec buffer = {page, PAGE};
    ring->page = page;
    ring->file = memfd_create("belay-unseen", MFD_CLOEXEC);
    ring->fd = (int)syscall(SYS_io_uring_setup, 1, &params);
    if (ring->fd < 0)
        return -1;
    char *queue = mmap(NULL, params.sq_off.array + sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_SHARED,
                       ring->fd, IORING_OFF_SQ_RING);
    ring->entry =
        mmap(NULL, sizeof *ring->entry, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_SQES);
    ring->tail = (uint32_t *)(void *)(queue + params.sq_off.tail);
    ring->array = (uint32_t *)(void *)(queue + params.sq_off.array);
    ring->result_head = (uint32_t *)(void *)(queue + params.cq_off.head);
    return (int)syscall(SYS_io_uring_register, ring->fd, IORING_REGISTER_BUFFERS, &buffer, 1);
}

/* The page is filled with a letter, by the kernel. */
static void ring_write(struct ring *ring, char letter)
{
    char block[PAGE];
    memset(block, letter, sizeof block);
    assert_int_equal(pwrite(ring->file, block, sizeof block, 0), (ssize_t)PAGE);
    *ring->entry = (struct io_uring_sqe){.opcode = IORING_OP_READ_FIXED,
                                         .fd = ring->file,
                                         .addr = (uintptr_t)ring->page,
                                         .len = (uint32_t)PAGE};
    ring->array[0] = 0;
    __atomic_add_fetch(ring->tail, 1, __ATOMIC_RELEASE);
    assert_int_equal(syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0), 1);
    __atomic_add_fetch(ring->result_head, 1, __ATOMIC_RELEASE);
    assert_int_equal(ring->page[0], letter);
}

static void ring_close(struct ring *ring)
{
    if (ring->fd >= 0)
        close(ring->fd);
    close(ring->file);
}

/* Take the line; its image. */
static int take(struct memory *memory, uint64_t line, int image)
{
    return steps_image(steps_capture(memory, line), image, line, false);
}

static char letter_in(int image, const char *page)
{
    char letter = 0;
    assert_int_equal(pread(image, &letter, 1, (off_t)image_offset((uintptr_t)page)), 1);
    return letter;
}

/* Memory is followed, and a ring has a page of it, which holds the letter a. Skips without io_uring. */
static struct memory *follow(struct ring *ring, char *page)
{
    struct memory *memory =
        memory_create(getpid(), &upper_only, &tracker_pagemap_scan, uffd_make(), -1, 0, NULL);
    assert_non_null(memory);
    if (ring_open(ring, page) < 0) {
        memory_unref(memory);
        print_message("skipped: no io_uring here\n");
        skip();
    }
    memset(page, 'a', PAGE);
    return memory;
}

/* A write is under way while pages are copied ahead: the page was told before, and arrives later. */
static void test_under_way(void **state)
{
    (void)state;
    struct ring ring;
    char *page = memory_of_test() + PAGE;
    struct memory *memory = follow(&ring, page);
    steps_ahead(memory, 1);
    ring_write(&ring, 'b');
    assert_true(memory_distrust(memory, MEMORY_TRUST_PAUSES));
    assert_false(memory_distrust(memory, MEMORY_TRUST_PAUSES));
    int image = take(memory, 1, -1);
    assert_int_equal(letter_in(image, page), 'b');
    memset(page, 'c', PAGE);
    steps_ahead(memory, 2);
    ring_write(&ring, 'd');
    image = take(memory, 2, image);
    assert_int_equal(letter_in(image, page), 'd');
    close(image);
    ring_close(&ring);
    memory_unref(memory);
}

/* Nothing tells that the page was written. */
static void test_at_any_time(void **state)
{
    (void)state;
    struct ring ring;
    char *page = memory_of_test() + 2 * PAGE;
    struct memory *memory = follow(&ring, page);
    int image = take(memory, 1, -1);
    assert_true(memory_distrust(memory, MEMORY_TRUST_NOTHING));
    ring_write(&ring, 'b');
    image = take(memory, 2, image);
    assert_int_equal(letter_in(image, page), 'b');
    close(image);
    ring_close(&ring);
    memory_unref(memory);
}

static int map(void **state)
{
    (void)state;
    void *at = mmap(memory_of_test(), PAGES * PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    return at == memory_of_test() ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_under_way),
        cmocka_unit_test(test_at_any_time),
    };
    if (!tracker_pagemap_scan.works()) {
        puts("skipped: no pagemap_scan on this kernel");
        return 77; /* automake: skipped */
    }
    return cmocka_run_group_tests(tests, map, NULL);
}
