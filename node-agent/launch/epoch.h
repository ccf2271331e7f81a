/*
 * epoch.h - one launch of a job: its ranks come, run, and go; then its arbiter hears how they ended.
 */
#ifndef BELAY_NODE_AGENT_LAUNCH_EPOCH_H
#define BELAY_NODE_AGENT_LAUNCH_EPOCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/util/error.h"
#include "coord/epoch.h"
#include "node-agent/job/job.h"
#include "node-agent/launch/epoch_state.h"

/* How long a launcher may take to end by itself after a rank was lost. */
#define EPOCH_PATIENCE_MS 2000

struct epoch_launcher {
    pid_t pid; /* 0: not known */
    pid_t arbiter_pid;
};

/*
 * The arbiter is about to open this epoch; the job has none. The committed line is brought into the images,
 * and *state, valid until the next promise, is what the arbiter is answered: the lines that are held, also
 * one that was protected and not committed. Returns 0 or -1 with err.
 */
int epoch_promise(struct job *job, uint32_t number, struct epoch_state *state, struct belay_error *err);
/*
 * The arbiter has opened it: enter, and bring its line into the images if it was only protected until now;
 * all else that is staged is dropped. Returns 0, or -1 with err (ENODATA: its line is not held here).
 */
int epoch_enter(struct job *job, const struct epoch_start *start, struct belay_error *err);

/*
 * Begin the launch of the epoch that has been entered; the job's files are as they were at its line. Returns
 * 0 or -1 with err.
 */
int epoch_begin(struct job *job, const struct epoch_launcher *launcher, const char *reason,
                struct belay_error *err);
/* The arbiter has said where the epoch's ranks are: lines may be taken. */
void epoch_placed(struct epoch *epoch);
/* The image of a rank that came while the rank ran is whole: lines begin when that holds for all of them. */
void epoch_loaded(struct epoch *epoch, uint32_t rank);
/* Accepts NULL. */
void epoch_destroy(struct epoch *epoch);

/* The connection of a process is closed: a rank of ours may have executed another program. */
void epoch_connection_closed(struct epoch *epoch, pid_t pid);

/* A rank said hello; answers the connection with its Welcome or an error. */
void epoch_join(struct epoch *epoch, struct connection *connection, const Belay__Wire__RankHello *hello);

/* A rank that is restored asks for what it shared; answers the connection. */
void epoch_give_share(struct epoch *epoch, struct connection *connection, const Belay__Wire__ShareGet *get);

/* Whether a rank has been lost, looked at now: their peers may learn of it before the agent does. */
bool epoch_has_lost_rank(const struct epoch *epoch);
/* The arbiter has asked all nodes that, after ranks here had announced that they end the program. */
void epoch_take_answer(struct epoch *epoch, bool has_loss);

/* The launcher has ended; the connection hears how the ranks did once all are gone. */
void epoch_launch_ended(struct epoch *epoch, struct connection *connection);

/* Kill all ranks, and the launcher if it does not end by itself then. */
void epoch_kill(struct epoch *epoch);

/* The arbiter is gone: end the launch, and the job with it. The job may be freed. */
void epoch_abandon(struct epoch *epoch);

/* Whether its launcher has ended; also true if that is not known. */
bool epoch_is_launcher_gone(const struct epoch *epoch);

/* If all its ranks are gone, and its launcher where that counts: it is over. May free it, and the job. */
void epoch_end_if_over(struct epoch *epoch);

#endif
