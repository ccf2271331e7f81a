/* message_test.c - frames and their descriptors arrive whole, and malformed ones are refused. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/wire/belay.pb-c.h"
#include "common/wire/message.h"

static int ends[2];

static int setup(void **state)
{
    (void)state;
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
}

static int teardown(void **state)
{
    (void)state;
    close(ends[0]);
    if (ends[1] >= 0)
        close(ends[1]);
    return 0;
}

static void end_sender(void)
{
    close(ends[1]);
    ends[1] = -1;
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void send_stop(const int *fds, unsigned fd_count)
{
    Belay__Wire__Stop stop = BELAY__WIRE__STOP__INIT;
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    stop.job = "heat-1";
    request.body_case = BELAY__WIRE__REQUEST__BODY_STOP;
    request.stop = &stop;
    assert_int_equal(message_send(ends[1], &request.base, fds, fd_count, NULL), 0);
}

static void test_round_trip(void **state)
{
    (void)state;
    int pipe_ends[2], came[MESSAGE_MAX_FDS];
    unsigned count = 0;
    uint8_t *bytes;
    char letter = 0;
    assert_int_equal(pipe(pipe_ends), 0);
    send_stop(&pipe_ends[1], 1);
    send_stop(NULL, 0);
    ssize_t length = message_receive(ends[0], &bytes, came, &count, NULL);
    assert_true(length > 0);
    Belay__Wire__Request *request = belay__wire__request__unpack(NULL, (size_t)length, bytes);
    assert_non_null(request);
    assert_string_equal(request->stop->job, "heat-1");
    belay__wire__request__free_unpacked(request, NULL);
    free(bytes);
    assert_int_equal(count, 1);
    assert_true(fcntl(came[0], F_GETFD) & FD_CLOEXEC);
    assert_int_equal(write(came[0], "x", 1), 1);
    assert_int_equal(read(pipe_ends[0], &letter, 1), 1);
    assert_int_equal(letter, 'x');
    close(came[0]);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    assert_int_equal(message_receive(ends[0], &bytes, came, &count, NULL), length);
    assert_int_equal(count, 0);
    free(bytes);
    end_sender();
    assert_int_equal(message_receive(ends[0], &bytes, came, &count, NULL), 0);
    assert_null(bytes);
}

static void test_unwanted_descriptors_are_closed(void **state)
{
    (void)state;
    uint8_t *bytes;
    unsigned before = open_descriptors();
    int fds[MESSAGE_MAX_FDS];
    for (int i = 0; i < MESSAGE_MAX_FDS; i++)
        fds[i] = ends[0];
    send_stop(fds, MESSAGE_MAX_FDS);
    assert_true(message_receive(ends[0], &bytes, NULL, NULL, NULL) > 0);
    free(bytes);
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(message_send(ends[1], &(ProtobufCMessage){0}, fds, MESSAGE_MAX_FDS + 1, NULL), -1);
}

static void refuse_bytes(const void *raw, size_t count)
{
    uint8_t *bytes;
    struct belay_error err = {0};
    assert_int_equal(write(ends[1], raw, count), (ssize_t)count);
    end_sender();
    assert_int_equal(message_receive(ends[0], &bytes, NULL, NULL, &err), -1);
    assert_int_equal(err.code, EBADMSG);
    assert_null(bytes);
}

static void test_huge_length(void **state)
{
    (void)state;
    refuse_bytes("\xff\xff\xff\xff", 4);
}

static void test_length_just_beyond(void **state)
{
    (void)state;
    refuse_bytes("\x01\x00\x00\x01", 4);
}

static void test_zero_length(void **state)
{
    (void)state;
    refuse_bytes("\0\0\0\0", 4);
}

static void test_end_inside_the_header(void **state)
{
    (void)state;
    refuse_bytes("\x08\0", 2);
}

static void test_end_inside_the_body(void **state)
{
    (void)state;
    refuse_bytes("\x08\0\0\0abc", 7);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(test_round_trip),          EACH(test_unwanted_descriptors_are_closed),
        EACH(test_huge_length),         EACH(test_length_just_beyond),
        EACH(test_zero_length),         EACH(test_end_inside_the_header),
        EACH(test_end_inside_the_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
