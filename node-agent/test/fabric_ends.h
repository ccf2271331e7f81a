/*
 * fabric_ends.h - several fabrics in one event loop, for unit tests: what their callbacks said is kept.
 *
 * Deadlines are minutes, so that none is reached where the machine is busy; a test waits for a condition.
 */
#ifndef BELAY_NODE_AGENT_TEST_FABRIC_ENDS_H
#define BELAY_NODE_AGENT_TEST_FABRIC_ENDS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "node-agent/fabric/fabric.h"

#define ENDS_JOB "a job of tests.."
#define ENDS_STALL_MS                                                                                        \
    1000u /* where somebody is not to join; three times that where somebody is, and is lost */
#define ENDS_PATIENCE_MS 60000u /* where nobody is */
#define ENDS_PUSH_BYTES (4u << 20)

/* One agent. */
struct end {
    struct fabric *fabric;
    struct fabric_config config;
    struct fabric_address address;
    struct fabric_peer *peer; /* the newest that joined, NULL: it was lost */
    unsigned joined, lost, late, broken, writable;
    char reason[96];
    /* Messages: each begins with its number, from 0, in order. */
    uint64_t received, received_bytes;
    bool is_in_order;
    bool echoes; /* each message is sent back */
    /* Data: byte i is ends_byte(i). */
    int refusal; /* errno value for offers; 0: admit */
    uint64_t offered, pulled, pulled_bytes, pushed;
    int pull_error, push_error;
    unsigned take_ms; /* that taking a chunk lasts */
    bool is_sound;    /* all bytes so far */
    unsigned in_take; /* calls at a time; more than one is wrong */
};

/* A configuration with a key: node, incarnation 100 + node. */
struct fabric_config ends_config(uint32_t node, uint64_t stall_ms);
void end_open(struct end *end, uv_loop_t *loop, const struct fabric_config *config);
void end_close(struct end *end, uv_loop_t *loop);

/* Set-up and tear-down of cmocka: a loop of the tests' own. */
extern uv_loop_t ends_loop;
int ends_begin(void **state);
int ends_end(void **state);

/* Nodes 0 and 1 in that loop, not joined. */
void ends_open_two(struct end ends[2], uint64_t stall_ms);
void ends_close_two(struct end ends[2]);

/* `from` connects to `to`, whose incarnation it knows. */
struct fabric_peer *end_connect(struct end *from, const struct end *to);
/* Both connected and joined. */
void ends_join(uv_loop_t *loop, struct end *one, struct end *other);

/* Message number `number`, of `bytes` bytes, 8 at least; waits for room. */
void end_send(uv_loop_t *loop, struct end *end, uint64_t number, size_t bytes);

uint8_t ends_byte(uint64_t offset);
/* What a push gives: context. */
struct supply {
    uint64_t given, bytes;
    size_t most; /* of a chunk; 0: as much as there is room */
    unsigned fill_ms;
    uint64_t fails_at; /* 0: never */
};
ssize_t supply_fill(void *context, uint8_t *to, size_t room);

/* Run the loop until `is_true`, within a minute, or the test fails. */
typedef bool ends_condition_f(void *context);
void ends_wait(uv_loop_t *loop, ends_condition_f *is_true, void *context);
/* Until a number, at that address, has at least this value. */
void ends_wait_number(uv_loop_t *loop, const unsigned *number, unsigned least);
void ends_wait_count(uv_loop_t *loop, const uint64_t *number, uint64_t least);
/* For so long. */
void ends_run(uv_loop_t *loop, uint64_t ms);
uint64_t ends_now_ms(void);

#endif
