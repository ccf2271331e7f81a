/* Output of several ranks: whole lines, prompts, lines whose end is late. The ranks are written by hand. */
#include "cmd/outlet.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/wire/streams.h"

#define RANKS 2u
#define HANG_MS 20000 /* only a failure takes so long */

static struct outlet *outlet;
static char *memory; /* the page in front, and the slots */
static int wake, reader, own_output;

static int set_up(void **state)
{
    int ends[2], fd = memfd_create("streams", MFD_CLOEXEC);
    size_t bytes = STREAMS_SLOT(RANKS);
    struct belay_error err;
    (void)state;
    if (fd < 0 || ftruncate(fd, (off_t)STREAMS_BYTES) || pipe(ends))
        return -1;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return -1;
    struct streams *head = (void *)memory;
    head->magic = STREAMS_MAGIC;
    head->version = STREAMS_VERSION;
    head->ranks = RANKS;
    wake = eventfd(0, EFD_NONBLOCK);
    own_output = dup(STDOUT_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[1]);
    reader = ends[0];
    outlet = outlet_create(fd, dup(wake), &err);
    return outlet && outlet_start(outlet, true, &err) == 0 ? 0 : -1;
}

/* Until the test ends: what it prints goes where it did before. */
static void end_output(void)
{
    outlet_finish(outlet, false);
    dup2(own_output, STDOUT_FILENO);
}

static int tear_down(void **state)
{
    (void)state;
    end_output();
    outlet_destroy(outlet);
    munmap(memory, STREAMS_SLOT(RANKS));
    close(own_output);
    close(wake);
    close(reader);
    return 0;
}

/* As a rank does it. */
static void say(uint32_t rank, const char *text)
{
    struct streams_rank *slot = (void *)(memory + STREAMS_SLOT(rank));
    struct stream *stream = &slot->streams[0];
    struct stream_end end = stream_end_now(stream);
    for (uint64_t i = 0; text[i]; i++)
        memory[STREAMS_RING(rank, 0ul) + (end.bytes + i) % STREAMS_RING_BYTES] = text[i];
    uint32_t next = (stream->turn + 1) & 1;
    stream->ends[next] = stream_end_after(end, text, strlen(text));
    __atomic_store_n(&stream->turn, next, __ATOMIC_RELEASE);
    uint64_t one = 1;
    assert_int_equal(write(wake, &one, sizeof one), sizeof one);
}

/* This comes next, and nothing else. */
static void expect(const char *text)
{
    char got[256] = "";
    for (size_t at = 0; at < strlen(text);) {
        struct pollfd wait = {.fd = reader, .events = POLLIN};
        assert_int_equal(poll(&wait, 1, HANG_MS), 1);
        ssize_t count = read(reader, got + at, strlen(text) - at);
        assert_true(count > 0);
        at += (size_t)count;
    }
    assert_string_equal(got, text);
}

static void lines_of_ranks(void **state)
{
    (void)state;
    say(0, "one\ntwo\n");
    expect("one\ntwo\n");
    say(1, "three\n");
    expect("three\n");
}

static void a_beginning_waits_for_its_end(void **state)
{
    (void)state;
    say(0, "begin");
    say(1, "other\n");
    say(0, " end\n");
    end_output();
    char got[64] = "";
    assert_true(read(reader, got, sizeof got - 1) > 0);
    assert_non_null(strstr(got, "begin end\n"));
    assert_non_null(strstr(got, "other\n"));
}

/* Its beginning is out, since it might have been a prompt. */
static void others_wait_for_the_end_of_a_line(void **state)
{
    (void)state;
    say(0, "begin");
    expect("begin");
    say(1, "other\n");
    say(0, " end\nmore");
    expect(" end\nother\nmore");
}

static void others_do_not_wait_for_ever(void **state)
{
    (void)state;
    say(0, "How many? ");
    expect("How many? ");
    say(1, "other\n");
    expect("other\n");
}

static void at_the_end_nobody_waits(void **state)
{
    (void)state;
    say(0, "begin");
    expect("begin");
    say(1, "other\n");
    say(1, "more");
    end_output();
    expect("other\nmore");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(lines_of_ranks),
        TEST(a_beginning_waits_for_its_end),
        TEST(others_wait_for_the_end_of_a_line),
        TEST(others_do_not_wait_for_ever),
        TEST(at_the_end_nobody_waits),
    };
    return cmocka_run_group_tests_name("outlet", tests, NULL, NULL);
}
