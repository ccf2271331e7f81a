/*
 * measure.h - what one line took, from its beginning until the ranks of all members run again.
 *
 * Members tell durations; moments are taken from the host's clock only.
 */
#ifndef BELAY_NODE_AGENT_HOST_MEASURE_H
#define BELAY_NODE_AGENT_HOST_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/peer_message.h"
#include "node-agent/job/history.h"

struct host_measure_part;

struct host_measure {
    uint64_t line;                              /* 0: none */
    uint64_t begin_ns, strobe_ns, converged_ns; /* CLOCK_MONOTONIC; 0: not yet */
    uint64_t captured_ns, end_ns;
    struct host_measure_part *parts; /* of the members; NULL: there was no memory for it */
    uint32_t count;                  /* of members */
    uint32_t recorded, resumed;      /* how many members have said so */
};

/* A line begins; what was measured before is forgotten. */
void measure_begin(struct host_measure *measure, uint64_t line, uint32_t member_count);
void measure_release(struct host_measure *measure);

uint64_t measure_age_ms(const struct host_measure *measure);

/* A member's measures so far. Unknown members are ignored. */
void measure_take(struct host_measure *measure, uint32_t member, const struct peer_measures *of);
/* A member has recorded the line; all its ranks run again. Each returns true once, for the last member. */
bool measure_note_recorded(struct host_measure *measure, uint32_t member);
bool measure_note_resumed(struct host_measure *measure, uint32_t member);
bool measure_is_complete(const struct host_measure *measure);

/* Of all members: the longest of their times, the sum of their sizes. */
struct peer_measures measure_merge(const struct host_measure *measure);
/* What a member told of the roots of its ranks when it was protected, if anything. */
void measure_take_root(struct host_measure *measure, uint32_t member, const struct peer_message *message);
/* Let the message tell the sum of all; nothing if not all members have told theirs. */
void measure_tell_root(const struct host_measure *measure, struct peer_message *message);
/* Sum over all members. */
uint64_t measure_image_bytes(const struct host_measure *measure);

/*
 * Write everything known into the history entry: the longest of the members' times, the sum of their sizes.
 * The total time ends when the last rank runs again or when the line ends, whichever is later.
 */
void measure_fill(const struct host_measure *measure, struct history_line *entry);

#endif
