#include "coord/verdict.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

static const struct verdict_rank *first_killed(const struct verdict_case *of);
static const struct verdict_rank *first_own_end(const struct verdict_case *of);
static const struct verdict_rank *first_refused(const struct verdict_case *of);
static const struct verdict_rank *first_executed(const struct verdict_case *of);
static bool was_cut_short(const struct verdict_case *of);
static uint32_t signal_of_rank(int wait_status);
static uint32_t signal_of_launch(int wait_status);
static void judge_end(const struct verdict_case *of, struct verdict *verdict);
static void judge_loss(const struct verdict_case *of, const struct verdict_rank *lost,
                       struct verdict *verdict);
static void judge_cut_short(const struct verdict_case *of, struct verdict *verdict);

void verdict_judge(const struct verdict_case *of, struct verdict *verdict)
{
    const struct verdict_rank *refused = first_refused(of);
    *verdict = (struct verdict){.lost_rank = VERDICT_NO_RANK};
    if (of->is_stopped) {
        verdict->kind = VERDICT_STOPPED;
        snprintf(verdict->reason, sizeof verdict->reason, "stopped on request");
    } else if (of->refused && of->refused[0]) {
        verdict->kind = VERDICT_REFUSED;
        snprintf(verdict->reason, sizeof verdict->reason, "%s", of->refused);
    } else if (refused) {
        verdict->kind = VERDICT_REFUSED;
        snprintf(verdict->reason, sizeof verdict->reason, "rank %u refused to run; its message is above",
                 refused->rank);
    } else if (of->count == 0 && of->newest_line > 0 && signal_of_launch(of->wait_status)) {
        verdict->kind = VERDICT_LOST;
        snprintf(verdict->reason, sizeof verdict->reason, "the launch was killed by signal %u at its start",
                 signal_of_launch(of->wait_status));
    } else if (of->count == 0) {
        verdict->kind = VERDICT_UNPROTECTED;
        snprintf(verdict->reason, sizeof verdict->reason, "no MPI program turned up under the launcher");
    } else {
        judge_end(of, verdict);
    }
}

static void judge_end(const struct verdict_case *of, struct verdict *verdict)
{
    const struct verdict_rank *killed = first_killed(of);
    const struct verdict_rank *ended = first_own_end(of), *executed = first_executed(of);
    if (ended && (!killed || ended->exit.announced_ns <= killed->exit.seen_ns)) {
        verdict->kind = VERDICT_FINISHED;
        snprintf(verdict->reason, sizeof verdict->reason, "rank %u ended the program with status %d",
                 ended->rank, ended->exit.status);
        verdict->exit_status = ended->exit.status;
    } else if (WIFSIGNALED(of->wait_status) && (killed || was_cut_short(of))) {
        verdict->kind = VERDICT_LOST;
        snprintf(verdict->reason, sizeof verdict->reason, "the launcher was killed by signal %d",
                 WTERMSIG(of->wait_status));
    } else if (executed && (!killed || executed->exit.seen_ns <= killed->exit.seen_ns)) {
        verdict->kind = VERDICT_FINISHED;
        snprintf(verdict->reason, sizeof verdict->reason, "rank %u executed another program, which has ended",
                 executed->rank);
    } else if (killed) {
        judge_loss(of, killed, verdict);
    } else if (was_cut_short(of) && of->wait_status != 0) {
        judge_cut_short(of, verdict);
    } else {
        verdict->kind = VERDICT_FINISHED;
        snprintf(verdict->reason, sizeof verdict->reason, "all ranks have ended");
    }
}

static void judge_loss(const struct verdict_case *of, const struct verdict_rank *lost,
                       struct verdict *verdict)
{
    /* The launcher may have heard first of one that was killed because of the loss. */
    uint32_t signal = lost->exit.signal ? lost->exit.signal : signal_of_rank(of->wait_status);
    verdict->lost_rank = lost->rank;
    verdict->signal = signal;
    if (signal)
        snprintf(verdict->reason, sizeof verdict->reason, "rank %u (pid %d) was killed by signal %u",
                 lost->rank, (int)lost->pid, signal);
    else
        snprintf(verdict->reason, sizeof verdict->reason, "rank %u (pid %d) was killed", lost->rank,
                 (int)lost->pid);
    bool is_again = of->before.signal != 0 && of->before.signal == signal && of->before.rank == lost->rank &&
                    of->before.newest_line == of->newest_line;
    verdict->kind = is_again ? VERDICT_CRASH_LOOP : VERDICT_LOST;
}

/* The launcher gave up while ranks were still running. */
static void judge_cut_short(const struct verdict_case *of, struct verdict *verdict)
{
    verdict->kind = VERDICT_LOST;
    snprintf(verdict->reason, sizeof verdict->reason, "the launch was aborted (status %d)",
             WEXITSTATUS(of->wait_status));
}

/* The earliest death that nobody announced and that was not ours. */
static const struct verdict_rank *first_killed(const struct verdict_case *of)
{
    const struct verdict_rank *first = NULL;
    for (uint32_t i = 0; i < of->count; i++) {
        const struct verdict_rank *rank = &of->ranks[i];
        bool is_killed = rank->exit.kind == CONTROL_EXIT_NONE && !rank->exit.is_killed_by_us;
        if (is_killed && (!first || rank->exit.seen_ns < first->exit.seen_ns))
            first = rank;
    }
    return first;
}

/*
 * The earliest rank that ended the whole program: MPI_Abort, or a status that makes the launcher end it.
 * One that did so over the loss of another has not, nor one that had not been let do so.
 */
static const struct verdict_rank *first_own_end(const struct verdict_case *of)
{
    const struct verdict_rank *first = NULL;
    bool has_loss = first_killed(of) != NULL;
    for (uint32_t i = 0; i < of->count; i++) {
        const struct verdict_rank *rank = &of->ranks[i];
        bool is_own = control_ends_all(rank->exit.kind, rank->exit.status) && !rank->exit.is_over_loss &&
                      !(rank->exit.is_unanswered && has_loss);
        if (is_own && (!first || rank->exit.announced_ns < first->exit.announced_ns))
            first = rank;
    }
    return first;
}

static const struct verdict_rank *first_refused(const struct verdict_case *of)
{
    for (uint32_t i = 0; i < of->count; i++)
        if (of->ranks[i].exit.kind == CONTROL_EXIT_REFUSED)
            return &of->ranks[i];
    return NULL;
}

/* How it ended then, only the launcher knows. */
static const struct verdict_rank *first_executed(const struct verdict_case *of)
{
    const struct verdict_rank *first = NULL;
    for (uint32_t i = 0; i < of->count; i++) {
        const struct verdict_rank *rank = &of->ranks[i];
        bool is_executed = rank->exit.kind == CONTROL_EXIT_EXECUTED && !rank->exit.is_killed_by_us;
        if (is_executed && (!first || rank->exit.seen_ns < first->exit.seen_ns))
            first = rank;
    }
    return first;
}

static bool was_cut_short(const struct verdict_case *of)
{
    for (uint32_t i = 0; i < of->count; i++)
        if (of->ranks[i].exit.kind == CONTROL_EXIT_NONE)
            return true;
    return false;
}

/* Launchers end with 128 + the signal that killed a rank. */
static uint32_t signal_of_rank(int wait_status)
{
    int status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
    return status > 128 && status < 128 + NSIG ? (uint32_t)(status - 128) : 0;
}

/* The launcher's own, or a process's that had not come as far as the agent. */
static uint32_t signal_of_launch(int wait_status)
{
    return WIFSIGNALED(wait_status) ? (uint32_t)WTERMSIG(wait_status) : signal_of_rank(wait_status);
}
