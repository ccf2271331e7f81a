/*
 * intruder.c - says anything to an agent over libfabric, as somebody on one of the job's hosts may; for
 * integration tests.
 *
 *   intruder PORT < FRAMES
 *
 * FRAMES: a length of 4 bytes, in the machine's order, and so many bytes, again and again. They are sent to
 * 127.0.0.1, one after the other, each after the one before has been taken by the connection. Ends with 0
 * when all have been sent.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node-agent/fabric/endpoint.h"

#define TURN_MS 10
#define TURNS_MAX 3000 /* for one frame */

static void fail(const char *what)
{
    fprintf(stderr, "intruder: %s\n", what);
    exit(1);
}

static void make_address(const char *port, struct fabric_address *address)
{
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memcpy(address->bytes, &there, sizeof there);
    address->count = sizeof there;
}

/* False: it could not be sent. What comes is dropped. */
static bool has_left(struct endpoint *endpoint, bool *is_right)
{
    struct endpoint_event events[8];
    size_t count = endpoint_read(endpoint, events, 8);
    bool has = false;
    for (size_t i = 0; i < count; i++) {
        if (events[i].kind == ENDPOINT_RECEIVED && events[i].frame)
            endpoint_release(endpoint, events[i].frame);
        else if (events[i].kind == ENDPOINT_SENT)
            *is_right = has = events[i].error == 0;
    }
    return has;
}

static void say(struct endpoint *endpoint, uint64_t peer, const uint8_t *frame, size_t count)
{
    bool is_sent = false, is_right = false;
    for (int turn = 0; turn < TURNS_MAX; turn++) {
        if (!is_sent)
            is_sent = endpoint_send(endpoint, peer, frame, count, 0) == 0;
        if (has_left(endpoint, &is_right) && is_right)
            return;
        endpoint_wait(endpoint, -1, TURN_MS);
    }
    fail("a frame cannot be sent");
}

int main(int argc, char **argv)
{
    struct belay_error err;
    struct fabric_address address = {.count = 0};
    static uint8_t frame[ENDPOINT_FRAME_BYTES];
    uint32_t count;
    uint64_t peer;
    if (argc != 2)
        fail("usage: intruder PORT < FRAMES");
    make_address(argv[1], &address);
    struct endpoint *endpoint = endpoint_open("tcp", "127.0.0.1", &err);
    if (!endpoint || endpoint_add_peer(endpoint, &address, &peer) < 0)
        fail(endpoint ? "no such address" : err.text);
    while (fread(&count, sizeof count, 1, stdin) == 1) {
        if (count > sizeof frame || fread(frame, 1, count, stdin) != count)
            fail("a frame is too long");
        say(endpoint, peer, frame, count);
    }
    endpoint_close(endpoint);
    return 0;
}
