#include "coord/epoch_message.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/epoch_record.h"
#include "common/wire/streams.h"

#define NUMBERS 3u /* of a holding, in the message's order; of what was refuted, too */
#define SIZES 3u   /* of a rank_size */
#define PARITY_NUMBERS (7u + PARITY_MEMBERS_MAX) /* of a parity_holding */

_Static_assert(sizeof(struct holding) == NUMBERS * sizeof(uint64_t) &&
                   offsetof(struct holding, image_line) == 0 &&
                   offsetof(struct holding, base_line) == 2 * sizeof(uint64_t),
               "what is held is borrowed as numbers, and back");
_Static_assert(sizeof(struct rank_size) == SIZES * sizeof(uint64_t) &&
                   offsetof(struct rank_size, image_bytes) == 0,
               "and so are sizes");

_Static_assert(sizeof(struct refuted) == NUMBERS * sizeof(uint64_t) && sizeof(struct digest) == DIGEST_BYTES,
               "so are these");

_Static_assert(sizeof(struct parity_holding) == PARITY_NUMBERS * sizeof(uint64_t) &&
                   sizeof(struct epoch_rebuild) == EPOCH_RECORD_REBUILD * sizeof(uint32_t),
               "and these");

static bool has_roots(const struct epoch_start *start)
{
    for (uint32_t rank = 0; start->roots && rank < start->rank_count; rank++)
        if (digest_is_known(&start->roots[rank]))
            return true;
    return false;
}

Belay__Wire__EpochRecord epoch_message_of_start(const struct epoch_start *start, const char *job)
{
    Belay__Wire__EpochRecord record = BELAY__WIRE__EPOCH_RECORD__INIT;

    record.job = (char *)job; /* only read */
    record.epoch = start->epoch;
    record.line = start->line;
    record.last_line = start->last_line;
    record.coordinator = start->coordinator;
    record.members = start->members;
    record.incarnations = start->incarnations;
    record.processors = start->processors;
    record.n_members = record.n_incarnations = record.n_processors = start->member_count;
    record.placement = start->placement;
    record.holder = start->holder;
    record.n_placement = record.n_holder = start->rank_count;
    if (has_roots(start))
        record.roots = (ProtobufCBinaryData){.data = (uint8_t *)start->roots,
                                             .len = (size_t)start->rank_count * DIGEST_BYTES};
    record.rebuilds = (uint32_t *)(void *)start->rebuilds; /* only read */
    record.n_rebuilds = (size_t)start->rebuild_count * EPOCH_RECORD_REBUILD;
    return record;
}

/* Three numbers for each run: the first member, the members that follow it, the ranks on each. */
static void unroll_places(const uint32_t *runs, size_t count, uint32_t *places)
{
    for (size_t i = 0; i < count; i += 3)
        for (uint32_t member = 0; member < runs[i + 1]; member++)
            for (uint32_t rank = 0; rank < runs[i + 2]; rank++)
                *places++ = runs[i] + member;
}

static void unroll_members(const Belay__Wire__EpochRecord *record, struct epoch_start *start)
{
    uint32_t *member = start->members;
    uint64_t *processor = start->processors;

    for (size_t i = 0; i < record->n_member_runs; i += 2)
        for (uint32_t node = 0; node < record->member_runs[i + 1]; node++)
            *member++ = record->member_runs[i] + node;
    for (size_t i = 0; i < record->n_processors; i++)
        for (uint32_t n = 0; n < record->processor_runs[i]; n++)
            *processor++ = record->processors[i];
    for (size_t i = 0; i < record->n_known_members; i++)
        start->incarnations[record->known_members[i]] = record->incarnations[i];
}

/* What is not told stays zero: not known. */
static void unroll(const Belay__Wire__EpochRecord *record, struct epoch_start *start)
{
    const uint8_t *roots = record->roots.data;

    unroll_members(record, start);
    unroll_places(record->placement_runs, record->n_placement_runs, start->placement);
    unroll_places(record->holder_runs, record->n_holder_runs, start->holder);
    for (size_t i = 0; i < record->n_known_ranks; i += 2) {
        size_t bytes = (size_t)record->known_ranks[i + 1] * DIGEST_BYTES;

        memcpy(&start->roots[record->known_ranks[i]], roots, bytes);
        roots += bytes;
    }
}

/* Takes start over. */
static struct epoch_start *add_rebuilds(const Belay__Wire__EpochRecord *record, struct epoch_start *start)
{
    struct epoch_start *whole;

    if (record->n_rebuilds == 0)
        return start;
    whole = epoch_start_with(start, (const struct epoch_rebuild *)(const void *)record->rebuilds,
                             (uint32_t)(record->n_rebuilds / EPOCH_RECORD_REBUILD));
    free(start);
    if (whole && !epoch_start_is_valid(whole)) {
        free(whole);
        errno = EBADMSG;
        return NULL;
    }
    return whole;
}

struct epoch_start *epoch_message_to_start(const Belay__Wire__EpochRecord *record)
{
    struct epoch_start *start;

    if (epoch_record_check(record) < 0)
        return NULL;
    start = epoch_start_create(epoch_record_members(record), epoch_record_ranks(record));
    if (!start)
        return NULL;
    start->epoch = record->epoch;
    start->line = record->line;
    start->last_line = record->last_line;
    start->coordinator = record->coordinator;
    if (epoch_record_is_told(record)) {
        unroll(record, start);
        return add_rebuilds(record, start);
    }
    memcpy(start->members, record->members, record->n_members * sizeof(*start->members));
    memcpy(start->incarnations, record->incarnations, record->n_members * sizeof(*start->incarnations));
    if (record->n_processors > 0)
        memcpy(start->processors, record->processors, record->n_processors * sizeof(*start->processors));
    if (record->n_placement > 0) {
        memcpy(start->placement, record->placement, record->n_placement * sizeof(*start->placement));
        memcpy(start->holder, record->holder, record->n_placement * sizeof(*start->holder));
    }
    if (record->roots.len > 0)
        memcpy(start->roots, record->roots.data, record->roots.len);
    return add_rebuilds(record, start);
}

Belay__Wire__NodeState epoch_message_of_state(const struct epoch_state *state)
{
    Belay__Wire__NodeState message = BELAY__WIRE__NODE_STATE__INIT;

    message.incarnation = state->incarnation;
    message.last_line = state->last_line;
    message.committed_line = state->committed_line;
    message.protected_line = state->protected_line;
    message.protected_epoch = state->protected_epoch;
    message.entered_epoch = state->entered_epoch;
    message.room = state->room;
    message.processor = state->processor;
    message.held = (uint64_t *)(void *)state->held; /* only read */
    message.n_held = (size_t)state->held_count * NUMBERS;
    message.ranks = (uint32_t *)(void *)state->ranks; /* only read */
    message.n_ranks = state->ranks ? state->held_count : 0;
    message.has_memory = state->memory.is_known;
    message.limit_bytes = state->memory.limit_bytes;
    message.machine_bytes = state->memory.machine_bytes;
    message.machine = state->memory.machine;
    message.sizes = (uint64_t *)(void *)state->memory.sizes; /* only read */
    message.n_sizes = state->memory.sizes ? (size_t)state->held_count * SIZES : 0;
    if (state->roots)
        message.roots = (ProtobufCBinaryData){.data = (uint8_t *)(void *)state->roots,
                                              .len = 2 * (size_t)state->held_count * DIGEST_BYTES};
    if (digest_is_known(&state->committed_root))
        message.committed_root =
            (ProtobufCBinaryData){.data = (uint8_t *)(void *)&state->committed_root, .len = DIGEST_BYTES};
    message.refuted = (uint64_t *)(void *)state->refuted;
    message.n_refuted = (size_t)state->refuted_count * NUMBERS;
    message.tables = (uint64_t *)(void *)state->tables;
    message.n_tables = state->tables ? (size_t)state->held_count * NUMBERS : 0;
    message.parities = (uint64_t *)(void *)state->parities;
    message.n_parities = (size_t)state->parity_count * PARITY_NUMBERS;
    return message;
}

/* Those that are told are told of all that is held. */
static bool are_roots_sound(const Belay__Wire__NodeState *message)
{
    size_t all = 2 * (message->n_held / NUMBERS) * DIGEST_BYTES;

    return (message->roots.len == 0 || message->roots.len == all) &&
           (message->committed_root.len == 0 || message->committed_root.len == DIGEST_BYTES) &&
           message->n_refuted % NUMBERS == 0 && message->n_refuted / NUMBERS <= STREAMS_MAX_RANKS;
}

/* Tables of all parts or of none; sets are of a sound code. Of a slot there may be what is committed, what is
 * staged, and what is of a former set. */
static bool is_parity_sound(const Belay__Wire__NodeState *message)
{
    const struct parity_holding *parities = (const struct parity_holding *)(const void *)message->parities;

    if ((message->n_tables != 0 && message->n_tables != message->n_held) ||
        message->n_parities % PARITY_NUMBERS || message->n_parities / PARITY_NUMBERS > 3 * STREAMS_MAX_RANKS)
        return false;
    for (size_t i = 0; i < message->n_parities / PARITY_NUMBERS; i++)
        if (parities[i].parity == 0 || parities[i].parity > parities[i].data ||
            parities[i].data > PARITY_MEMBERS_MAX ||
            parities[i].data + parities[i].parity > PARITY_MEMBERS_MAX ||
            parities[i].position >= parities[i].data + parities[i].parity ||
            parities[i].slot >= STREAMS_MAX_RANKS)
            return false;
    return true;
}

/* Ascending, one for each part; none: the parts are those of the first ranks. */
static bool are_ranks_sound(const Belay__Wire__NodeState *message)
{
    if (message->n_ranks > 0 && message->n_ranks != message->n_held / NUMBERS)
        return false;
    for (size_t i = 0; i < message->n_ranks; i++)
        if (message->ranks[i] >= STREAMS_MAX_RANKS || (i > 0 && message->ranks[i] <= message->ranks[i - 1]))
            return false;
    return true;
}

int epoch_message_to_state(const Belay__Wire__NodeState *message, struct epoch_state *state)
{
    if (message->incarnation == 0 || message->n_held % NUMBERS ||
        message->n_held / NUMBERS > STREAMS_MAX_RANKS ||
        (message->n_sizes > 0 && message->n_sizes / SIZES != message->n_held / NUMBERS) ||
        message->n_sizes % SIZES || !are_roots_sound(message) || !are_ranks_sound(message) ||
        !is_parity_sound(message)) {
        errno = EBADMSG;
        return -1;
    }
    *state = (struct epoch_state){
        .incarnation = message->incarnation,
        .last_line = message->last_line,
        .committed_line = message->committed_line,
        .protected_line = message->protected_line,
        .protected_epoch = message->protected_epoch,
        .entered_epoch = message->entered_epoch,
        .room = message->room,
        .processor = message->processor,
        .memory = {.is_known = message->has_memory,
                   .limit_bytes = message->limit_bytes,
                   .machine_bytes = message->machine_bytes,
                   .machine = message->machine,
                   .sizes =
                       message->n_sizes > 0 ? (const struct rank_size *)(const void *)message->sizes : NULL},
        .held_count = (uint32_t)(message->n_held / NUMBERS),
        .ranks = message->n_ranks > 0 ? message->ranks : NULL,
        .held = (const struct holding *)(const void *)message->held,
        .roots = message->roots.len ? (const struct digest *)(const void *)message->roots.data : NULL,
        .refuted_count = (uint32_t)(message->n_refuted / NUMBERS),
        .refuted = (const struct refuted *)(const void *)message->refuted,
        .tables = message->n_tables > 0 ? (const struct holding *)(const void *)message->tables : NULL,
        .parity_count = (uint32_t)(message->n_parities / PARITY_NUMBERS),
        .parities = (const struct parity_holding *)(const void *)message->parities,
    };
    if (message->committed_root.len)
        memcpy(&state->committed_root, message->committed_root.data, DIGEST_BYTES);
    return 0;
}
