/*
 * test_vk_stream.c - what the application writes goes out as one piece, so that a rank that is killed in the
 * middle of a call leaves no part of it. The state of the virtual kernel is made here, at its address.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <asm/prctl.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "mpi-layer/lower/vk.h"
#include "mpi-layer/lower/vk_postponed.h"
#include "mpi-layer/lower/vk_stream.h"

#define STACK 4711 /* some stack pointer */
#define PART(text)                                                                                           \
    {                                                                                                        \
        (char[]){text}, sizeof text - 1                                                                      \
    }

static struct thread self;
static struct streams shared;
static struct streams_rank *slot;
static int ends[2]; /* of a pipe */

bool vk_is_rank(void)
{
    return true;
}

bool vk_is_own_process(void)
{
    return true;
}

/* No signal comes in the midst of a call. */
void vk_postponed_send_blocked(void)
{
}

static struct stream *output(void)
{
    return &slot->streams[0];
}

static char *ring(void)
{
    return (char *)slot + STREAMS_PAGE_BYTES;
}

static void start(bool is_forwarded)
{
    struct vk_streams streams = {
        .shared = &shared, .slot = slot, .wake_fd = -1, .is_forwarded = is_forwarded, .rank = 1};
    vk_stream_start(&streams);
}

/* The application is at its start. */
static void begin_output(void)
{
    VK->outputs[0] = (struct stream_end){.digest = STREAM_DIGEST_START};
}

static int set_up(void **state)
{
    (void)state;
    memset(slot, 0, STREAMS_SLOT_BYTES);
    begin_output();
    self = (struct thread){.self = &self};
    start(true);
    return pipe2(ends, O_CLOEXEC);
}

static int tear_down(void **state)
{
    (void)state;
    close(ends[0]);
    close(ends[1]);
    return 0;
}

static bool put(const struct iovec *parts, int count, long *result)
{
    return vk_stream_write_at_once(SYS_writev, ends[1], (long)parts, count, 0, STACK, result);
}

static bool put_text(const char *text, long *result)
{
    return vk_stream_write_at_once(SYS_write, ends[1], (long)text, (long)strlen(text), 0, STACK, result);
}

static void test_parts_are_one_piece(void **state)
{
    (void)state;
    const struct iovec parts[] = {PART("one"), PART(""), PART(" two"), PART(" three\n")};
    long result;
    assert_true(put_text("before\n", &result));
    uint32_t turn = output()->turn;
    assert_true(put(parts, 4, &result));
    assert_int_equal(result, 14);
    assert_memory_equal(ring(), "before\none two three\n", 21);
    assert_int_not_equal(output()->turn, turn); /* switched once: the other end is that before the call */
    assert_int_equal(output()->ends[turn].bytes, 7);
    assert_int_equal(stream_end_now(output()).bytes, 21);
    assert_int_equal(stream_end_now(output()).lines, 2);
    assert_int_equal(VK->outputs[0].digest, stream_end_now(output()).digest);
}

/* Nothing of it, until there is room for all; then around the end of the ring. */
static void test_a_full_ring(void **state)
{
    (void)state;
    const struct iovec parts[] = {PART("some"), PART("where\n")};
    struct stream_end almost = {.bytes = STREAMS_RING_BYTES - 6, .digest = STREAM_DIGEST_START};
    long result;
    output()->ends[0] = VK->outputs[0] = almost;
    assert_false(put(parts, 2, &result));
    assert_int_equal(stream_end_now(output()).bytes, almost.bytes);
    assert_int_equal(self.written_at, 0);
    output()->taken = 4;
    assert_true(put(parts, 2, &result));
    assert_int_equal(result, 10);
    assert_memory_equal(ring() + almost.bytes, "somewh", 6);
    assert_memory_equal(ring(), "ere\n", 4);
}

/* After a restart what is out already is left out, wherever in a part it ends. */
static void test_what_was_written_before(void **state)
{
    (void)state;
    const struct iovec parts[] = {PART("a line\nand"), PART(" another\n"), PART("and more\n")};
    long result;
    assert_true(put_text("a line\nand ano", &result));
    begin_output();
    assert_true(put(parts, 3, &result));
    assert_int_equal(result, 28);
    assert_memory_equal(ring(), "a line\nand another\nand more\n", 28);
    assert_int_equal(stream_end_now(output()).bytes, 28);
}

static void test_left_to_the_launcher(void **state)
{
    (void)state;
    const struct iovec parts[] = {PART("in "), PART("one "), PART("piece\n")};
    char text[64] = "";
    long result;
    start(false);
    assert_true(put(parts, 3, &result));
    assert_int_equal(result, 13);
    assert_int_equal(read(ends[0], text, sizeof text), 13);
    assert_string_equal(text, "in one piece\n");
    assert_int_equal(output()->taken, 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_parts_are_one_piece, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_full_ring, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_was_written_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_left_to_the_launcher, set_up, tear_down),
    };
    void *vk = mmap(VK, sizeof *VK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                    -1, 0);
    slot = mmap(NULL, STREAMS_SLOT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (vk != VK || slot == MAP_FAILED || syscall(SYS_arch_prctl, ARCH_SET_GS, &self) != 0)
        return 99;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
