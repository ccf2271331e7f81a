/* fabric_stranger_test.c - who is refused, and who cannot disturb. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "node-agent/fabric/endpoint.h"
#include "common/secure/hello.h"
#include "node-agent/test/fabric_ends.h"

/* Node 1 with something else than what node 0 has cannot join it. */
static void refuse(const struct fabric_config *config)
{
    struct end ends[2];
    struct fabric_counts counts;
    struct fabric_config own = ends_config(0, ENDS_PATIENCE_MS);
    end_open(&ends[0], &ends_loop, &own);
    end_open(&ends[1], &ends_loop, config);
    end_connect(&ends[1], &ends[0]);
    ends_wait_number(&ends_loop, &ends[1].lost, 1);
    assert_int_equal(ends[0].joined + ends[1].joined, 0);
    fabric_read_counts(ends[0].fabric, &counts);
    assert_true(counts.frames_refused > 0);
    ends_close_two(ends);
}

static void what_differs_is_refused(void **state)
{
    (void)state;
    struct fabric_config config = ends_config(1, ENDS_STALL_MS);
    config.key[31] ^= 1;
    refuse(&config);
    config = ends_config(1, ENDS_STALL_MS);
    config.job[0] ^= 1;
    refuse(&config);
    config = ends_config(1, ENDS_STALL_MS);
    config.epoch.number = 2;
    refuse(&config);
    config = ends_config(1, ENDS_STALL_MS);
    config.epoch.secret[31] ^= 1;
    refuse(&config);
    config = ends_config(1, ENDS_STALL_MS);
    config.mode = FABRIC_MODE_ENCRYPT;
    refuse(&config);
}

/* An agent is another one than was expected, or was meant for another one. */
static void other_incarnations_are_refused(void **state)
{
    (void)state;
    struct end ends[3];
    struct fabric_config config = ends_config(0, ENDS_PATIENCE_MS);
    end_open(&ends[0], &ends_loop, &config);
    config = ends_config(1, 3 * ENDS_STALL_MS);
    end_open(&ends[1], &ends_loop, &config);
    config.self.incarnation++;
    end_open(&ends[2], &ends_loop, &config);
    struct fabric_identity wrong = ends[0].config.self;
    wrong.incarnation++;
    assert_non_null(fabric_connect(ends[1].fabric, &wrong, &ends[0].address, NULL));
    ends_wait_number(&ends_loop, &ends[1].lost, 1);
    ends_join(&ends_loop, &ends[1], &ends[0]);
    end_connect(&ends[2], &ends[0]); /* node 1 of another memory, while node 1 is here */
    ends_wait_number(&ends_loop, &ends[2].lost, 1);
    assert_int_equal(ends[0].joined, 1);
    assert_int_equal(ends[0].lost, 0);
    for (unsigned i = 0; i < 3; i++)
        end_close(&ends[i], &ends_loop);
}

static void closed_fabric_takes_whom_it_expects(void **state)
{
    (void)state;
    struct end ends[3];
    for (uint32_t i = 0; i < 3; i++) {
        struct fabric_config config = ends_config(i, i == 2 ? ENDS_STALL_MS : ENDS_PATIENCE_MS);
        config.is_open = false;
        end_open(&ends[i], &ends_loop, &config);
    }
    end_connect(&ends[0], &ends[1]);
    end_connect(&ends[1], &ends[0]);
    end_connect(&ends[2], &ends[0]);
    ends_wait_number(&ends_loop, &ends[0].joined, 1);
    ends_wait_number(&ends_loop, &ends[2].lost, 1);
    assert_int_equal(ends[0].joined, 1);
    for (unsigned i = 0; i < 3; i++)
        end_close(&ends[i], &ends_loop);
}

static bool has_refused(void *context)
{
    struct fabric_counts counts;
    fabric_read_counts(((struct end *)context)->fabric, &counts);
    return counts.frames_refused > 0;
}

/* As at the beginning of an epoch, which agents enter one after the other: the next hello would come after
 * minutes. */
static void one_that_spoke_too_early_is_not_waited_for(void **state)
{
    (void)state;
    for (unsigned early = 0; early < 2; early++) {
        struct end ends[2];
        for (uint32_t i = 0; i < 2; i++) {
            struct fabric_config config = ends_config(i, 10 * ENDS_PATIENCE_MS);
            config.is_open = false;
            end_open(&ends[i], &ends_loop, &config);
        }
        end_connect(&ends[early], &ends[1 - early]);
        ends_wait(&ends_loop, has_refused, &ends[1 - early]);
        end_connect(&ends[1 - early], &ends[early]);
        ends_wait_number(&ends_loop, &ends[0].joined, 1);
        ends_wait_number(&ends_loop, &ends[1].joined, 1);
        ends_close_two(ends);
    }
}

/* A bare endpoint, which has no key, and speaks to the fabric of one end. */
struct stranger {
    struct endpoint *endpoint;
    uint64_t peer;
    uint64_t sent;
};

static void stranger_open(struct stranger *stranger, const struct end *end)
{
    struct belay_error err;
    *stranger = (struct stranger){.endpoint = endpoint_open("tcp", "127.0.0.1", &err)};
    assert_non_null(stranger->endpoint);
    assert_int_equal(endpoint_add_peer(stranger->endpoint, &end->address, &stranger->peer), 0);
}

/* Make progress; frames that come are dropped. */
static void stranger_turn(struct stranger *stranger)
{
    struct endpoint_event events[16];
    size_t count = endpoint_read(stranger->endpoint, events, 16);
    for (size_t i = 0; i < count; i++) {
        if (events[i].kind == ENDPOINT_RECEIVED)
            endpoint_release(stranger->endpoint, events[i].frame);
        else
            stranger->sent++;
    }
}

static void stranger_say(struct stranger *stranger, const void *bytes, size_t count)
{
    uint64_t until = ends_now_ms() + ENDS_PATIENCE_MS;
    while (endpoint_send(stranger->endpoint, stranger->peer, bytes, count, 0) < 0) {
        assert_int_equal(errno, EAGAIN);
        assert_true(ends_now_ms() < until);
        stranger_turn(stranger);
        uv_run(&ends_loop, UV_RUN_NOWAIT);
    }
}

static struct hello_terms terms_of(const struct end *end)
{
    struct hello_terms terms = {.mode = end->config.mode,
                                .epoch = end->config.epoch.number,
                                .self = end->config.self,
                                .address = end->address};
    memcpy(terms.job, end->config.job, sizeof terms.job);
    hello_derive_epoch_key(end->config.key, &end->config.epoch, terms.key);
    return terms;
}

struct refused {
    struct end *end;
    uint64_t least;
    struct stranger *stranger;
};

static bool are_refused(void *context)
{
    struct refused *refused = context;
    struct fabric_counts counts;
    fabric_read_counts(refused->end->fabric, &counts);
    stranger_turn(refused->stranger);
    return counts.frames_refused >= refused->least;
}

/* Hellos that somebody has recorded, while the session of their agent lasts, and after that. */
static void replays_are_refused(void **state)
{
    (void)state;
    struct end ends[2];
    struct stranger stranger;
    uint8_t old[HELLO_BYTES], answer[HELLO_BYTES], confirm[HELLO_BYTES];
    ends_open_two(ends, ENDS_PATIENCE_MS);
    struct hello_terms terms = terms_of(&ends[1]), others = terms_of(&ends[0]);
    hello_make(&terms, HELLO_FIRST, &ends[0].config.self, NULL, old);
    hello_make(&others, HELLO_ANSWER, &ends[1].config.self, old, answer);
    hello_make(&terms, HELLO_CONFIRM, &ends[0].config.self, answer, confirm);
    ends_join(&ends_loop, &ends[1], &ends[0]);
    stranger_open(&stranger, &ends[0]);
    stranger_say(&stranger, old, sizeof old);
    stranger_say(&stranger, answer, sizeof answer);
    stranger_say(&stranger, confirm, sizeof confirm);
    struct refused refused = {&ends[0], 3, &stranger};
    ends_wait(&ends_loop, are_refused, &refused);
    end_send(&ends_loop, &ends[1], 0, 100);
    ends_wait_count(&ends_loop, &ends[0].received, 1);
    assert_int_equal(ends[0].joined, 1);
    assert_int_equal(ends[0].lost, 0);
    endpoint_close(stranger.endpoint);
    ends_close_two(ends);
}

/*
 * Somebody has all that a member of epoch 1 had: the job's key, the epoch's secret and all hellos. In epoch 2
 * the members find one another, and he is refused, whichever epoch he names.
 */
static void stolen_key_of_an_old_epoch_opens_nothing(void **state)
{
    (void)state;
    struct end ends[2];
    struct stranger stranger;
    uint8_t first[HELLO_BYTES];
    const struct fabric_epoch next = {.number = 2, .secret = "drawn anew"};
    ends_open_two(ends, ENDS_PATIENCE_MS);
    ends_join(&ends_loop, &ends[1], &ends[0]);
    struct hello_terms stolen = terms_of(&ends[1]);
    stranger_open(&stranger, &ends[0]);
    for (unsigned i = 0; i < 2; i++)
        fabric_enter_epoch(ends[i].fabric, &next);
    ends_wait_number(&ends_loop, &ends[0].lost, 1);
    ends_wait_number(&ends_loop, &ends[1].lost, 1);
    struct hello_terms terms[3] = {stolen, stolen, stolen};
    terms[1].epoch = next.number;
    hello_derive_epoch_key(ends[1].config.key, &(struct fabric_epoch){.number = next.number}, terms[2].key);
    terms[2].epoch = next.number;
    for (unsigned i = 0; i < 3; i++) {
        hello_make(&terms[i], HELLO_FIRST, &ends[0].config.self, NULL, first);
        stranger_say(&stranger, first, sizeof first);
        struct refused refused = {&ends[0], i + 1, &stranger};
        ends_wait(&ends_loop, are_refused, &refused);
    }
    assert_int_equal(ends[0].joined, 1);
    end_connect(&ends[1], &ends[0]);
    ends_wait_number(&ends_loop, &ends[0].joined, 2);
    end_send(&ends_loop, &ends[1], 0, 100);
    ends_wait_count(&ends_loop, &ends[0].received, 1);
    endpoint_close(stranger.endpoint);
    ends_close_two(ends);
}

static int connect_from(const char *host, const struct end *end)
{
    struct sockaddr_in own = {.sin_family = AF_INET}, there;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    memcpy(&there, end->address.bytes, sizeof there);
    assert_int_equal(inet_pton(AF_INET, host, &own.sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&there, sizeof there), -1);
    assert_int_equal(errno, EINPROGRESS);
    return fd;
}

static uint8_t state_of(int fd)
{
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
    return info.tcpi_state;
}

static bool is_connected(void *fd)
{
    return state_of(*(int *)fd) == TCP_ESTABLISHED;
}

/* Agents connect from the addresses at which they listen: with them, hosts are told from strangers. */
static void only_hosts_of_the_job_may_connect(void **state)
{
    (void)state;
    struct end ends[2];
    struct fabric_address addresses[2];
    for (uint32_t i = 0; i < 2; i++) {
        struct fabric_config config = ends_config(i, ENDS_PATIENCE_MS);
        config.interface = i == 0 ? "127.0.0.2" : "127.0.0.3";
        config.is_open = false;
        end_open(&ends[i], &ends_loop, &config);
        addresses[i] = ends[i].address;
    }
    for (uint32_t i = 0; i < 2; i++)
        fabric_admit_hosts(ends[i].fabric, addresses, 2);
    int stranger = connect_from("127.0.0.9", &ends[0]), neighbour = connect_from("127.0.0.3", &ends[0]);
    end_connect(&ends[0], &ends[1]);
    end_connect(&ends[1], &ends[0]);
    ends_wait_number(&ends_loop, &ends[0].joined, 1);
    ends_wait_number(&ends_loop, &ends[1].joined, 1);
    ends_wait(&ends_loop, is_connected, &neighbour);
    assert_int_equal(state_of(stranger), TCP_SYN_SENT); /* sent before the others, and dropped */
    fabric_admit_hosts(ends[0].fabric, NULL, 0);
    int late = connect_from("127.0.0.9", &ends[0]);
    ends_wait(&ends_loop, is_connected, &late);
    close(late);
    close(neighbour);
    close(stranger);
    ends_close_two(ends);
}

/* Thousands of frames of somebody without the key, some too large: a session beside them goes on. */
static void flood_disturbs_nobody(void **state)
{
    (void)state;
    struct end ends[2];
    struct stranger stranger;
    static uint8_t frame[4 * ENDPOINT_FRAME_BYTES];
    ends_open_two(ends, 3 * ENDS_STALL_MS);
    ends_join(&ends_loop, &ends[1], &ends[0]);
    struct hello_terms terms = terms_of(&ends[1]);
    terms.key[0] ^= 1;
    stranger_open(&stranger, &ends[0]);
    for (unsigned i = 0; i < 5000; i++) {
        size_t count = i % 3 == 0 ? HELLO_BYTES : i % 3 == 1 ? 64 : 5000;
        hello_make(&terms, HELLO_FIRST, &ends[0].config.self, NULL, frame);
        if (i % 3 == 1)
            memset(frame, 0x42, 64);
        stranger_say(&stranger, frame, count);
        if (i % 50 == 0)
            end_send(&ends_loop, &ends[1], i / 50, 1000);
    }
    struct refused refused = {&ends[0], 5000, &stranger};
    ends_wait(&ends_loop, are_refused, &refused);
    ends_wait_count(&ends_loop, &ends[0].received, 100);
    assert_true(ends[0].is_in_order);
    assert_int_equal(ends[0].joined, 1);
    assert_int_equal(ends[0].lost + ends[1].lost, 0);
    endpoint_close(stranger.endpoint);
    ends_close_two(ends);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, ends_begin, ends_end)
    const struct CMUnitTest tests[] = {
        TEST(what_differs_is_refused),
        TEST(other_incarnations_are_refused),
        TEST(closed_fabric_takes_whom_it_expects),
        TEST(one_that_spoke_too_early_is_not_waited_for),
        TEST(replays_are_refused),
        TEST(stolen_key_of_an_old_epoch_opens_nothing),
        TEST(only_hosts_of_the_job_may_connect),
        TEST(flood_disturbs_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
