/*
 * fetch_pair.h - two members over a link that the test makes, for tests of fetching: node 0 has the images of
 * both ranks, and rank 1 is to run on node 1. The machine (job/membership.h) is the test's.
 */
#ifndef BELAY_NODE_AGENT_TEST_FETCH_PAIR_H
#define BELAY_NODE_AGENT_TEST_FETCH_PAIR_H

#include "common/test/fuzz.h"
#include "node-agent/member/fetch.h"
#include "node-agent/member/fetch_note.h"
#include "node-agent/test/store_parts.h"

#define EPOCH 3u
#define LINE 7u

/* What one side has sent, until the test delivers it. */
struct transit {
    struct transit *next;
    unsigned to;
    bool is_word;
    uint8_t tag[FABRIC_TAG_BYTES];
    size_t tag_bytes;
    uint64_t bytes;
    fabric_fill_f *fill;
    transfer_done_f *done;
    void *context;
};

struct remotes {
    const struct remotes_ops *ops;
    void *ops_context;
};
struct membership {
    struct membership_want want;
    uint32_t images; /* that have come, as it was told */
    uint32_t refuted;
};
extern struct side {
    struct remotes remotes;
    struct membership machine;
    struct agent agent;
    Belay__Wire__JobOpen config;
    Belay__Wire__JobSettings settings;
    struct job job;
    struct fetch *fetch;
    unsigned told;
    struct belay_error err; /* code 0: all has come */
} pair_sides[2];
extern struct transit *pair_in_transit;
extern uv_loop_t pair_loop;
extern struct epoch_start *pair_start;

/* Set-up and tear-down of a test; node i anew. */
int pair_setup(void **state);
int pair_teardown(void **state);
void pair_open(unsigned i);

/* Node 1 fetches; what ended it is in pair_sides[1].err. */
void pair_begin(void);
void pair_assert_failed(const char *why);

/* The first of what is on its way comes. damage may be NULL. */
void pair_deliver_one(struct fuzz *damage);
/* Until node 1 has been told how it ended; images are checked in threads. */
void pair_deliver(struct fuzz *damage);

/* Node 0 has what the group of rank 1 shares, too; the root of the decision is the sum of both. */
void pair_share(void);

/* A word, and it comes to a side as from this node. */
struct fetch_note pair_note(enum fetch_note_kind kind, uint32_t rank);
void pair_say(unsigned side, uint32_t node, const struct fetch_note *note, size_t bytes);

#endif
