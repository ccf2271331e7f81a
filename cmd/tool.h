/*
 * tool.h - what the short commands (status, list, checkpoint, stop, clean) share: the run directory, the
 * agent if one runs there, and the jobs that the agent or its records know of.
 *
 * None of these starts an agent, unless one has died and what it held waits for its successor. A record is
 * the file RUNDIR/jobs/NAME.status: a JobStatus message, written by the agent. It answers for a job once no
 * agent knows of it any more.
 */
#ifndef BELAY_CMD_TOOL_H
#define BELAY_CMD_TOOL_H

#include <limits.h>

#include "cmd/calls.h"
#include "cmd/options.h"
#include "common/util/error.h"

struct tool {
    char rundir[PATH_MAX];
    struct caller agent; /* sock -1: no agent runs */
    bool is_silent;      /* there is one, which does not answer (members.h) */
    bool is_other;       /* it is the agent of another local node: the first one has none */
    bool is_guest;       /* it has this host's part of jobs that are run from other hosts */
};

struct jobs {
    Belay__Wire__JobStatus **items; /* sorted by name */
    size_t count;
};

/*
 * Find the run directory and the agent, which may be absent (one that has died is replaced if it held
 * images). Returns 0, or -1 after one line on stderr if the directory or the agent cannot be used.
 * tool_close() is due on success.
 */
int tool_open(struct tool *tool);

/*
 * The folder that this host has for its part of jobs which are run from other hosts (docs/hosts.md), and the
 * agent in it, if there is one. Returns 0, or -1: there is no such folder. tool_close() is due on success.
 */
int tool_open_guest(const struct tool *tool, struct tool *guest);

/*
 * A job (NULL: the only one) that is run from this host, which was not its first one (`belay restart` on
 * another host): turn to that folder, where the job's records are. No-op for all others.
 */
void tool_turn(struct tool *tool, const char *job);

/*
 * Is there an agent, as a request about a running job (NULL: the only one) needs? Returns EXIT_OK, or the
 * exit code after one line on stderr.
 */
int tool_require_agent(const struct tool *tool, const char *job);
void tool_close(struct tool *tool);

/*
 * The status of a job, from the agent, else from its record. NULL or "": the only one that runs, else the
 * only one there is. The caller frees it with job_status_free(). NULL with err (ENOENT: no such job).
 */
Belay__Wire__JobStatus *tool_find_job(const struct tool *tool, const char *job, struct belay_error *err);
/* What its agent alone says of a job, else its record; NULL: nothing. */
Belay__Wire__JobStatus *tool_ask(const struct tool *tool, const char *job);
void job_status_free(Belay__Wire__JobStatus *status);

/* All jobs. Returns 0, or -1 with err. jobs_release() is due on success. */
int tool_list_jobs(const struct tool *tool, struct jobs *jobs, struct belay_error *err);
void jobs_release(struct jobs *jobs);

/* What a command does with the job of its options. Returns an exit code. */
typedef int tool_act_f(const struct tool *tool, const struct tool_options *options);
/* Parse [JOB] and options, find the run directory and the job's folder, and act. Returns an exit code. */
int tool_run(const struct argp *argp, int argc, char **argv, bool needs_job, tool_act_f *act);

/* The exit code for a request that failed. */
int tool_exit_code(const struct belay_error *err);

#endif
