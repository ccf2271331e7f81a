/*
 * peer_message.h - what agents say to one another about recovery lines (peer.proto), encoded and decoded.
 *
 * The sender is believed nothing: a message is decoded only if its version, epoch, sender and role are the
 * expected ones, its kind is one that such a sender uses, what it carries is what its kind needs, ranks are
 * of the world, and counts and texts are within the limits below. Whether the sender may speak of a rank, and
 * whether the line is the one in progress, is left to the receiver.
 */
#ifndef BELAY_COMMON_WIRE_PEER_MESSAGE_H
#define BELAY_COMMON_WIRE_PEER_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/digest.h"
#include "common/util/error.h"
#include "common/wire/coord_clock.h"
#include "common/wire/peer.pb-c.h"

#define PEER_VERSION 3u
#define PEER_MAX_BYTES (96u << 20) /* of an encoded message */
#define PEER_MAX_CLOCKS (1u << 22)
#define PEER_MAX_PEERS 64u
#define PEER_MAX_REASON 1023u /* bytes; longer ones are cut */

/* The names of peer.proto, which says what each is. */
enum peer_role {
    PEER_HOST = BELAY__WIRE__PEER_ROLE__PEER_ROLE_HOST,
    PEER_MEMBER = BELAY__WIRE__PEER_ROLE__PEER_ROLE_MEMBER,
};

enum peer_kind {
    PEER_NONE = BELAY__WIRE__PEER_KIND__PEER_NONE,
    PEER_PREPARE = BELAY__WIRE__PEER_KIND__PEER_PREPARE,
    PEER_STROBE = BELAY__WIRE__PEER_KIND__PEER_STROBE,
    PEER_TARGETS = BELAY__WIRE__PEER_KIND__PEER_TARGETS,
    PEER_STOP = BELAY__WIRE__PEER_KIND__PEER_STOP,
    PEER_DRAIN = BELAY__WIRE__PEER_KIND__PEER_DRAIN,
    PEER_CAPTURE = BELAY__WIRE__PEER_KIND__PEER_CAPTURE,
    PEER_PROTECT = BELAY__WIRE__PEER_KIND__PEER_PROTECT,
    PEER_COMMIT = BELAY__WIRE__PEER_KIND__PEER_COMMIT,
    PEER_ABORT = BELAY__WIRE__PEER_KIND__PEER_ABORT,
    PEER_LEAVE = BELAY__WIRE__PEER_KIND__PEER_LEAVE,
    PEER_DEMAND = BELAY__WIRE__PEER_KIND__PEER_DEMAND,
    PEER_READY = BELAY__WIRE__PEER_KIND__PEER_READY,
    PEER_UNREADY = BELAY__WIRE__PEER_KIND__PEER_UNREADY,
    PEER_PREPARED = BELAY__WIRE__PEER_KIND__PEER_PREPARED,
    PEER_CLOCKS = BELAY__WIRE__PEER_KIND__PEER_CLOCKS,
    PEER_REPORT = BELAY__WIRE__PEER_KIND__PEER_REPORT,
    PEER_STOPPED = BELAY__WIRE__PEER_KIND__PEER_STOPPED,
    PEER_PARKED = BELAY__WIRE__PEER_KIND__PEER_PARKED,
    PEER_CAPTURED = BELAY__WIRE__PEER_KIND__PEER_CAPTURED,
    PEER_PROTECTED = BELAY__WIRE__PEER_KIND__PEER_PROTECTED,
    PEER_RECORDED = BELAY__WIRE__PEER_KIND__PEER_RECORDED,
    PEER_UNRECORDED = BELAY__WIRE__PEER_KIND__PEER_UNRECORDED,
    PEER_UNAPPLIED = BELAY__WIRE__PEER_KIND__PEER_UNAPPLIED,
    PEER_COMMITTED = BELAY__WIRE__PEER_KIND__PEER_COMMITTED,
    PEER_RESUMED = BELAY__WIRE__PEER_KIND__PEER_RESUMED,
    PEER_ABORTED = BELAY__WIRE__PEER_KIND__PEER_ABORTED,
    PEER_LOST = BELAY__WIRE__PEER_KIND__PEER_LOST,
    PEER_CLOSE = BELAY__WIRE__PEER_KIND__PEER_CLOSE,
    PEER_NOTICE = BELAY__WIRE__PEER_KIND__PEER_NOTICE,
};

enum peer_rank_state {
    PEER_RANK_RUNNING = BELAY__WIRE__PEER_RANK_STATE__PEER_RANK_RUNNING,
    PEER_RANK_INSIDE = BELAY__WIRE__PEER_RANK_STATE__PEER_RANK_INSIDE,
    PEER_RANK_HELD = BELAY__WIRE__PEER_RANK_STATE__PEER_RANK_HELD,
    PEER_RANK_WAITING = BELAY__WIRE__PEER_RANK_STATE__PEER_RANK_WAITING,
};

struct peer_report {
    uint32_t rank; /* of the world */
    enum peer_rank_state state;
    bool is_below;
    uint64_t comm, seq;
    uint32_t peer_count;
    const int32_t *peers; /* world ranks, or anything negative; none: anybody */
};

/* What was sent of a line to members that keep copies; see peer.proto. */
struct peer_sent {
    uint64_t bytes, page_bytes;
    uint64_t compare_ns, send_ns;
    uint64_t page_model_ns, line_model_ns;
    uint64_t page_parts, line_parts;
};

/* What was copied of a line while the ranks ran, from protected memory; see peer.proto. */
struct peer_guarded {
    uint64_t bytes, faults, longest_fault_ns;
    uint64_t pool_bytes, pool_waits, pool_wait_ns;
};

/* What was copied when of a line, and what the model said; see peer.proto. */
struct peer_copied {
    uint64_t ahead_bytes, right_bytes, pause_bytes;
    uint64_t pause_ns, pause_model_ns, copied_model_ns;
    uint64_t copy_ns_per_mib, guard_ns_per_mib, fault_ns_per_mib, yield_ppm;
};

/* Durations and sizes of one member and one line; see peer.proto. */
struct peer_measures {
    uint64_t drain_ns, pause_ns, felt_ns, late_ns;
    uint64_t dirty_bytes, captured_bytes, image_bytes;
    struct peer_sent sent;
    struct peer_guarded guarded;
    struct peer_copied copied;
};

struct peer_message {
    enum peer_kind kind;
    enum peer_role role; /* of the sender, as node */
    uint32_t node;
    uint32_t epoch;
    uint64_t line;      /* 0: of no line in particular */
    const char *reason; /* NULL: none */
    bool is_refuted;    /* ABORTED, ABORT: a node keeps another image of the line than it was given */
    uint32_t targets_version;
    const struct coord_clock *clocks;
    uint32_t clock_count;
    struct peer_report report;     /* REPORT */
    struct peer_measures measures; /* zeroed if the kind carries none */
    const uint32_t *ranks;         /* READY, DEMAND, ascending */
    uint32_t rank_count;
    bool has_root;      /* PROTECTED, COMMIT: it is known, */
    struct digest root; /* and may be that of no ranks, 0 */
    bool archives;      /* COMMIT: the line is archived */
};

/* What the receiver knows of the sender. */
struct peer_expected {
    enum peer_role role;
    uint32_t node;
    uint32_t epoch;
    uint32_t ranks; /* of the world */
};

/* The caller frees it. NULL with ENOMEM, or EMSGSIZE: more clocks or peers than the limits. */
uint8_t *peer_message_pack(const struct peer_message *message, size_t *bytes);

/*
 * *message points into what is returned, which the caller frees by peer_message_release(). NULL with err:
 * EBADMSG, it is not what it should be; ENOMEM.
 */
struct peer_unpacked;
struct peer_unpacked *peer_message_unpack(const uint8_t *bytes, size_t count,
                                          const struct peer_expected *expected, struct peer_message *message,
                                          struct belay_error *err);
/* Accepts NULL. */
void peer_message_release(struct peer_unpacked *unpacked);

#endif
