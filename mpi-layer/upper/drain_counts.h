/*
 * drain_counts.h - the first step of a drain: ranks tell one another what they have sent, and agree on it.
 *
 * One exchange at a time. Without an agreement the exchange is void: counts are told again at the next line,
 * and the state of a synchronous send is the one that the library gives.
 */
#ifndef BELAY_MPI_LAYER_UPPER_DRAIN_COUNTS_H
#define BELAY_MPI_LAYER_UPPER_DRAIN_COUNTS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * "On communicator `comm`, I, rank `source` there, have sent you `count` messages so far", or, if there is a
 * request: "I did not know my synchronous send `request` with this tag to be complete when I stopped; `count`
 * more messages with the tag came after it".
 */
struct told {
    uint64_t comm;
    uint64_t count;
    uint64_t request, serial;
    int32_t source, tag;
};

/* Begin to tell. Returns 0, or -1: out of memory, and this rank tells nothing, as if can_tell were false. */
int counts_begin(uint64_t line, bool can_tell);

/*
 * Look once. True: the exchange is over; *is_agreed tells whether all have been told everything. is_leaving:
 * do not wait for others to take what this rank tells.
 */
bool counts_look(bool is_leaving, bool *is_agreed);

/*
 * All messages are here: of each synchronous send that this rank has been told of, ask whether it is to be
 * acknowledged, after the line.
 */
void counts_settle(bool (*must_acknowledge)(const struct told *told));

/* The drain is over; is_done: all ranks have come to its end, and none has failed. */
void counts_end(bool is_done);

/* After a restart. */
void counts_forget(void);

#endif
