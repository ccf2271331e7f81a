/*
 * states.h - the states of a job and of a line: their numbers on the wire (belay.proto) and the names by
 * which users see them. A name is never changed: scripts compare with it.
 */
#ifndef BELAY_COMMON_WIRE_STATES_H
#define BELAY_COMMON_WIRE_STATES_H

#include <stdbool.h>

#include "common/wire/belay.pb-c.h"

enum job_state {
    JOB_STATE_NONE = BELAY__WIRE__JOB_STATE__JOB_STATE_NONE,
    JOB_STATE_STARTING = BELAY__WIRE__JOB_STATE__JOB_STATE_STARTING,     /* ranks are not all there yet */
    JOB_STATE_RUNNING = BELAY__WIRE__JOB_STATE__JOB_STATE_RUNNING,       /* all ranks are there */
    JOB_STATE_RESTARTING = BELAY__WIRE__JOB_STATE__JOB_STATE_RESTARTING, /* from a loss to the next ranks */
    JOB_STATE_FINISHED = BELAY__WIRE__JOB_STATE__JOB_STATE_FINISHED,     /* from here on: ended */
    JOB_STATE_FAILED = BELAY__WIRE__JOB_STATE__JOB_STATE_FAILED,
    JOB_STATE_STOPPED = BELAY__WIRE__JOB_STATE__JOB_STATE_STOPPED,
    JOB_STATE_LOST = BELAY__WIRE__JOB_STATE__JOB_STATE_LOST,
};

enum line_state {
    LINE_STATE_NONE = BELAY__WIRE__LINE_STATE__LINE_STATE_NONE,
    LINE_STATE_RUNNING = BELAY__WIRE__LINE_STATE__LINE_STATE_RUNNING,
    LINE_STATE_CAPTURED = BELAY__WIRE__LINE_STATE__LINE_STATE_CAPTURED,
    LINE_STATE_PROTECTED = BELAY__WIRE__LINE_STATE__LINE_STATE_PROTECTED,
    LINE_STATE_COMMITTED = BELAY__WIRE__LINE_STATE__LINE_STATE_COMMITTED,
    LINE_STATE_ABORTED = BELAY__WIRE__LINE_STATE__LINE_STATE_ABORTED,
};

/* What becomes of a link between the agents of two nodes. */
enum link_state {
    LINK_STATE_NONE = BELAY__WIRE__LINK_STATE__LINK_STATE_NONE,
    LINK_STATE_LATE = BELAY__WIRE__LINK_STATE__LINK_STATE_LATE,
    LINK_STATE_JOINED = BELAY__WIRE__LINK_STATE__LINK_STATE_JOINED,
    LINK_STATE_SILENT = BELAY__WIRE__LINK_STATE__LINK_STATE_SILENT,
};

/* Static text; "none" for NONE and for a number that is no state. */
const char *job_state_name(enum job_state state);
const char *line_state_name(enum line_state state);

/*
 * The state that a message or a record holds: its number, or, if a version of Belay without numbers wrote it
 * (number 0), the one of its name. NONE if both are unknown.
 */
enum job_state job_state_from(int number, const char *name);
enum line_state line_state_from(int number, const char *name);

bool job_state_has_ended(enum job_state state);

#endif
