/* arbiter_fixture.h - an arbiter whose actions are recorded as text, and what nodes answer it, for its tests.
 */
#ifndef BELAY_COORD_TEST_ARBITER_FIXTURE_H
#define BELAY_COORD_TEST_ARBITER_FIXTURE_H

#include "coord/arbiter.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NODES 3u
#define RANKS 3u
#define LEASE_US 1000u
#define COLLECT_US 100u
#define REPEAT_US 10u

/* What the arbiter did, as text: "ASK 0/1 RECORD 1 line 0 START 0/1 ...". */
struct recorder {
    char text[4096];
    struct arbiter *arbiter;
    struct epoch_start *durable;
    uint64_t now_us;
    bool is_disk_full;
    uint32_t min_members, max_members;
};

/* The actions since the last look. */
#define assert_said(recorder, expected)                                                                      \
    do {                                                                                                     \
        assert_string_equal((recorder)->text, expected);                                                     \
        (recorder)->text[0] = '\0';                                                                          \
    } while (0)

/* The arbiter's callback; `context` is a recorder. */
int note_action(void *context, const struct arbiter_action *action);
int try_step(struct recorder *recorder, struct arbiter_event event);
void step(struct recorder *recorder, struct arbiter_event event);
void tick_at(struct recorder *recorder, uint64_t now_us);
void begin(struct recorder *recorder, enum scheme scheme, uint64_t lease_us);
/* A node's answer: incarnation 100 + node, room for all, nothing held if held is NULL. */
struct arbiter_event state_of(uint32_t node, uint32_t epoch, const struct holding *held);
/* Epoch 1 runs: rank i on member i. Clears the record. */
void open_first(struct recorder *recorder, enum scheme scheme);
int setup(void **state);
int teardown(void **state);
/* Every node has its own rank's image at a line, and its left neighbour's. */
void hold(struct holding held[NODES][RANKS], uint64_t line);
void stage(struct holding held[NODES][RANKS], uint64_t line);
struct arbiter_event committed(struct arbiter_event event, uint64_t line);
struct arbiter_event protected(struct arbiter_event event, uint64_t line);

#endif
