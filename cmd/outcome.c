#include "cmd/outcome.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/wait.h>

#include "cmd/exit_codes.h"
#include "cmd/launch_line.h"
#include "common/util/log.h"

static int exit_code_of_status(int wait_status)
{
    return WIFSIGNALED(wait_status) ? EXIT_SIGNAL + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

static struct outcome ended(enum job_state final_state, bool keep_images, int exit_code)
{
    return (struct outcome){true, final_state, keep_images, exit_code};
}

const char *outcome_place(uint64_t line, char text[48])
{
    if (line)
        snprintf(text, 48, "line %" PRIu64, line);
    else
        snprintf(text, 48, "the start");
    return text;
}

struct outcome outcome_of_stop(const struct outcome_case *of)
{
    log_info("%s: stopped", of->name);
    return ended(JOB_STATE_STOPPED, false, EXIT_STOPPED);
}

struct outcome outcome_of_halt(const struct outcome_case *of, const char *reason)
{
    log_info("%s: %s", of->name, reason);
    return ended(JOB_STATE_STOPPED, true, EXIT_HALTED);
}

struct outcome outcome_of_signal(int number)
{
    return ended(JOB_STATE_STOPPED, false, EXIT_SIGNAL + number);
}

/* It has told of a lost process and an aborted job by now, in words that look like the end of it all. */
static const char *words_of_launcher(const struct outcome_case *of)
{
    if (launch_line_is_mpirun(of->argv[0]))
        return "; this answers mpirun's message above";
    return launch_line_is_known(of->argv[0]) ? "; this answers what srun says above" : "";
}

/* The job was lost for `reason`: go on, or give up. */
static struct outcome judge_loss(const struct outcome_case *of, const char *reason)
{
    char text[48];
    if (of->restarts >= of->max_restarts) {
        log_error("%s: %s; %" PRIu64 " restarts are used up", of->name, reason, of->max_restarts);
        return ended(JOB_STATE_LOST, of->newest_line > 0, EXIT_EXHAUSTED);
    }
    log_info("%s: %s; restart %" PRIu32 " of %" PRIu64 " from %s%s", of->name, reason, of->restarts + 1,
             of->max_restarts, outcome_place(of->newest_line, text), words_of_launcher(of));
    return (struct outcome){0};
}

struct outcome outcome_of_lost_agent(const struct outcome_case *of)
{
    if (of->restarts >= of->max_restarts) {
        log_error("%s: the agent was lost; %" PRIu64 " restarts are used up", of->name, of->max_restarts);
        return ended(JOB_STATE_LOST, true, EXIT_EXHAUSTED);
    }
    return (struct outcome){0};
}

struct outcome outcome_of_trouble(const struct outcome_case *of, const char *reason)
{
    return judge_loss(of, reason);
}

struct outcome outcome_of_verdict(const struct outcome_case *of, const struct verdict *verdict)
{
    /* mpirun may crash over MPI_Abort: the program has ended with the status it gave all the same. */
    bool is_crash = WIFSIGNALED(of->wait_status) && verdict->exit_status;
    int status = is_crash ? verdict->exit_status & 0xff : exit_code_of_status(of->wait_status);
    bool has_line = of->newest_line > 0;
    switch (verdict->kind) {
    case VERDICT_UNPROTECTED:
        if (of->restarts && status) /* the same launch line has worked before */
            return judge_loss(of, "the launch ended before the program began");
        log_warning(
            "nothing was protected: no MPI program turned up under the launcher (%s); a program that loads "
            "MPI with dlopen must be named in BELAY_LATE_MPI",
            of->launched);
        return ended(status ? JOB_STATE_FAILED : JOB_STATE_FINISHED, has_line, status);
    case VERDICT_FINISHED:
        return ended(status ? JOB_STATE_FAILED : JOB_STATE_FINISHED, status && has_line, status);
    case VERDICT_REFUSED:
        log_error("%s: %s", of->name, verdict->reason);
        return ended(JOB_STATE_FAILED, has_line, EXIT_REFUSED);
    case VERDICT_CRASH_LOOP:
        log_error("%s: %s, as the last time, and no line was committed in between: not restarted", of->name,
                  verdict->reason);
        return ended(JOB_STATE_LOST, has_line, EXIT_CRASH_LOOP);
    case VERDICT_LOST:
        return judge_loss(of, verdict->reason);
    case VERDICT_STOPPED:
        return outcome_of_stop(of);
    case VERDICT_NONE:
        break;
    }
    log_error("%s: the agent did not tell how the launch ended", of->name);
    return ended(JOB_STATE_FAILED, true, EXIT_INTERNAL);
}
