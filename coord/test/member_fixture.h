/* member_fixture.h - a member whose actions are recorded as text, for its tests. */
#ifndef BELAY_COORD_TEST_MEMBER_FIXTURE_H
#define BELAY_COORD_TEST_MEMBER_FIXTURE_H

#include "coord/member.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NODE 1u
#define INCARNATION 77u
#define LEASE_US 1000u
#define GUARD_US 100u
#define REPEAT_US 250u
#define RANKS 3u

/* What the member did, as text: "STOP RECORD ANSWER 2 ...". */
struct recorder {
    char text[4096];
    struct member *member;
    struct member_record durable;
    uint64_t now_us;
    bool is_keeper_gone; /* RECORD fails */
    bool is_full;        /* ADMIT fails */
};

/* The actions since the last look. */
#define assert_said(recorder, expected)                                                                      \
    do {                                                                                                     \
        assert_string_equal((recorder)->text, expected);                                                     \
        (recorder)->text[0] = '\0';                                                                          \
    } while (0)

int try_step(struct recorder *recorder, struct member_event event);
void step(struct recorder *recorder, struct member_event event);
void tick_at(struct recorder *recorder, uint64_t now_us);
/* Another life of the agent, with what the keeper has. */
void begin(struct recorder *recorder);
void inquire(struct recorder *recorder, uint32_t epoch);
/* Members are nodes 0, 1 and 2; ranks 0 and 1 are ours, whose images `held` has; rank 2 is node 2's. */
void start(struct recorder *recorder, uint32_t epoch, uint64_t line, const struct holding *held);
void grant(struct recorder *recorder, uint32_t epoch, uint64_t asked_us);
/* Epoch 1 runs from the start. Clears the record. */
void run_first(struct recorder *recorder);
void order(struct recorder *recorder, enum coord_action_type type, uint64_t line);
void of_rank(struct recorder *recorder, enum member_event_type type, uint64_t line, uint32_t rank);
/* A line up to an order, whose actions are cleared. */
void lead_to(struct recorder *recorder, enum coord_action_type last, uint64_t line);
int setup(void **state);
int teardown(void **state);
/* An epoch of this node and at most one rank. */
struct epoch_start alone(uint32_t *placement, uint32_t *holder);

#endif
