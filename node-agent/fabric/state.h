/*
 * state.h - what the files of this folder share: a fabric, its peers, slabs and transfers.
 *
 * Everything is guarded by fabric->lock, but what is said to belong to one thread. Three threads beside the
 * loop's: `progress` alone calls the endpoint and never copies data; `filler` and `taker` call the caller's
 * functions and seal and open chunks, without the lock.
 */
#ifndef BELAY_NODE_AGENT_FABRIC_STATE_H
#define BELAY_NODE_AGENT_FABRIC_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "node-agent/fabric/channel.h"
#include "node-agent/fabric/endpoint.h"
#include "node-agent/fabric/types.h"
#include "node-agent/fabric/frame.h"
#include "common/secure/hello.h"
#include "common/util/limit.h"

/* What the endpoint has of one peer: one that is dead keeps these only. */
#define FABRIC_POSTED_MAX 8u  /* frames */
#define FABRIC_WRITING_MAX 8u /* source slabs */

enum event_kind {
    EVENT_NONE = 0,
    EVENT_JOINED,
    EVENT_RECEIVED,
    EVENT_WRITABLE,
    EVENT_LATE,
    EVENT_BROKEN,
    EVENT_LOST,
    EVENT_OFFERED,
    EVENT_PULLED,
    EVENT_PUSHED,
};

/* What the loop is to be told. Part of what it is about, so that none is ever lacking; but for messages. */
struct event {
    struct event *next;
    enum event_kind kind;
    bool is_queued;
    struct fabric_peer *peer;
    struct fabric_push *push;
    struct fabric_pull *pull;
    struct channel_item item; /* RECEIVED */
};

enum peer_state {
    PEER_NONE = 0,
    PEER_GREETING,  /* FIRST is sent until ANSWER comes */
    PEER_ANSWERING, /* ANSWER was sent, CONFIRM has not come */
    PEER_JOINED,
    PEER_LOST, /* waits for fabric_forget() */
    PEER_GONE, /* forgotten; the progress thread frees it */
};

struct disturb_held;

struct fabric_peer {
    struct fabric *fabric;
    struct fabric_peer *next;
    uint64_t number; /* never used again; in cookies of the endpoint's events */
    struct fabric_identity identity;
    struct fabric_address address;
    uint64_t endpoint_peer; /* of the progress thread */
    bool has_endpoint_peer;
    bool is_owned; /* the caller knows it */
    void *context;
    enum peer_state state;
    /* The handshake. */
    uint8_t first[HELLO_BYTES], answer[HELLO_BYTES], confirm[HELLO_BYTES];
    const uint8_t *hello_due; /* one of them, to be sent */
    uint64_t order;           /* of the newest FIRST of the peer's */
    bool is_initiator;
    bool is_confirmed; /* the peer has our CONFIRM */
    /* The session. */
    struct channel *channel; /* NULL before JOINED; kept while LOST, since threads may use its seals */
    struct hello_session session;
    uint64_t began_ms, heard_ms, greeted_ms, beat_ms;
    uint64_t retry_ms; /* nothing is sent before: something failed */
    unsigned posted;   /* frames that the endpoint has */
    unsigned writing;  /* source slabs that it has */
    bool is_beat_posted;
    struct disturb_held *held; /* frames that a test makes late (disturb.h) */
    bool must_rewind;
    bool has_told_late;
    bool has_told_broken; /* since a frame was heard */
    bool wants_writable;
    bool has_lost_word; /* lost, and the loop is told as soon as its transfers have ended */
    char reason[96];
    struct fabric_push *pushes;
    struct fabric_pull *pulls;
    struct event joined, writable, late, broken, lost;
};

/* A slab that may be written once, of the peer's. */
struct grant {
    uint32_t slab, count;
    uint64_t address, key;
};

enum slab_state {
    SLAB_FREE = 0,
    SLAB_FILLING, /* source: the filler has it */
    SLAB_READY,   /* source: to be written to the peer */
    SLAB_WRITING, /* source: the endpoint has it */
    SLAB_WRITTEN, /* source: the peer has not been told; target: to be taken */
    SLAB_GRANTED, /* target: a peer may write */
    SLAB_TAKING,  /* target: the taker has it */
};

struct slab {
    uint8_t *bytes;
    struct endpoint_memory *memory; /* NULL: a source that needs none, or a target out of service */
    enum slab_state state;
    bool must_renew;          /* target: its key is known to who must not use it any more */
    struct fabric_push *push; /* whose it is; NULL: it has ended, the slab is only waited for */
    struct fabric_pull *pull;
    struct slab *next; /* in the order of the transfer */
    struct grant grant;
    uint64_t chunk, offset; /* of a source also the cookie of its write */
    uint32_t count;
    uint8_t mac[SEAL_MAC_BYTES];
};

/* Slabs of one direction: one registered piece of memory for each. */
struct slabs {
    struct slab *slabs;
    uint32_t count;
};

/*
 * Memory that the endpoint still reads from although its push has ended: a connection to a node that is
 * silent keeps what it was given for many minutes. The source slab has other memory meanwhile.
 */
struct orphan {
    struct orphan *next;
    uint8_t *bytes;
    struct endpoint_memory *memory;
    uint64_t chunk;
};

#define GRANTS_MAX 64u

struct fabric_push {
    struct fabric_peer *peer;
    struct fabric_push *next;
    uint64_t transfer;
    uint64_t bytes; /* at most */
    uint8_t tag_sum[16];
    fabric_fill_f *fill;
    void *context;
    struct grant grants[GRANTS_MAX]; /* unused ones */
    uint32_t grant_count;
    struct slab *first, *last; /* filled and on their way */
    uint64_t filled;           /* bytes */
    uint64_t turn;             /* when it was filled last: others come first */
    bool is_filling;           /* the filler is inside, without the lock */
    bool is_at_end;            /* nothing more comes from fill() */
    bool has_finished;         /* which the peer has been told */
    bool has_ended;
    int error;
    struct event pushed;
};

struct fabric_pull {
    struct fabric_peer *peer;
    struct fabric_pull *next;
    uint64_t transfer; /* of the peer's */
    uint64_t bytes;    /* at most */
    uint8_t tag[FABRIC_TAG_BYTES];
    size_t tag_bytes;
    uint8_t tag_sum[16];
    fabric_take_f *take;
    void *context;
    bool is_admitted;
    uint32_t held;             /* slabs */
    struct slab *first, *last; /* written, to be taken */
    uint64_t announced, taken; /* bytes */
    uint64_t turn;
    bool is_taking;
    bool has_finished; /* the peer has nothing more to write */
    bool has_ended;
    int error;
    struct event offered, pulled;
};

struct fabric {
    struct fabric_config config; /* without secrets */
    uint8_t job_key[FABRIC_KEY_BYTES];
    struct hello_terms terms;
    const struct fabric_ops *ops;
    void *context;
    pthread_mutex_t lock;
    pthread_cond_t has_fill, has_take; /* for the threads */
    pthread_cond_t is_out;             /* a thread has left the caller's function */
    pthread_t progress, filler, taker;
    unsigned threads; /* started */
    bool is_ending;
    int wake_fd; /* of the progress thread */
    struct endpoint *endpoint;
    struct fabric_peer *peers;
    uint32_t peer_count;
    uint64_t last_number;
    uint64_t last_transfer, last_chunk, last_fill, last_take;
    uint64_t last_turn_ms;
    uint64_t busy_ns; /* until then a link of the rate that a test sets is in use (disturb.h) */
    uint64_t beat_every_ms;
    struct slabs sources, targets;
    struct orphan *orphans;
    uint32_t orphan_count;
    struct event *first_event, *last_event;
    uv_async_t *async;            /* freed by its own close */
    struct fabric_peer *speaking; /* whose callback runs; NULL once it is forgotten */
    bool is_speaking;
    struct limit limits[HELLO_VERDICTS + 2];
    struct fabric_counts counts;
};

/* Kinds of `limits` beyond hello's verdicts. */
enum { LIMIT_REPLAY = HELLO_VERDICTS, LIMIT_STRANGER };

/* Let the progress thread have a turn soon. Needs no lock. */
void fabric_wake(struct fabric *fabric);

#endif
