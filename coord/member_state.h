/*
 * member_state.h - what a member knows, for the files that decide: member.c (epochs, the lease, images) and
 * member_line.c (the line in progress). Nobody else includes it.
 */
#ifndef BELAY_COORD_MEMBER_STATE_H
#define BELAY_COORD_MEMBER_STATE_H

#include "coord/member_types.h"

struct member {
    struct member_settings settings;
    member_action_f emit;
    void *context;
    struct member_record record;

    /* the newest epoch of this life */
    struct epoch_start *start; /* NULL: none */
    uint32_t index, partner;   /* of the members, EPOCH_NOBODY: none */
    bool is_serving;           /* obeys its coordinator and may run ranks */
    bool has_lease;
    uint64_t lease_end_us;
    uint64_t repeat_us; /* when to say again what may have been lost */
    bool is_launched, has_lines;
    bool is_in_trouble; /* tells the arbiter until another epoch comes */
    bool *is_missing;   /* per rank: ours, and its image is not here yet */
    uint32_t missing_count;

    /* the line in progress */
    uint64_t line;                /* 0: none */
    enum coord_action_type order; /* newest */
    bool *is_awaited;             /* per rank: ours, and not captured, or not protected yet */
    uint32_t awaited_count;
};

/* An event of a line: ORDER, CAPTURED, DATA, HELD, NEED_BASE or APPLIED. Returns what member_step() does. */
int member_line_take(struct member *member, const struct member_event *event);

/* Tell the arbiter, again and again, until another epoch comes. */
void member_call_trouble(struct member *member);
/* Change the record. Returns 0, or -1 with errno and the record as it was. */
int member_keep(struct member *member, struct member_record record);
/* Whether the rank's place in this epoch is here. */
bool member_is_local(const struct member *member, uint32_t rank);
/*
 * Emit an action, which is one of the epoch and the line in progress unless it names others. Returns what the
 * callback does.
 */
int member_act(struct member *member, struct member_action action);

#endif
