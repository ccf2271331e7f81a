/* Sessions: only who has the key is heard; what is changed, repeated or left out on the way ends them. */
#include "relay/session.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/secure/hello.h"

#define STEPS 20

static const struct session_key key = {.key = "the key of this job, 32 bytes...", .job = "this job"};

/* Two ends, each connected to a socket of the test, which passes bytes on. */
struct pair {
    struct session *host, *gatherer;
    int of_host, of_gatherer;
};

static void open_pair(struct pair *pair, const struct session_key *of_host)
{
    int one[2], other[2];
    struct belay_error err;
    assert_return_code(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, one), errno);
    assert_return_code(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, other), errno);
    pair->of_host = one[1];
    pair->of_gatherer = other[1];
    pair->host = session_begin(one[0], of_host, 3, &err);
    pair->gatherer = session_await(other[0], &key, &err);
    assert_non_null(pair->host);
    assert_non_null(pair->gatherer);
}

static void close_pair(struct pair *pair)
{
    session_destroy(pair->host);
    session_destroy(pair->gatherer);
    close(pair->of_host);
    close(pair->of_gatherer);
}

/* What is there, passed on; returns how many bytes. */
static size_t pass(int from, int to)
{
    char bytes[65536];
    ssize_t got = read(from, bytes, sizeof bytes);
    if (got <= 0)
        return 0;
    assert_int_equal(write(to, bytes, (size_t)got), got);
    return (size_t)got;
}

/* Returns 0, or -1 when one of them is over, with err. */
static int move(struct pair *pair, struct belay_error *err)
{
    for (int i = 0; i < STEPS; i++) {
        if (session_move(pair->host, err) < 0 || session_move(pair->gatherer, err) < 0)
            return -1;
        pass(pair->of_host, pair->of_gatherer);
        pass(pair->of_gatherer, pair->of_host);
    }
    return 0;
}

static void say(struct session *session, const char *text)
{
    const struct record record = {
        .kind = RECORD_MESSAGE, .channel = 9, .bytes = (const uint8_t *)text, .count = strlen(text)};
    assert_int_equal(session_put(session, &record, "(", 1), 0);
}

static void expect(struct session *session, const char *text)
{
    struct record record;
    struct belay_error err;
    assert_int_equal(session_take(session, &record, &err), 1);
    assert_int_equal(record.kind, RECORD_MESSAGE);
    assert_int_equal(record.channel, 9);
    assert_int_equal(record.count, strlen(text));
    assert_memory_equal(record.bytes, text, record.count);
}

static void test_records_come_in_order(void **state)
{
    struct pair pair;
    struct belay_error err;
    (void)state;
    open_pair(&pair, &key);
    assert_int_equal(move(&pair, &err), 0);
    assert_true(session_is_open(pair.host) && session_is_open(pair.gatherer));
    assert_int_equal(session_node(pair.gatherer), 3);
    say(pair.host, "one)");
    say(pair.host, "two)");
    say(pair.gatherer, "three)");
    assert_int_equal(move(&pair, &err), 0);
    expect(pair.gatherer, "(one)");
    expect(pair.gatherer, "(two)");
    expect(pair.host, "(three)");
    close_pair(&pair);
}

static void test_another_key(void **state)
{
    struct pair pair;
    struct belay_error err;
    struct session_key other = key;
    (void)state;
    other.key[31] ^= 1;
    open_pair(&pair, &other);
    assert_int_equal(move(&pair, &err), -1);
    assert_non_null(strstr(err.text, "was not made with the job's key"));
    assert_false(session_is_open(pair.host) || session_is_open(pair.gatherer));
    close_pair(&pair);
}

static void test_another_job(void **state)
{
    struct pair pair;
    struct belay_error err;
    struct session_key other = key;
    (void)state;
    other.job[0] ^= 1;
    open_pair(&pair, &other);
    assert_int_equal(move(&pair, &err), -1);
    assert_non_null(strstr(err.text, "another job"));
    close_pair(&pair);
}

/* Who has recorded the hellos of a host and repeats them to the gatherer gets no session. */
static void test_repeated_hellos(void **state)
{
    struct pair pair;
    struct belay_error err;
    uint8_t hellos[2 * HELLO_BYTES];
    int again[2];
    (void)state;
    open_pair(&pair, &key);
    assert_int_equal(session_move(pair.host, &err), 0);
    assert_int_equal(read(pair.of_host, hellos, HELLO_BYTES), HELLO_BYTES);
    assert_int_equal(write(pair.of_gatherer, hellos, HELLO_BYTES), HELLO_BYTES);
    assert_int_equal(session_move(pair.gatherer, &err), 0);
    assert_int_equal(pass(pair.of_gatherer, pair.of_host), HELLO_BYTES);
    assert_int_equal(session_move(pair.host, &err), 0);
    assert_true(session_is_open(pair.host));
    assert_int_equal(read(pair.of_host, hellos + HELLO_BYTES, HELLO_BYTES), HELLO_BYTES);

    assert_return_code(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, again), errno);
    struct session *second = session_await(again[0], &key, &err);
    assert_int_equal(write(again[1], hellos, sizeof hellos), sizeof hellos);
    int rc = 0;
    for (int i = 0; i < STEPS && rc == 0; i++)
        rc = session_move(second, &err);
    assert_int_equal(rc, -1);
    assert_false(session_is_open(second));
    session_destroy(second);
    close(again[1]);
    close_pair(&pair);
}

/* Take what the host says next out of its way. Returns how many bytes. */
static size_t intercept(struct pair *pair, const char *text, uint8_t bytes[4096])
{
    struct belay_error err;
    assert_int_equal(move(pair, &err), 0);
    say(pair->host, text);
    assert_int_equal(session_move(pair->host, &err), 0);
    ssize_t got = read(pair->of_host, bytes, 4096);
    assert_true(got > 0);
    return (size_t)got;
}

static void expect_refusal(struct pair *pair, const uint8_t *bytes, size_t count)
{
    struct belay_error err;
    struct record record;
    assert_int_equal(write(pair->of_gatherer, bytes, count), count);
    assert_int_equal(session_move(pair->gatherer, &err), 0);
    assert_int_equal(session_take(pair->gatherer, &record, &err), -1);
    assert_int_equal(err.code, EBADMSG);
}

static void test_a_changed_record(void **state)
{
    (void)state;
    for (size_t at = 4; at < 40; at += 5) {
        struct pair pair;
        uint8_t bytes[4096];
        open_pair(&pair, &key);
        size_t count = intercept(&pair, "text that is long enough)", bytes);
        bytes[at] ^= 0x10;
        expect_refusal(&pair, bytes, count);
        close_pair(&pair);
    }
}

static void test_a_repeated_record(void **state)
{
    struct pair pair;
    uint8_t bytes[4096];
    struct belay_error err;
    (void)state;
    open_pair(&pair, &key);
    size_t count = intercept(&pair, "once)", bytes);
    assert_int_equal(write(pair.of_gatherer, bytes, count), count);
    assert_int_equal(session_move(pair.gatherer, &err), 0);
    expect(pair.gatherer, "(once)");
    expect_refusal(&pair, bytes, count);
    close_pair(&pair);
}

static void test_a_record_that_is_left_out(void **state)
{
    struct pair pair;
    uint8_t bytes[4096];
    (void)state;
    open_pair(&pair, &key);
    intercept(&pair, "lost)", bytes);
    size_t count = intercept(&pair, "next)", bytes);
    expect_refusal(&pair, bytes, count);
    close_pair(&pair);
}

static void test_an_impossible_length(void **state)
{
    static const uint8_t bytes[64] = {0xff, 0xff, 0xff, 0x7f};
    struct pair pair;
    struct belay_error err;
    (void)state;
    open_pair(&pair, &key);
    assert_int_equal(move(&pair, &err), 0);
    expect_refusal(&pair, bytes, sizeof bytes);
    close_pair(&pair);
}

/* Nothing that others send on is readable. */
static void test_records_are_encrypted(void **state)
{
    struct pair pair;
    uint8_t bytes[4096];
    (void)state;
    open_pair(&pair, &key);
    size_t count = intercept(&pair, "a secret)", bytes);
    assert_null(memmem(bytes, count, "secret", 6));
    close_pair(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_come_in_order),
        cmocka_unit_test(test_another_key),
        cmocka_unit_test(test_another_job),
        cmocka_unit_test(test_repeated_hellos),
        cmocka_unit_test(test_a_changed_record),
        cmocka_unit_test(test_a_repeated_record),
        cmocka_unit_test(test_a_record_that_is_left_out),
        cmocka_unit_test(test_an_impossible_length),
        cmocka_unit_test(test_records_are_encrypted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
