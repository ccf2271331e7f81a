/* Standard streams on both sides of a session: what comes across, and what is refused. */
#include "relay/mirror.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/wire/descriptor.h"
#include "common/wire/streams.h"
#include "relay/streams_record.h"

#define RANKS 3u
#define STEPS 20

static const struct session_key key = {.key = "the key of this job, 32 bytes...", .job = "this job"};

/* The memory of the agent and the one of the arbiter, as ranks and the arbiter map them. */
struct view {
    struct streams *head;
    uint8_t *memory;
};

struct sides {
    struct session *host, *gatherer;
    struct tap *tap;
    struct mirror *mirror;
    struct view far, near;
    int far_fd;
};

static struct view view_of(int fd)
{
    uint8_t *memory = mmap(NULL, STREAMS_SLOT(RANKS), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    return (struct view){(void *)memory, memory};
}

static struct stream *stream_of(const struct view *view, uint32_t rank)
{
    struct streams_rank *slot = (void *)(view->memory + STREAMS_SLOT(rank));
    return &slot->streams[0];
}

/* As a rank does. */
static void write_out(const struct view *view, uint32_t rank, const char *text)
{
    struct stream *stream = stream_of(view, rank);
    struct stream_end end = stream_end_now(stream);
    char *ring = (char *)view->memory + STREAMS_RING(rank, 0ul);
    for (size_t i = 0; text[i]; i++)
        ring[(end.bytes + i) % STREAMS_RING_BYTES] = text[i];
    stream->ends[!stream->turn] = stream_end_after(end, text, strlen(text));
    stream->turn = !stream->turn;
}

/* All that both sides say, taken by the other one. */
static void settle(struct sides *sides)
{
    struct record record;
    struct belay_error err;
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(session_move(sides->host, &err), 0);
        assert_int_equal(session_move(sides->gatherer, &err), 0);
        while (session_take(sides->gatherer, &record, &err) > 0)
            assert_int_equal(mirror_take(sides->mirror, &record, &err), 0);
        while (session_take(sides->host, &record, &err) > 0)
            assert_int_equal(tap_take(sides->tap, &record, &err), 0);
    }
}

static int setup(void **state)
{
    static struct sides sides;
    struct belay_error err;
    int ends[2];
    const struct streams head = {.magic = STREAMS_MAGIC, .version = STREAMS_VERSION, .ranks = RANKS};
    assert_return_code(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), errno);
    sides.host = session_begin(ends[0], &key, 1, &err);
    sides.gatherer = session_await(ends[1], &key, &err);
    sides.mirror = mirror_create(&err);
    assert_non_null(sides.mirror);
    int fds[2] = {descriptor_make_memory("far", STREAMS_BYTES, &err), eventfd(0, EFD_NONBLOCK)};
    assert_int_equal(descriptor_put(fds[0], 0, &head, sizeof head), 0);
    sides.far = view_of(fds[0]);
    sides.near = view_of(mirror_fds(sides.mirror)[0]);
    sides.far_fd = fds[0];
    sides.tap = tap_create(fds, &err);
    assert_non_null(sides.tap);
    settle(&sides);
    *state = &sides;
    return 0;
}

static int teardown(void **state)
{
    struct sides *sides = *state;
    munmap(sides->far.memory, STREAMS_SLOT(RANKS));
    munmap(sides->near.memory, STREAMS_SLOT(RANKS));
    tap_destroy(sides->tap);
    mirror_destroy(sides->mirror);
    session_destroy(sides->host);
    session_destroy(sides->gatherer);
    return 0;
}

static void look(struct sides *sides)
{
    struct belay_error err;
    bool is_waiting;
    assert_int_equal(tap_look(sides->tap, sides->host, &err), 0);
    settle(sides);
    assert_int_equal(mirror_look(sides->mirror, sides->gatherer, &is_waiting, &err), 0);
    settle(sides);
}

static void expect_ring(const struct view *view, uint32_t rank, uint64_t at, const char *text)
{
    const char *ring = (char *)view->memory + STREAMS_RING(rank, 0ul);
    for (size_t i = 0; text[i]; i++)
        assert_int_equal(ring[(at + i) % STREAMS_RING_BYTES], text[i]);
}

static void test_output_comes_and_is_taken(void **state)
{
    struct sides *sides = *state;
    write_out(&sides->far, 1, "some output\n");
    look(sides);
    assert_int_equal(sides->near.head->ranks, RANKS);
    struct stream_end end = stream_end_now(stream_of(&sides->near, 1)),
                      far = stream_end_now(stream_of(&sides->far, 1));
    assert_memory_equal(&end, &far, sizeof end);
    expect_ring(&sides->near, 1, 0, "some output\n");
    assert_int_equal(stream_of(&sides->far, 1)->taken, 0);
    stream_of(&sides->near, 1)->taken = 5;
    look(sides);
    assert_int_equal(stream_of(&sides->far, 1)->taken, 5);
}

/* The arbiter before has taken a part of it. */
static void test_the_state_at_first(void **state)
{
    struct sides *sides = *state;
    struct belay_error err;
    static const char input[] = "the input so far";
    write_out(&sides->far, 0, "taken|not taken");
    stream_of(&sides->far, 0)->taken = 6;
    assert_int_equal(descriptor_put(sides->far_fd, STREAMS_INPUT_OFFSET, input, sizeof input), 0);
    sides->far.head->input_bytes = sizeof input;
    sides->far.head->input_has_ended = 1;
    assert_int_equal(tap_send_all(sides->tap, sides->host, &err), 0);
    settle(sides);
    assert_int_equal(stream_of(&sides->near, 0)->taken, 6);
    assert_int_equal(stream_end_now(stream_of(&sides->near, 0)).bytes, 15);
    expect_ring(&sides->near, 0, 6, "not taken");
    char got[sizeof input];
    assert_int_equal(pread(mirror_fds(sides->mirror)[0], got, sizeof got, STREAMS_INPUT_OFFSET), sizeof got);
    assert_string_equal(got, input);
    assert_int_equal(sides->near.head->input_bytes, sizeof input);
    assert_int_equal(sides->near.head->input_has_ended, 1);
}

/* A rank that has run elsewhere goes on where it was, and only what it writes then comes. */
static void test_a_rank_that_moves_here(void **state)
{
    struct sides *sides = *state;
    struct belay_error err;
    const struct stream_end end =
        stream_end_after((struct stream_end){.digest = STREAM_DIGEST_START}, "elsewhere", 9);
    struct stream *near = stream_of(&sides->near, 2);
    near->ends[0] = end;
    near->taken = 9;
    sides->far.head->ranks = 0; /* no rank of the launch has come yet */
    assert_int_equal(mirror_push(sides->mirror, sides->gatherer, RANKS, &err), 0);
    settle(sides);
    struct stream_end far = stream_end_now(stream_of(&sides->far, 2));
    assert_memory_equal(&far, &end, sizeof end);
    assert_int_equal(stream_of(&sides->far, 2)->taken, 9);
    sides->far.head->ranks = RANKS;
    write_out(&sides->far, 2, " and here");
    look(sides);
    assert_int_equal(stream_end_now(near).bytes, 18);
    assert_int_equal(near->taken, 9);
    expect_ring(&sides->near, 2, 9, " and here");
}

static void test_a_ring_that_wraps(void **state)
{
    struct sides *sides = *state;
    char *text = calloc(1, STREAMS_RING_BYTES);
    memset(text, 'x', STREAMS_RING_BYTES - 1);
    write_out(&sides->far, 0, text);
    look(sides);
    stream_of(&sides->near, 0)->taken = STREAMS_RING_BYTES - 1;
    look(sides);
    write_out(&sides->far, 0, "wrapped");
    look(sides);
    expect_ring(&sides->near, 0, STREAMS_RING_BYTES - 1, "wrapped");
    free(text);
}

/* A rank may write anything into the memory: the relay passes on what can be, and lives. */
static void test_impossible_ends(void **state)
{
    struct sides *sides = *state;
    struct stream *stream = stream_of(&sides->far, 0);
    stream->ends[stream->turn].bytes = UINT64_MAX;
    look(sides);
    stream->taken = UINT64_MAX;
    stream->ends[stream->turn].bytes = 7;
    look(sides);
    stream->turn = 77;
    sides->far.head->input_bytes = UINT64_MAX;
    look(sides);
}

static void expect_refused(struct sides *sides, enum record_kind kind, const void *bytes, size_t count)
{
    struct belay_error err;
    const struct record record = {.kind = kind, .bytes = bytes, .count = count};
    assert_int_equal(mirror_take(sides->mirror, &record, &err), -1);
    assert_int_equal(err.code, EPROTO);
}

static void test_records_that_make_no_sense(void **state)
{
    struct sides *sides = *state;
    uint8_t bytes[64] = {0};
    expect_refused(sides, RECORD_OUTPUT, bytes, 47);
    expect_refused(sides, RECORD_OUTPUT, bytes, 64); /* more bytes than end - from */
    memset(bytes, 0xff, 4);
    expect_refused(sides, RECORD_OUTPUT, bytes, 48); /* such a rank */
    expect_refused(sides, RECORD_HEAD, bytes, 20);   /* so many ranks */
    memset(bytes, 0xff, 8);
    expect_refused(sides, RECORD_INPUT, bytes, 12); /* such an offset */
    memset(bytes, 0, sizeof bytes);
    bytes[4] = 2;
    expect_refused(sides, RECORD_OUTPUT, bytes, 48); /* such a stream */
    expect_refused(sides, RECORD_TAKEN, bytes, 48);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_output_comes_and_is_taken), TEST(test_the_state_at_first),
        TEST(test_a_rank_that_moves_here),    TEST(test_a_ring_that_wraps),
        TEST(test_impossible_ends),           TEST(test_records_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
