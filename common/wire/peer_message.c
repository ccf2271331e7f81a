#include "common/wire/peer_message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What a message of a kind has to carry, and may carry. */
enum {
    FROM_HOST = 1,
    FROM_MEMBER = 2,
    HAS_LINE = 4,
    HAS_REASON = 8,
    HAS_CLOCKS = 16,
    HAS_VERSION = 32,
    HAS_REPORT = 64,
    HAS_MEASURES = 128,
    HAS_RANKS = 256,
    HAS_COUNTS = 512, /* of members, with each clock */
    MAY_HAVE_ROOT = 1024,
    MAY_BE_REFUTED = 2048,
};

static const struct {
    enum peer_kind kind;
    unsigned traits;
} kinds[] = {
    {PEER_PREPARE, FROM_HOST | HAS_LINE},
    {PEER_STROBE, FROM_HOST | HAS_LINE},
    {PEER_TARGETS, FROM_HOST | HAS_LINE | HAS_CLOCKS | HAS_COUNTS | HAS_VERSION},
    {PEER_STOP, FROM_HOST | HAS_LINE},
    {PEER_DRAIN, FROM_HOST | HAS_LINE},
    {PEER_CAPTURE, FROM_HOST | HAS_LINE},
    {PEER_PROTECT, FROM_HOST | HAS_LINE},
    {PEER_COMMIT, FROM_HOST | HAS_LINE | MAY_HAVE_ROOT},
    {PEER_ABORT, FROM_HOST | HAS_LINE | HAS_REASON | MAY_BE_REFUTED},
    {PEER_LEAVE, FROM_HOST | HAS_LINE},
    {PEER_DEMAND, FROM_HOST | HAS_LINE | HAS_VERSION | HAS_RANKS},
    {PEER_READY, FROM_MEMBER | HAS_RANKS},
    {PEER_UNREADY, FROM_MEMBER | HAS_REASON},
    {PEER_PREPARED, FROM_MEMBER | HAS_LINE},
    {PEER_CLOCKS, FROM_MEMBER | HAS_LINE | HAS_CLOCKS | HAS_COUNTS},
    {PEER_REPORT, FROM_MEMBER | HAS_LINE | HAS_VERSION | HAS_REPORT},
    {PEER_STOPPED, FROM_MEMBER | HAS_LINE},
    {PEER_PARKED, FROM_MEMBER | HAS_LINE},
    {PEER_CAPTURED, FROM_MEMBER | HAS_LINE | HAS_MEASURES},
    {PEER_PROTECTED, FROM_MEMBER | HAS_LINE | MAY_HAVE_ROOT},
    {PEER_RECORDED, FROM_MEMBER | HAS_LINE | HAS_MEASURES},
    {PEER_UNRECORDED, FROM_MEMBER | HAS_LINE | HAS_REASON},
    {PEER_UNAPPLIED, FROM_MEMBER | HAS_LINE},
    {PEER_COMMITTED, FROM_MEMBER | HAS_LINE},
    {PEER_RESUMED, FROM_MEMBER | HAS_LINE | HAS_MEASURES},
    {PEER_ABORTED, FROM_MEMBER | HAS_LINE | HAS_REASON | HAS_MEASURES | MAY_BE_REFUTED},
    {PEER_LOST, FROM_MEMBER | HAS_REASON},
    {PEER_CLOSE, FROM_MEMBER},
    {PEER_NOTICE, FROM_MEMBER | HAS_REASON},
};

/* What a decoded message points into. */
struct peer_unpacked {
    Belay__Wire__Peer *peer;
    struct coord_clock clocks[];
};

static int fill_clocks(const struct peer_message *message, Belay__Wire__Peer *peer);
static void fill_report(const struct peer_report *report, Belay__Wire__PeerReport *to);
static void fill_measures(const struct peer_measures *measures, Belay__Wire__PeerMeasures *to);
static const char *find_fault(const Belay__Wire__Peer *peer, const struct peer_expected *expected);
static const char *find_fault_of_content(const Belay__Wire__Peer *peer, uint32_t world);
static const char *find_fault_of_report(const Belay__Wire__PeerReport *report, uint32_t world);
static bool are_ascending(const uint32_t *ranks, size_t count, uint32_t world);
static unsigned traits_of(enum peer_kind kind);
static void read_message(const struct peer_unpacked *unpacked, struct peer_message *message);

uint8_t *peer_message_pack(const struct peer_message *message, size_t *bytes)
{
    unsigned traits = traits_of(message->kind);
    Belay__Wire__Peer peer = BELAY__WIRE__PEER__INIT;
    Belay__Wire__PeerReport report = BELAY__WIRE__PEER_REPORT__INIT;
    Belay__Wire__PeerMeasures measures = BELAY__WIRE__PEER_MEASURES__INIT;
    char reason[PEER_MAX_REASON + 1] = "";
    uint8_t *packed = NULL;

    if (message->report.peer_count > PEER_MAX_PEERS || message->clock_count > PEER_MAX_CLOCKS) {
        errno = EMSGSIZE;
        return NULL;
    }
    peer.version = PEER_VERSION;
    peer.kind = (Belay__Wire__PeerKind)message->kind;
    peer.role = (Belay__Wire__PeerRole)message->role;
    peer.node = message->node;
    peer.epoch = message->epoch;
    peer.line = message->line;
    peer.targets_version = message->targets_version;
    strncat(reason, message->reason ? message->reason : "", PEER_MAX_REASON);
    peer.reason = reason;
    peer.refuted = message->is_refuted;
    peer.archives = message->archives;
    fill_report(&message->report, &report);
    fill_measures(&message->measures, &measures);
    peer.report = traits & HAS_REPORT ? &report : NULL;
    peer.measures = traits & HAS_MEASURES ? &measures : NULL;
    peer.n_ranks = message->rank_count;
    peer.ranks = (uint32_t *)message->ranks;
    struct digest root = message->root;
    if (message->has_root)
        peer.root = (ProtobufCBinaryData){.data = (uint8_t *)&root, .len = sizeof root};
    if (fill_clocks(message, &peer) == 0) {
        *bytes = belay__wire__peer__get_packed_size(&peer);
        packed = malloc(*bytes + 1);
        if (packed)
            belay__wire__peer__pack(&peer, packed);
    }
    free(peer.comms);
    free(peer.seqs);
    free(peer.seen);
    free(peer.sizes);
    return packed;
}

struct peer_unpacked *peer_message_unpack(const uint8_t *bytes, size_t count,
                                          const struct peer_expected *expected, struct peer_message *message,
                                          struct belay_error *err)
{
    Belay__Wire__Peer *peer =
        count > 0 && count <= PEER_MAX_BYTES ? belay__wire__peer__unpack(NULL, count, bytes) : NULL;
    const char *fault = peer ? find_fault(peer, expected) : "it cannot be read";
    struct peer_unpacked *unpacked = NULL;

    if (fault)
        belay_error_set(err, EBADMSG, "node %u sent a malformed message: %s", expected->node, fault);
    else if (!(unpacked = malloc(sizeof *unpacked + peer->n_comms * sizeof *unpacked->clocks)))
        belay_error_set(err, ENOMEM, "no memory for a message of node %u", expected->node);
    if (!unpacked) {
        belay__wire__peer__free_unpacked(peer, NULL);
        return NULL;
    }
    unpacked->peer = peer;
    for (size_t i = 0; i < peer->n_comms; i++)
        unpacked->clocks[i] = (struct coord_clock){.comm = peer->comms[i],
                                                   .seq = peer->seqs[i],
                                                   .seen = peer->n_seen ? peer->seen[i] : 0,
                                                   .size = peer->n_sizes ? peer->sizes[i] : 0};
    read_message(unpacked, message);
    return unpacked;
}

void peer_message_release(struct peer_unpacked *unpacked)
{
    if (unpacked)
        belay__wire__peer__free_unpacked(unpacked->peer, NULL);
    free(unpacked);
}

static int fill_clocks(const struct peer_message *message, Belay__Wire__Peer *peer)
{
    size_t count = message->clock_count;
    if (count == 0)
        return 0;
    peer->comms = malloc(count * sizeof *peer->comms);
    peer->seqs = malloc(count * sizeof *peer->seqs);
    peer->seen = malloc(count * sizeof *peer->seen);
    peer->sizes = malloc(count * sizeof *peer->sizes);
    if (!peer->comms || !peer->seqs || !peer->seen || !peer->sizes)
        return -1;
    for (size_t i = 0; i < count; i++) {
        peer->comms[i] = message->clocks[i].comm;
        peer->seqs[i] = message->clocks[i].seq;
        peer->seen[i] = message->clocks[i].seen;
        peer->sizes[i] = message->clocks[i].size;
    }
    peer->n_comms = peer->n_seqs = count;
    if (traits_of(message->kind) & HAS_COUNTS)
        peer->n_seen = peer->n_sizes = count;
    return 0;
}

static void fill_report(const struct peer_report *report, Belay__Wire__PeerReport *to)
{
    to->rank = report->rank;
    to->state = report->state;
    to->is_below = report->is_below;
    to->comm = report->comm;
    to->seq = report->seq;
    to->n_peers = report->peer_count;
    to->peers = (int32_t *)report->peers;
}

static void fill_measures(const struct peer_measures *measures, Belay__Wire__PeerMeasures *to)
{
    to->drain_ns = measures->drain_ns;
    to->pause_ns = measures->pause_ns;
    to->felt_ns = measures->felt_ns;
    to->late_ns = measures->late_ns;
    to->dirty_bytes = measures->dirty_bytes;
    to->captured_bytes = measures->captured_bytes;
    to->image_bytes = measures->image_bytes;
    to->sent_bytes = measures->sent.bytes;
    to->page_bytes = measures->sent.page_bytes;
    to->compare_ns = measures->sent.compare_ns;
    to->send_ns = measures->sent.send_ns;
    to->page_model_ns = measures->sent.page_model_ns;
    to->line_model_ns = measures->sent.line_model_ns;
    to->page_parts = measures->sent.page_parts;
    to->line_parts = measures->sent.line_parts;
    to->guarded_bytes = measures->guarded.bytes;
    to->guard_faults = measures->guarded.faults;
    to->longest_fault_ns = measures->guarded.longest_fault_ns;
    to->pool_bytes = measures->guarded.pool_bytes;
    to->pool_waits = measures->guarded.pool_waits;
    to->pool_wait_ns = measures->guarded.pool_wait_ns;
    to->ahead_bytes = measures->copied.ahead_bytes;
    to->right_bytes = measures->copied.right_bytes;
    to->pause_bytes = measures->copied.pause_bytes;
    to->pause_copy_ns = measures->copied.pause_ns;
    to->pause_model_ns = measures->copied.pause_model_ns;
    to->copied_model_ns = measures->copied.copied_model_ns;
    to->copy_ns_per_mib = measures->copied.copy_ns_per_mib;
    to->guard_ns_per_mib = measures->copied.guard_ns_per_mib;
    to->fault_ns_per_mib = measures->copied.fault_ns_per_mib;
    to->yield_ppm = measures->copied.yield_ppm;
}

/* NULL: it is what the receiver expects. */
static const char *find_fault(const Belay__Wire__Peer *peer, const struct peer_expected *expected)
{
    unsigned traits = traits_of((enum peer_kind)peer->kind);
    unsigned from = expected->role == PEER_HOST ? FROM_HOST : FROM_MEMBER;
    if (peer->version != PEER_VERSION)
        return "it is of another version";
    if ((enum peer_role)peer->role != expected->role || peer->node != expected->node)
        return "it is of another sender";
    if (peer->epoch != expected->epoch)
        return "it is of another epoch";
    if (!(traits & from))
        return "its sender does not say such things";
    return find_fault_of_content(peer, expected->ranks);
}

static const char *find_fault_of_content(const Belay__Wire__Peer *peer, uint32_t world)
{
    unsigned traits = traits_of((enum peer_kind)peer->kind);
    if (!(traits & HAS_LINE) != (peer->line == 0))
        return "its line";
    if (strlen(peer->reason) > PEER_MAX_REASON || (peer->reason[0] && !(traits & HAS_REASON)))
        return "its reason";
    if (!(traits & HAS_VERSION) != (peer->targets_version == 0))
        return "the version of the targets";
    if (peer->n_comms != peer->n_seqs || peer->n_comms > PEER_MAX_CLOCKS ||
        (peer->n_comms && !(traits & HAS_CLOCKS)))
        return "its clocks";
    if (peer->n_seen != peer->n_sizes || peer->n_seen != (traits & HAS_COUNTS ? peer->n_comms : 0))
        return "the counts of its clocks";
    for (size_t i = 0; i < peer->n_seen; i++)
        if (peer->seen[i] > world || peer->sizes[i] > world)
            return "more members of a communicator than there are ranks";
    if (!(traits & HAS_MEASURES) != !peer->measures)
        return "its measures";
    if (peer->n_ranks && (!(traits & HAS_RANKS) || !are_ascending(peer->ranks, peer->n_ranks, world)))
        return "its ranks";
    if (peer->root.len && (!(traits & MAY_HAVE_ROOT) || peer->root.len != DIGEST_BYTES))
        return "its root";
    if (peer->refuted && !(traits & MAY_BE_REFUTED))
        return "that it is refuted";
    if (peer->archives && peer->kind != (Belay__Wire__PeerKind)PEER_COMMIT)
        return "that it is archived";
    if (!(traits & HAS_REPORT) != !peer->report)
        return "its report";
    return peer->report ? find_fault_of_report(peer->report, world) : NULL;
}

static const char *find_fault_of_report(const Belay__Wire__PeerReport *report, uint32_t world)
{
    if (report->rank >= world)
        return "a rank outside of the world";
    if (report->state < PEER_RANK_RUNNING || report->state > PEER_RANK_WAITING)
        return "the state of a rank";
    if (report->n_peers > PEER_MAX_PEERS)
        return "the peers of a rank";
    for (size_t i = 0; i < report->n_peers; i++)
        if (report->peers[i] >= 0 && (uint32_t)report->peers[i] >= world)
            return "a peer outside of the world";
    return NULL;
}

static bool are_ascending(const uint32_t *ranks, size_t count, uint32_t world)
{
    for (size_t i = 0; i < count; i++)
        if (ranks[i] >= world || (i > 0 && ranks[i] <= ranks[i - 1]))
            return false;
    return true;
}

/* 0: there is no such kind. */
static unsigned traits_of(enum peer_kind kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].kind == kind)
            return kinds[i].traits;
    return 0;
}

static void read_message(const struct peer_unpacked *unpacked, struct peer_message *message)
{
    const Belay__Wire__Peer *peer = unpacked->peer;
    const Belay__Wire__PeerReport *report = peer->report;
    const Belay__Wire__PeerMeasures *measures = peer->measures;
    *message = (struct peer_message){.kind = (enum peer_kind)peer->kind,
                                     .role = (enum peer_role)peer->role,
                                     .node = peer->node,
                                     .epoch = peer->epoch,
                                     .line = peer->line,
                                     .reason = peer->reason[0] ? peer->reason : NULL,
                                     .is_refuted = peer->refuted,
                                     .archives = peer->archives,
                                     .targets_version = peer->targets_version,
                                     .clocks = unpacked->clocks,
                                     .clock_count = (uint32_t)peer->n_comms,
                                     .ranks = peer->ranks,
                                     .rank_count = (uint32_t)peer->n_ranks};
    message->has_root = peer->root.len > 0;
    if (message->has_root)
        memcpy(&message->root, peer->root.data, sizeof message->root);
    if (report)
        message->report = (struct peer_report){.rank = report->rank,
                                               .state = (enum peer_rank_state)report->state,
                                               .is_below = report->is_below,
                                               .comm = report->comm,
                                               .seq = report->seq,
                                               .peer_count = (uint32_t)report->n_peers,
                                               .peers = report->peers};
    if (measures)
        message->measures = (struct peer_measures){.drain_ns = measures->drain_ns,
                                                   .pause_ns = measures->pause_ns,
                                                   .felt_ns = measures->felt_ns,
                                                   .late_ns = measures->late_ns,
                                                   .dirty_bytes = measures->dirty_bytes,
                                                   .captured_bytes = measures->captured_bytes,
                                                   .image_bytes = measures->image_bytes,
                                                   .sent = {.bytes = measures->sent_bytes,
                                                            .page_bytes = measures->page_bytes,
                                                            .compare_ns = measures->compare_ns,
                                                            .send_ns = measures->send_ns,
                                                            .page_model_ns = measures->page_model_ns,
                                                            .line_model_ns = measures->line_model_ns,
                                                            .page_parts = measures->page_parts,
                                                            .line_parts = measures->line_parts},
                                                   .guarded = {.bytes = measures->guarded_bytes,
                                                               .faults = measures->guard_faults,
                                                               .longest_fault_ns = measures->longest_fault_ns,
                                                               .pool_bytes = measures->pool_bytes,
                                                               .pool_waits = measures->pool_waits,
                                                               .pool_wait_ns = measures->pool_wait_ns},
                                                   .copied = {.ahead_bytes = measures->ahead_bytes,
                                                              .right_bytes = measures->right_bytes,
                                                              .pause_bytes = measures->pause_bytes,
                                                              .pause_ns = measures->pause_copy_ns,
                                                              .pause_model_ns = measures->pause_model_ns,
                                                              .copied_model_ns = measures->copied_model_ns,
                                                              .copy_ns_per_mib = measures->copy_ns_per_mib,
                                                              .guard_ns_per_mib = measures->guard_ns_per_mib,
                                                              .fault_ns_per_mib = measures->fault_ns_per_mib,
                                                              .yield_ppm = measures->yield_ppm}};
}
