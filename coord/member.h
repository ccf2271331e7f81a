/*
 * member.h - one node's part in the epochs of a job: what it promises, how long it may run its ranks, which
 * orders of a coordinator it obeys, what its records say, and what happens to its images and staging.
 *
 * Pure: events in, actions out. Times are microseconds of the node's own monotonic clock and come with each
 * event. No socket, thread or output, and no memory that outlives member_destroy(). The program that runs it
 * (the agent, or the simulation) carries messages, keeps the record where it outlives the agent, does the
 * work, and steps the machine at member_wake_us(). The rules are those of docs/line.md, "Epochs and the
 * lease" and "The agent's side".
 *
 * An agent's life: BEGIN, which takes up the records of an agent before it; then epochs, each from START to
 * the next INQUIRE, or to the end of the lease. Between epochs the node runs no ranks and obeys nobody.
 */
#ifndef BELAY_COORD_MEMBER_H
#define BELAY_COORD_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "coord/member_types.h"

struct member;

/* record: of the node's memory; copied. NULL with ENOMEM. */
struct member *member_create(const struct member_settings *settings, const struct member_record *record,
                             member_action_f emit, void *context);
/* Accepts NULL. Emits no action. */
void member_destroy(struct member *member);

/*
 * Take one event. An event that does not fit (another epoch, line or phase, or a repeated one) is ignored.
 * Returns 0, or -1 with ENOMEM, EINVAL (a number out of range), or RECORD's or ADMIT's errno; if a line fails
 * by this, the coordinator has been told.
 */
int member_step(struct member *member, const struct member_event *event);

/* When a TICK is due at the latest, UINT64_MAX: never. Changes with each step. */
uint64_t member_wake_us(const struct member *member);
const struct member_record *member_record(const struct member *member);
/* The epoch in which the node takes part, 0: none. */
uint32_t member_epoch(const struct member *member);
/* How many images of its ranks the node lacks. */
uint32_t member_missing(const struct member *member);
/* The line in progress, 0: none. */
uint64_t member_line(const struct member *member);

#endif
