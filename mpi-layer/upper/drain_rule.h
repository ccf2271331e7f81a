/*
 * drain_rule.h - when a rank goes from one step of a drain to the next (drain.h has the steps).
 *
 * Decides on what the rank sees in one look, and asks nobody: drain.c looks at the MPI library, tests/sim at
 * its model of it.
 */
#ifndef BELAY_MPI_LAYER_UPPER_DRAIN_RULE_H
#define BELAY_MPI_LAYER_UPPER_DRAIN_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/control.h"

/*
 * OVER: another rank has gone on to MPI_Finalize, so there is no line any more; this can happen only when
 * this rank is there, too. LEFT: a rank has failed, this one or another.
 */
enum drain_end { DRAIN_NONE = 0, DRAIN_DONE, DRAIN_LEFT, DRAIN_OVER };

/* What a rank sees while it takes its messages. */
struct drain_look {
    bool is_leaving;   /* nobody is waited for any more */
    bool are_taken;    /* all messages that have come and may be taken are */
    bool are_missing;  /* some have not come yet */
    bool is_stuck;     /* this rank takes no more: there is no memory even for an envelope */
    bool is_in_flight; /* something that this rank has sent is with the library */
    bool has_failed;   /* this rank */
};

/* A rank has failed: nobody waits for what it may not do any more. */
static inline bool drain_is_left(const struct control *control, uint64_t line)
{
    return __atomic_load_n(&control->leave_line, __ATOMIC_SEQ_CST) == line;
}

/* A rank whose message is taken must have stopped: it would take a synchronous send for received. */
static inline bool drain_is_taking_allowed(const struct control *control, uint64_t line)
{
    return __atomic_load_n(&control->drain_line, __ATOMIC_SEQ_CST) == line;
}

/*
 * The library says that a synchronous send is complete: is it? A drain of the receiver's may have taken the
 * message. is_held: the receiver will say. is_stopping: the sender has the order to stop.
 */
static inline bool drain_may_complete(bool is_held, bool is_stopping)
{
    return !is_held && !is_stopping;
}

/*
 * The ranks could not agree: is a synchronous send that was told of what the library says, as before? Not if
 * drains may have taken its message since an earlier agreement: only the receiver knows then.
 */
static inline bool drain_may_take_back(bool may_be_drained)
{
    return !may_be_drained;
}

/* May this rank say whether what it had to tell is told? A rank that has failed waits for the order to leave.
 */
static inline bool drain_may_agree(bool is_told, bool is_leaving)
{
    return is_told || is_leaving;
}

/* Is nothing on its way to or from this rank any more, or does nobody wait for it? */
static inline bool drain_has_all(const struct drain_look *look)
{
    if (look->is_leaving)
        return !look->are_missing || look->is_stuck;
    return look->are_taken && !look->are_missing && !look->is_in_flight && !look->has_failed;
}

/* are_all_here: all ranks have come to the end; is_agreed: all had been told everything. */
static inline enum drain_end drain_end_of(bool are_all_here, bool is_agreed, bool has_failed, bool is_left)
{
    if (!are_all_here)
        return DRAIN_OVER;
    return is_agreed && !has_failed && !is_left ? DRAIN_DONE : DRAIN_LEFT;
}

#endif
