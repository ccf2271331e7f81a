/*
 * verdict.h - how an epoch ended, judged from how its processes did. Pure: no clock, no process is asked.
 *
 * A rank announces its exit in its control page; a rank that is gone without an announcement was killed. The
 * first rank that was killed is the lost one. Ranks that the launcher or the agent killed afterwards are a
 * consequence of this loss. If a rank aborts, or exits with a status other than 0, before any rank was
 * killed, the program has ended by itself, whatever happens to its other ranks then. The end of a program
 * that a rank has executed in its place says nothing about the job. Other ranks may notice a loss earlier
 * than the agent and end because of it: they are asked to wait until the agent has looked (enum
 * control_answer). If a rank was killed while it waited, another that was killed counts, whenever that was
 * seen: at worst the end is reached once more.
 */
#ifndef BELAY_COORD_VERDICT_H
#define BELAY_COORD_VERDICT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/wire/control.h"

#define VERDICT_REASON_BYTES 512
#define VERDICT_NO_RANK UINT32_MAX

enum verdict_kind {
    VERDICT_NONE = 0,
    VERDICT_FINISHED,    /* the program ended by itself, with any status */
    VERDICT_LOST,        /* a rank was killed or the launch was aborted: restart */
    VERDICT_CRASH_LOOP,  /* the same rank and signal as last time, no line committed in between */
    VERDICT_UNPROTECTED, /* no MPI program turned up under the launcher */
    VERDICT_STOPPED,     /* on request */
    VERDICT_REFUSED,     /* a rank was refused */
};

/* How a process ended. Times are of one clock: of one node, or in the order in which one arbiter heard of it.
 */
struct rank_exit {
    enum control_exit kind; /* NONE: not announced, so it was killed */
    int status;
    uint64_t announced_ns, seen_ns; /* CLOCK_MONOTONIC */
    uint32_t signal;                /* that killed it, as its node has seen; 0: none, or not seen */
    bool is_killed_by_us;
    bool is_over_loss;  /* it was announced after another rank had been lost */
    bool is_unanswered; /* it was killed while it waited for an answer: its end had no effect */
};

struct verdict_rank {
    uint32_t rank;
    pid_t pid;
    struct rank_exit exit;
};

/* The last loss of a job, for the crash loop. A zeroed signal: the last epoch lost no rank. */
struct verdict_loss {
    uint32_t rank;
    uint32_t signal;
    uint64_t newest_line;
};

struct verdict_case {
    const struct verdict_rank *ranks; /* those that said hello; all are gone */
    uint32_t count;
    int wait_status;      /* of the launcher */
    bool is_stopped;      /* belay stop */
    const char *refused;  /* why a rank was refused, NULL or "": none was */
    uint64_t newest_line; /* committed */
    struct verdict_loss before;
};

struct verdict {
    enum verdict_kind kind;
    char reason[VERDICT_REASON_BYTES];
    uint32_t lost_rank; /* VERDICT_NO_RANK: none */
    uint32_t signal;    /* 0: not known */
    int exit_status;    /* that a rank ended the program with, 0: none did */
};

/* Judge the end of a launch. *verdict is written as a whole; nothing can fail. */
void verdict_judge(const struct verdict_case *of, struct verdict *verdict);

#endif
