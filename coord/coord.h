/*
 * coord.h - the coordinator of one job: the state machine that drives recovery lines.
 *
 * Pure: events in, actions out. No clocks, no sockets, no threads, no allocation that outlives
 * coord_destroy(), no output. The same code runs inside belayd and in the simulation (tests/sim).
 * The table of phases is docs/line.md.
 *
 * One line at a time. Phases of a line and who moves it on:
 *
 *   IDLE --REQUEST--> PREPARE --all agents PREPARED--> CLOCKS --all agents' CLOCKS--> CONVERGE --all ranks
 *   at target, nobody inside--> STOP --all agents STOPPED--> DRAIN --all agents PARKED--> CAPTURE --all
 * agents CAPTURED--> PROTECT --all agents PROTECTED--> COMMIT --all agents COMMITTED--> IDLE
 *
 * An ABORT (asked for by an agent, or caused by the loss of a rank or an agent) leads from any phase up to
 * PROTECT to IDLE. The number of an aborted line is not used again. From COMMIT on a line does not abort:
 * every agent records COMMIT, or, if members are lost, the next epoch decides (COORD_EVENT_EPOCH).
 *
 * Convergence (docs/line.md, "The rank's side"): a rank holds at a collective beyond the target only while
 * it is below target on none of its communicators. The wait-for edges of every WAITING rank below target are
 * followed; a HELD rank at their end is released by raising the target of its collective. A wait for any
 * rank, or for several peers, follows all of them. tests/sim checks this rule with random legal programs.
 */
#ifndef BELAY_COORD_COORD_H
#define BELAY_COORD_COORD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/coord_clock.h"
#include "coord/coord_report.h"

struct coord;

enum coord_phase {
    COORD_PHASE_NONE = 0, /* no epoch yet */
    COORD_PHASE_IDLE,
    COORD_PHASE_PREPARE,
    COORD_PHASE_CLOCKS,
    COORD_PHASE_CONVERGE,
    COORD_PHASE_STOP,
    COORD_PHASE_DRAIN,
    COORD_PHASE_CAPTURE,
    COORD_PHASE_PROTECT,
    COORD_PHASE_COMMIT,
};

enum coord_event_type {
    COORD_EVENT_NONE = 0,
    COORD_EVENT_EPOCH,     /* epoch, agent_count, rank_count, committed_line, last_line: a new epoch begins */
    COORD_EVENT_REQUEST,   /* token: a client asks for a line; 0: the interval has passed */
    COORD_EVENT_PREPARED,  /* agent, line: it has copied ahead what can be copied while its ranks run */
    COORD_EVENT_CLOCKS,    /* agent, line, clocks: largest clocks among its ranks; may be sent again */
    COORD_EVENT_REPORT,    /* agent, line, report */
    COORD_EVENT_STOPPED,   /* agent, line: all its ranks have the order to stop */
    COORD_EVENT_PARKED,    /* agent, line: all its ranks are parked */
    COORD_EVENT_CAPTURED,  /* agent, line */
    COORD_EVENT_PROTECTED, /* agent, line */
    COORD_EVENT_COMMITTED, /* agent, line: COMMIT is recorded there */
    COORD_EVENT_ABORT,     /* agent, line, reason, is_refuted: it cannot go on with this line */
    COORD_EVENT_LOST,      /* agent or rank lost, reason: no line until the next EPOCH */
    COORD_EVENT_CLOSE,     /* the job finalizes: no line any more */
};

struct coord_event {
    enum coord_event_type type;
    uint32_t epoch; /* events of another epoch than the current one are ignored (except EPOCH) */
    uint32_t agent; /* 0 .. agent_count-1 */
    uint64_t line;
    uint64_t token;
    const struct coord_clock *clocks; /* borrowed for the call */
    uint32_t clock_count;
    struct coord_report report;
    const char *reason; /* borrowed; NULL if none */
    bool is_refuted;    /* ABORT: what a node keeps of the line is another image than it was given */
    /* EPOCH only */
    uint32_t agent_count, rank_count;
    uint64_t committed_line; /* newest line known as committed, 0: none */
    uint64_t last_line;      /* largest line number ever used, so that none is used twice */
};

enum coord_action_type {
    COORD_ACTION_NONE = 0,
    COORD_ACTION_PREPARE, /* to all agents: line; copy ahead while the ranks run, then PREPARED */
    COORD_ACTION_STROBE,  /* to all agents: line; raise CONVERGE, send CLOCKS, then REPORTs on change */
    COORD_ACTION_TARGETS, /* to all agents: line, targets_version, clocks = targets, at least those that have
                             risen since the version before; ranks judge anew, each agent REPORTs every one of
                             its ranks against this version */
    COORD_ACTION_STOP,    /* to all agents: line; order the ranks to stop, then STOPPED */
    COORD_ACTION_DRAIN,   /* to all agents: line; all ranks of all agents have that order: they may take
                             messages from the library; when all its ranks are parked, PARKED */
    COORD_ACTION_CAPTURE, /* to all agents: line; global quiescence: capture, resume, then CAPTURED */
    COORD_ACTION_PROTECT, /* to all agents: line; then PROTECTED */
    COORD_ACTION_COMMIT,  /* to all agents: line; record, apply, then COMMITTED */
    COORD_ACTION_ABORT,  /* to all agents: line, reason, is_refuted; resume ranks, fold the dirty set into the
                            next */
    COORD_ACTION_LEAVE,  /* to all agents: line; one of them has given up between STOP and the capture: ranks
                            leave the drain, in which nobody waits for what another cannot do; then PARKED */
    COORD_ACTION_DEMAND, /* to a branch (branch.h): line, targets_version, ranks that others wait for */
    COORD_ACTION_LINE_DONE, /* to the requester `token`: line committed (reason NULL) or aborted (reason) */
};

struct coord_action {
    enum coord_action_type type;
    uint32_t epoch;
    uint64_t line;
    uint32_t targets_version;
    const struct coord_clock *clocks; /* valid during the callback only */
    uint32_t clock_count;
    const uint32_t *ranks; /* DEMAND: of the world, ascending; none: all. Valid during the callback only */
    uint32_t rank_count;
    uint64_t token;
    bool is_committed;  /* LINE_DONE */
    const char *reason; /* valid during the callback only */
    bool is_refuted;    /* ABORT: no verdict may choose the line */
};

/* Called for each action, in order, from within coord_step(). It must not call coord_step(). */
typedef void (*coord_action_f)(void *context, const struct coord_action *action);

/* A coordinator without an epoch. NULL with ENOMEM. */
struct coord *coord_create(coord_action_f emit, void *context);
/* Accepts NULL. */
void coord_destroy(struct coord *coord);

/*
 * Take one event. Events that do not fit (another epoch or line, a phase that is over, an agent that has
 * said it already) are ignored: messages may be late, repeated, or reordered between agents; those of one
 * agent come in the order in which it sent them (CLOCKS before the REPORT that relies on them). A REQUEST
 * while a line runs is remembered and answered by the next line (several requests share one); a REQUEST
 * while no epoch is open or after LOST or CLOSE is answered at once with LINE_DONE (aborted, reason).
 * Returns 0, or -1 with ENOMEM (then the line in progress is aborted) or EINVAL (an agent or rank out of
 * range).
 */
int coord_step(struct coord *coord, const struct coord_event *event);

enum coord_phase coord_phase(const struct coord *coord);
/* The line in progress, 0: none. */
uint64_t coord_line(const struct coord *coord);
/* The newest committed line, 0: none. */
uint64_t coord_committed_line(const struct coord *coord);
const char *coord_phase_name(enum coord_phase phase);
/* The phase that ends when all agents have said this word; COORD_PHASE_NONE: it is no such word. */
enum coord_phase coord_phase_of_word(enum coord_event_type word);

#endif
