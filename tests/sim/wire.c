#include "tests/sim/wire.h"

#include <stdlib.h>
#include <string.h>

#include "coord/epoch_message.h"
#include "coord/epoch_telling.h"

#define START_BYTES (1024u + MAX_RANKS * 768u) /* more than the largest of the simulation takes */
#define STATE_BYTES (1024u + MAX_RANKS * 2048u)

bool wire_send_start(const struct world *world, uint32_t node, const struct epoch_start *start,
                     struct sent_start *received)
{
    struct epoch_telling *telling =
        epoch_telling_create(start, world->scheme, world->code, world->arity, "job");
    const Belay__Wire__EpochRecord *sent =
        telling ? epoch_telling_to(telling, epoch_start_index(start, node)) : NULL;
    Belay__Wire__EpochRecord *record = NULL;
    struct epoch_start *arrived = NULL;
    uint8_t bytes[START_BYTES];

    if (sent && belay__wire__epoch_record__get_packed_size(sent) <= sizeof(bytes))
        record = belay__wire__epoch_record__unpack(NULL, belay__wire__epoch_record__pack(sent, bytes), bytes);
    epoch_telling_destroy(telling);
    if (record)
        arrived = epoch_message_to_start(record);
    if (arrived)
        wire_keep_start(arrived, received);
    belay__wire__epoch_record__free_unpacked(record, NULL);
    free(arrived);
    return arrived;
}

bool wire_send_state(const struct epoch_state *state, struct sent_state *received)
{
    struct epoch_state *told = epoch_state_copy(state);
    const Belay__Wire__NodeState sent = told ? epoch_message_of_state(told) : (Belay__Wire__NodeState){0};
    Belay__Wire__NodeState *message = NULL;
    uint8_t bytes[STATE_BYTES];
    bool is_accepted;

    if (told && belay__wire__node_state__get_packed_size(&sent) <= sizeof(bytes))
        message = belay__wire__node_state__unpack(NULL, belay__wire__node_state__pack(&sent, bytes), bytes);
    is_accepted = message && epoch_message_to_state(message, &received->state) == 0 &&
                  received->state.held_count <= MAX_RANKS && received->state.refuted_count <= MAX_REFUTED &&
                  received->state.parity_count <= MAX_PARITIES;
    if (is_accepted && received->state.roots)
        memcpy(received->roots, received->state.roots,
               2 * received->state.held_count * sizeof(*received->roots));
    if (is_accepted && received->state.ranks)
        memcpy(received->ranks, received->state.ranks, received->state.held_count * sizeof(*received->ranks));
    if (is_accepted)
        memcpy(received->held, received->state.held, received->state.held_count * sizeof(*received->held));
    if (is_accepted && received->state.memory.sizes)
        memcpy(received->sizes, received->state.memory.sizes,
               received->state.held_count * sizeof(*received->sizes));
    if (is_accepted)
        memcpy(received->refuted, received->state.refuted,
               received->state.refuted_count * sizeof(*received->refuted));
    if (is_accepted && received->state.tables)
        memcpy(received->tables, received->state.tables,
               received->state.held_count * sizeof(*received->tables));
    if (is_accepted && received->state.parity_count > 0)
        memcpy(received->parities, received->state.parities,
               received->state.parity_count * sizeof(*received->parities));
    belay__wire__node_state__free_unpacked(message, NULL);
    free(told);
    return is_accepted;
}

void wire_keep_start(const struct epoch_start *start, struct sent_start *received)
{
    received->start = *start;
    memcpy(received->members, start->members, start->member_count * sizeof(*start->members));
    memcpy(received->incarnations, start->incarnations, start->member_count * sizeof(*start->incarnations));
    memcpy(received->processors, start->processors, start->member_count * sizeof(*start->processors));
    memcpy(received->placement, start->placement, start->rank_count * sizeof(*start->placement));
    memcpy(received->holder, start->holder, start->rank_count * sizeof(*start->holder));
    memcpy(received->roots, start->roots, start->rank_count * sizeof(*start->roots));
    if (start->rebuild_count > 0)
        memcpy(received->rebuilds, start->rebuilds, start->rebuild_count * sizeof(*start->rebuilds));
}

struct epoch_start wire_start_of(struct sent_start *kept)
{
    struct epoch_start start = kept->start;

    start.members = kept->members;
    start.incarnations = kept->incarnations;
    start.processors = kept->processors;
    start.placement = kept->placement;
    start.holder = kept->holder;
    start.roots = kept->roots;
    start.rebuilds = kept->rebuilds;
    return start;
}

struct epoch_state wire_state_of(const struct sent_state *sent)
{
    struct epoch_state state = sent->state;

    state.held = sent->held;
    state.ranks = state.ranks ? sent->ranks : NULL;
    state.memory.sizes = state.memory.sizes ? sent->sizes : NULL;
    state.roots = state.roots ? sent->roots : NULL;
    state.refuted = sent->refuted;
    state.tables = state.tables ? sent->tables : NULL;
    state.parities = sent->parities;
    return state;
}
