/* connection_test.c - clients that are slow, silent, greedy or talk nonsense keep nobody from being served.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/log.h"
#include "common/wire/message.h"
#include "node-agent/loop/connection.h"
#include "node-agent/loop/crowd.h"

#define PATIENCE_MS 80u
#define HANG_MS 20000u /* on a machine that stands still for seconds, patience ends late */
#define FLOOD 100000

static uv_loop_t loop;
static struct connection *served; /* the first one */
static int client;                /* its other end */
static unsigned requests, closed;
static bool answers_at_length;
static uint64_t patience_ms;

static void on_request(struct connection *connection, const Belay__Wire__Request *request, void *context)
{
    Belay__Wire__Reply reply = BELAY__WIRE__REPLY__INIT;
    Belay__Wire__Pong pong = BELAY__WIRE__PONG__INIT;
    (void)request, (void)context;
    requests++;
    pong.node = answers_at_length ? calloc(1, MESSAGE_MAX_BYTES + 1) : strdup("here");
    if (answers_at_length)
        memset(pong.node, 'x', MESSAGE_MAX_BYTES);
    reply.body_case = BELAY__WIRE__REPLY__BODY_PONG;
    reply.pong = &pong;
    connection_reply(connection, &reply, NULL, 0);
    free(pong.node);
}

static void on_closed(struct connection *connection, void *context)
{
    (void)connection, (void)context;
    closed++;
}

static const struct connection_ops ops = {.request = on_request, .closed = on_closed};

static int serve(struct connection **connection)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    *connection = connection_create(&loop, ends[0], patience_ms, &ops, NULL);
    assert_non_null(*connection);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    return ends[1];
}

static int setup(void **state)
{
    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    requests = closed = 0;
    answers_at_length = false;
    patience_ms = PATIENCE_MS;
    assert_int_equal(uv_loop_init(&loop), 0);
    client = serve(&served);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (client >= 0)
        close(client);
    uv_run(&loop, UV_RUN_DEFAULT); /* until nothing is left of any connection */
    return uv_loop_close(&loop);
}

static void write_all(int sock, const void *bytes, size_t count)
{
    assert_int_equal(write(sock, bytes, count), (ssize_t)count);
}

/* The frame of a Ping. */
static size_t make_ping(uint8_t *to)
{
    Belay__Wire__Ping ping = BELAY__WIRE__PING__INIT;
    Belay__Wire__Request request = BELAY__WIRE__REQUEST__INIT;
    size_t count;
    request.body_case = BELAY__WIRE__REQUEST__BODY_PING;
    request.ping = &ping;
    uint8_t *frame = message_pack(&request.base, &count);
    memcpy(to, frame, count);
    free(frame);
    return count;
}

static void turn(void)
{
    uv_run(&loop, UV_RUN_NOWAIT);
}

/* Let time pass for the loop, until the first one is closed. */
static void wait_ms(uint64_t time_ms)
{
    for (uint64_t end = uv_hrtime() + time_ms * 1000000; uv_hrtime() < end && closed == 0;) {
        uv_run(&loop, UV_RUN_NOWAIT);
        usleep(1000);
    }
}

static bool is_cut_off(int sock)
{
    char byte;
    ssize_t got;
    do {
        got = read(sock, &byte, 1); /* earlier answers */
    } while (got > 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
}

static void a_silent_client(void **state)
{
    (void)state;
    wait_ms(HANG_MS);
    assert_int_equal(closed, 1);
    turn();
    assert_true(is_cut_off(client));
}

/* A byte now and then does not buy it time. */
static void a_client_that_dribbles(void **state)
{
    (void)state;
    uint64_t begin = uv_hrtime();
    write_all(client, "\xff\xff\x0f\0", 4);
    while (closed == 0) {
        assert_true(uv_hrtime() - begin < HANG_MS * 1000000ull);
        ssize_t ignored = write(client, "x", 1);
        (void)ignored;
        turn();
        usleep(5000);
    }
    assert_int_equal(requests, 0);
}

/* One that has said something may be silent for as long as it likes, as ranks are. */
static void a_client_that_waits(void **state)
{
    (void)state;
    uint8_t ping[16];
    size_t count = make_ping(ping);
    write_all(client, ping, count);
    turn();
    assert_int_equal(requests, 1);
    wait_ms(4 * PATIENCE_MS);
    assert_int_equal(closed, 0);
    write_all(client, ping, count - 1); /* and is owed patience again for the next */
    turn();
    wait_ms(HANG_MS);
    assert_int_equal(closed, 1);
}

/* Its next request waits until it has read the answer to the last: nothing piles up here. */
static void a_client_that_does_not_read(void **state)
{
    (void)state;
    struct connection *second;
    uint8_t ping[16], reply[4096];
    size_t count = make_ping(ping);
    int other = serve(&second);
    unsigned sent = 0, before;
    for (unsigned stuck = 0; stuck < 100; stuck++)
        for (; write(client, ping, count) == (ssize_t)count; stuck = 0, sent++)
            if (sent % 1000 == 0)
                turn();
    assert_true(sent > requests); /* it was held up by its own answers */
    before = requests;
    write_all(other, ping, count);
    turn();
    assert_true(read(other, reply, sizeof reply) > 0);
    assert_true(requests <= before + 1 + 16);
    for (unsigned turns = 0; requests < sent; turns++) {
        assert_true(turns < FLOOD);
        turn();
        ssize_t ignored = read(client, reply, sizeof reply);
        (void)ignored;
    }
    close(other);
}

/* Others have their turn between its requests. */
static void a_client_that_asks_and_asks(void **state)
{
    (void)state;
    struct connection *second;
    uint8_t ping[16], pings[200 * sizeof ping];
    size_t count = make_ping(ping), used = 0;
    int other = serve(&second);
    for (int i = 0; i < 200; i++, used += count)
        memcpy(pings + used, ping, count);
    write_all(client, pings, used);
    write_all(other, ping, count);
    turn();
    assert_true(requests <= 17);
    assert_true(read(other, pings, sizeof pings) > 0);
    for (unsigned turns = 0; requests < 201; turns++) {
        assert_true(turns < FLOOD);
        turn();
        ssize_t ignored = read(client, pings, sizeof pings);
        (void)ignored;
    }
    close(other);
}

static void events_that_nobody_reads(void **state)
{
    (void)state;
    uint8_t ping[16], bytes[65536], *all = malloc(64 << 20);
    Belay__Wire__Event event = BELAY__WIRE__EVENT__INIT;
    size_t got = 0;
    write_all(client, ping, make_ping(ping));
    turn();
    event.text = "a line has committed, and what it was like is told at some length here";
    for (int i = 0; i < FLOOD; i++)
        connection_send_event(served, &event);
    event.text = "the last";
    event.stop_requested = true;
    connection_send_event(served, &event);
    assert_int_equal(closed, 0);
    for (int idle = 0; idle < 100; idle++) {
        ssize_t count = read(client, bytes, sizeof bytes);
        turn();
        if (count <= 0)
            continue;
        memcpy(all + got, bytes, (size_t)count);
        got += (size_t)count;
        idle = 0;
    }
    assert_true(got < (2u << 20));
    assert_non_null(memmem(all, got, "the last", 8));
    assert_int_equal(closed, 0);
    free(all);
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void descriptors_that_nobody_wants(void **state)
{
    (void)state;
    uint8_t ping[16];
    size_t count = make_ping(ping);
    int fds[MESSAGE_MAX_FDS];
    unsigned before = open_descriptors();
    for (int i = 0; i < MESSAGE_MAX_FDS; i++)
        fds[i] = client;
    for (int i = 0; i < 100; i++) {
        ssize_t sent = message_sendmsg(client, ping, count, fds, MESSAGE_MAX_FDS);
        if (sent < 0) { /* since Linux 6.16 they do not even leave */
            assert_int_equal(errno, EPERM);
            print_message("skipped: this kernel does not let such descriptors leave\n");
            skip();
        }
        assert_int_equal(sent, count);
        turn();
        assert_true(read(client, ping, 0) == 0);
    }
    assert_int_equal(open_descriptors(), before);
}

static void expect_cut(const void *bytes, size_t count)
{
    struct connection *connection;
    unsigned before = closed;
    int sock = serve(&connection);
    write_all(sock, bytes, count);
    turn();
    turn();
    assert_int_equal(closed, before + 1);
    assert_true(is_cut_off(sock));
    close(sock);
}

static void nonsense(void **state)
{
    (void)state;
    expect_cut("\xff\xff\xff\xff", 4);
    expect_cut("\1\0\x80\0", 4); /* a byte more than a request may have */
    expect_cut("\5\0\0\0\xff\xff\xff\xff\xff", 9);
    expect_cut("\2\0\0\0\x0a\x7f", 6); /* a field that is longer than the message */
    assert_int_equal(requests, 0);
    expect_cut("\0\0\0\0\5\0\0\0\xff\xff\xff\xff\xff", 13); /* an empty request is one of no kind */
    assert_int_equal(requests, 1);
}

static void an_answer_that_is_too_large(void **state)
{
    (void)state;
    uint8_t ping[16], *bytes;
    answers_at_length = true;
    write_all(client, ping, make_ping(ping));
    turn();
    ssize_t count = message_receive(client, &bytes, NULL, NULL, NULL);
    assert_true(count > 0);
    Belay__Wire__Reply *reply = belay__wire__reply__unpack(NULL, (size_t)count, bytes);
    assert_non_null(strstr(reply->error, "cannot send its answer"));
    assert_int_equal(reply->error_code, EMSGSIZE);
    assert_int_equal(closed, 0);
    belay__wire__reply__free_unpacked(reply, NULL);
    free(bytes);
}

/* Of all clients together: what is not whole yet has its limit. */
static void requests_that_never_end(void **state)
{
    (void)state;
    enum { CLIENTS = 24 };
    static char piece[1 << 16];
    struct connection *connections[CLIENTS];
    int socks[CLIENTS];
    size_t sent = 0;
    patience_ms = 60000;
    for (int i = 0; i < CLIENTS; i++) {
        socks[i] = serve(&connections[i]);
        write_all(socks[i], "\0\0\x80\0", 4);
    }
    for (int i = 0; i < CLIENTS; i++) {
        for (int k = 0; k < 127; k++) {
            ssize_t put = send(socks[i], piece, sizeof piece, MSG_NOSIGNAL);
            sent += put > 0 ? (size_t)put : 0;
            turn();
        }
    }
    assert_true(closed > 0 && sent > (32u << 20));
    for (int i = 0; i < CLIENTS; i++)
        close(socks[i]);
}

/* One process has its share and no more; what it is told, and that others are served, see below. */
static void a_process_that_connects_and_connects(void **state)
{
    (void)state;
    enum { MORE = 3 };
    int socks[CROWD_OF_PROCESS + MORE], ends[2];
    struct connection *connection;
    uint8_t answer[512];
    unsigned count = 0;
    while (crowd_count() < CROWD_OF_PROCESS)
        socks[count++] = serve(&connection);
    for (int i = 0; i < MORE; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        assert_null(connection_create(&loop, ends[0], patience_ms, &ops, NULL));
        ssize_t got = read(ends[1], answer, sizeof answer);
        assert_true(got > MESSAGE_HEADER_BYTES);
        Belay__Wire__Reply *reply = belay__wire__reply__unpack(NULL, (size_t)got - MESSAGE_HEADER_BYTES,
                                                               answer + MESSAGE_HEADER_BYTES);
        assert_non_null(reply);
        assert_int_equal(reply->error_code, EUSERS);
        assert_non_null(strstr(reply->error, "close some"));
        belay__wire__reply__free_unpacked(reply, NULL);
        assert_int_equal(read(ends[1], answer, sizeof answer), 0); /* and the end of it */
        close(ends[1]);
    }
    assert_int_equal(crowd_count(), CROWD_OF_PROCESS);
    assert_int_equal(crowd_enter(getpid() + 1, NULL), 0); /* another process */
    crowd_leave(getpid() + 1);
    close(socks[--count]); /* one that goes makes room for one that comes */
    while (closed == 0)
        uv_run(&loop, UV_RUN_ONCE);
    while (crowd_count() == CROWD_OF_PROCESS)
        uv_run(&loop, UV_RUN_ONCE);
    socks[count++] = serve(&connection);
    while (count > 0)
        close(socks[--count]);
}

static void processes_that_connect_together(void **state)
{
    (void)state;
    struct belay_error err;
    pid_t process = 1 << 22; /* larger than any */
    uint32_t before = crowd_count(), entered = 0;
    while (crowd_enter(process + (pid_t)(entered / 8), &err) == 0)
        entered++;
    assert_int_equal(err.code, EUSERS);
    assert_non_null(strstr(err.text, "try again later"));
    assert_in_range(before + entered, 1, CROWD_MAX);
    assert_int_equal(crowd_enter(0, &err), -1);
    while (entered-- > 0)
        crowd_leave(process + (pid_t)(entered / 8));
    assert_int_equal(crowd_count(), before);
    for (unsigned i = 0; i < 2 * CROWD_OF_PROCESS; i++) /* of another PID namespace: nobody knows which */
        assert_int_equal(crowd_enter(0, &err), 0);
    for (unsigned i = 0; i < 2 * CROWD_OF_PROCESS; i++)
        crowd_leave(0);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(a_silent_client),
        EACH(a_client_that_dribbles),
        EACH(a_client_that_waits),
        EACH(a_client_that_does_not_read),
        EACH(a_client_that_asks_and_asks),
        EACH(events_that_nobody_reads),
        EACH(descriptors_that_nobody_wants),
        EACH(nonsense),
        EACH(an_answer_that_is_too_large),
        EACH(requests_that_never_end),
        EACH(a_process_that_connects_and_connects),
        EACH(processes_that_connect_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
