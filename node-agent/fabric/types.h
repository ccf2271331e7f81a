/*
 * types.h - what a fabric is told and tells, as fabric.h and all files below it use it.
 */
#ifndef BELAY_NODE_AGENT_FABRIC_TYPES_H
#define BELAY_NODE_AGENT_FABRIC_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/secure/identity.h"

#define FABRIC_MESSAGE_BYTES (1u << 20) /* of a message at most */
#define FABRIC_TAG_BYTES 256u           /* of a tag at most */

struct fabric_config {
    const char *provider;  /* of libfabric: NULL is "tcp" */
    const char *interface; /* address or name of the host's to bind to, NULL: the provider chooses */
    enum fabric_mode mode;
    uint8_t key[FABRIC_KEY_BYTES]; /* the job's; the caller wipes its copy */
    uint8_t job[FABRIC_JOB_BYTES];
    struct fabric_epoch epoch; /* the first one; the caller wipes its copy */
    struct fabric_identity self;
    uint64_t stall_ms;   /* a peer of which nothing is heard for so long is lost; 0: 5 s */
    bool is_patient;     /* but one that has not joined is `late`, and tried on */
    uint32_t peers;      /* at most at a time; 0: 256 */
    bool is_open;        /* agents that were not connected to may join, if they have the key */
    uint32_t slabs;      /* in each direction; 0: 32 */
    uint32_t slab_bytes; /* 4 KiB at least; 0: 256 KiB */
};

struct fabric;
struct fabric_peer;
struct fabric_push; /* data on their way out */
struct fabric_pull; /* and in */

/* Called in the loop's thread. None may be NULL. */
struct fabric_ops {
    /* Both sides have shown that they have the key. An agent that joined by itself is the caller's from now
     * on. */
    void (*joined)(void *context, struct fabric_peer *peer);
    /* The next message; the bytes are valid during the call. */
    void (*received)(void *context, struct fabric_peer *peer, const uint8_t *bytes, size_t count);
    /* After fabric_send() has failed with EAGAIN: there is room again. */
    void (*writable)(void *context, struct fabric_peer *peer);
    /* In a patient fabric: it has not joined for the stall time. Said once; `joined` may follow. */
    void (*late)(void *context, struct fabric_peer *peer);
    /* The connection broke or is refused. Only a hint: it is tried again until the peer is lost. */
    void (*broken)(void *context, struct fabric_peer *peer);
    /*
     * Nothing was heard for the stall time (but see is_patient), or the peer has begun anew. Said once, and
     * after it nothing more about the peer, whose pushes and pulls have ended (ECONNRESET). It stays until
     * fabric_forget().
     */
    void (*lost)(void *context, struct fabric_peer *peer, const char *reason);
    /*
     * The peer would push `bytes` at most. Answer now or later with fabric_admit() or fabric_refuse();
     * nothing flows before.
     */
    void (*offered)(void *context, struct fabric_peer *peer, struct fabric_pull *pull, const void *tag,
                    size_t tag_bytes, uint64_t bytes);
    /* All of it was taken (error 0) or it failed; fabric_take_f is not called any more. `pull` is gone after
     * this. */
    void (*pulled)(void *context, struct fabric_pull *pull, int error);
    /* The peer has taken all of it (0) or it failed; fabric_fill_f is not called any more. `push` is gone
     * after. */
    void (*pushed)(void *context, struct fabric_push *push, int error);
};

/*
 * Put the next bytes at `to`, `room` at most. Returns how many, 0 at the end, or -1 with errno. Runs in the
 * thread that fills slabs: one call at a time, in order.
 */
typedef ssize_t fabric_fill_f(void *context, uint8_t *to, size_t room);

/*
 * Take the next bytes, which are what the peer sent; they are valid during the call. Returns 0, or -1 with
 * errno. Runs in the thread that empties slabs: one call at a time, in order, from offset 0 without a gap.
 */
typedef int fabric_take_f(void *context, uint64_t offset, const uint8_t *bytes, size_t count);

/* What has gone by so far, for status and tests. */
struct fabric_counts {
    uint64_t frames_sent;
    uint64_t frames_refused;  /* whose sender could not show that it has the key, or that were damaged */
    uint64_t frames_repeated; /* sent again after a connection broke */
    uint64_t chunks_refused;  /* damaged in a slab */
    uint64_t bytes_pushed, bytes_pulled;
};

#endif
