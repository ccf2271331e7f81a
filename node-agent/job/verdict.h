/*
 * verdict.h - how an epoch ended, judged from how its processes did. Pure.
 *
 * A rank announces its exit in its control page; one that is gone without was killed. The first rank
 * that was killed is the lost one; those that the launcher or the agent killed afterwards are its
 * consequence. A program that aborts, or exits with a status other than 0, before that has ended by
 * itself, whatever happens to its other ranks then. What a rank executes in its place ends as it likes. Peers
 * may learn of a loss earlier than the agent, and end over it: they are asked to wait until the agent has
 * looked (enum control_answer).
 */
#ifndef BELAY_NODE_AGENT_JOB_VERDICT_H
#define BELAY_NODE_AGENT_JOB_VERDICT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/wire/belay.pb-c.h"
#include "node-agent/rank/rank.h"

#define VERDICT_REASON_BYTES 512
#define VERDICT_NO_RANK UINT32_MAX

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
    Belay__Wire__VerdictKind kind;
    char reason[VERDICT_REASON_BYTES];
    uint32_t lost_rank; /* VERDICT_NO_RANK: none */
    uint32_t signal;    /* 0: not known */
    int exit_status;    /* that a rank ended the program with, 0: none did */
};

void verdict_judge(const struct verdict_case *of, struct verdict *verdict);

#endif
