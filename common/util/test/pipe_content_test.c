/* pipe_content_test.c - what a pipe holds, in pieces, from one pipe to another. */
#include "common/util/pipe_content.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
/* Behind the headers that it needs. */
#include <cmocka.h>

static void make(int ends[2], bool is_packets)
{
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK | (is_packets ? O_DIRECT : 0)), 0);
}

static void put(const int ends[2], const char *text)
{
    assert_int_equal(write(ends[1], text, strlen(text)), strlen(text));
}

/* All that the pipe of `fd` holds, in a new pipe. */
static void copy(int fd, int ends[2])
{
    char *pieces;
    ssize_t bytes = pipe_content_read(fd, &pieces);
    assert_true(bytes > 0);
    make(ends, false);
    assert_int_equal(pipe_content_write(ends[1], pieces, (size_t)bytes), 0);
    assert_int_equal(fcntl(ends[1], F_GETFL) & O_DIRECT, 0);
    free(pieces);
}

static void expect(int fd, const char *text)
{
    char read_text[64];
    assert_int_equal(read(fd, read_text, sizeof read_text), strlen(text));
    assert_memory_equal(read_text, text, strlen(text));
}

static void expect_nothing(int fd)
{
    char byte;
    assert_int_equal(read(fd, &byte, 1), -1);
    assert_int_equal(errno, EAGAIN);
}

static void close_both(const int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

static void test_plain_bytes(void **state)
{
    int from[2], to[2];
    (void)state;
    make(from, false);
    put(from, "one");
    put(from, "two");
    copy(from[0], to);
    put(to, "three");
    expect(to[0], "onetwothree");
    expect(from[0], "onetwo"); /* nothing was taken out */
    close_both(from);
    close_both(to);
}

/* What is written behind the last packet does not join it. */
static void test_packets(void **state)
{
    static const char *const packets[] = {"one", "a", "three", "b", "cc"};
    const size_t count = sizeof packets / sizeof *packets;
    int from[2], to[2];
    (void)state;
    for (size_t last = 2; last <= count; last++) {
        make(from, true);
        for (size_t i = 0; i < last; i++)
            put(from, packets[i]);
        copy(from[0], to);
        put(to, "more");
        for (size_t i = 0; i < last; i++)
            expect(to[0], packets[i]);
        expect(to[0], "more");
        expect_nothing(to[0]);
        close_both(from);
        close_both(to);
    }
}

static void test_one_packet(void **state)
{
    int from[2], to[2];
    (void)state;
    make(from, true);
    put(from, "alone");
    copy(from[0], to);
    put(to, "more");
    expect(to[0], "alone");
    expect(to[0], "more");
    close_both(from);
    close_both(to);
}

static void test_writing_end(void **state)
{
    int from[2], to[2];
    (void)state;
    make(from, false);
    put(from, "unread");
    close(from[0]);
    copy(from[1], to);
    expect(to[0], "unread");
    close(from[1]);
    close_both(to);
}

static void test_full(void **state)
{
    static char block[PIPE_BUF];
    int from[2], to[2], held = 0;
    (void)state;
    make(from, false);
    while (write(from[1], block, sizeof block) > 0)
        ;
    copy(from[0], to);
    assert_int_equal(ioctl(to[0], FIONREAD, &held), 0);
    assert_int_equal(held, fcntl(from[0], F_GETPIPE_SZ));
    close_both(from);
    close_both(to);
}

static void test_empty_and_none(void **state)
{
    int ends[2];
    char *pieces;
    (void)state;
    make(ends, false);
    assert_int_equal(pipe_content_read(ends[0], &pieces), 0);
    assert_null(pieces);
    close_both(ends);
    assert_int_equal(pipe_content_read(ends[0], &pieces), -1);
    assert_null(pieces);
}

/* Pieces that claim more than there is. */
static void test_wrong_length(void **state)
{
    int ends[2];
    char text[sizeof(struct pipe_piece) + 3];
    const struct pipe_piece piece = {1000, 0};
    (void)state;
    memcpy(text, &piece, sizeof piece);
    memcpy(text + sizeof piece, "abc", 3);
    make(ends, false);
    assert_int_equal(pipe_content_write(ends[1], text, sizeof text), 0);
    expect(ends[0], "abc");
    close_both(ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_bytes),  cmocka_unit_test(test_packets),
        cmocka_unit_test(test_one_packet),   cmocka_unit_test(test_writing_end),
        cmocka_unit_test(test_full),         cmocka_unit_test(test_empty_and_none),
        cmocka_unit_test(test_wrong_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
