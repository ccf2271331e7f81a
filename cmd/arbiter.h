/*
 * arbiter.h - the arbiter of one job in `belay run` and `belay restart`: opens its epochs (coord/opener.h)
 * over the agents of its nodes, keeps the record of them on disk, and judges how a launch has ended.
 *
 * The record is written down before any agent hears of it (common/wire/epoch_record.h), and each agent's
 * keeper has a copy; a restart takes up the newest of both. Nodes are numbered from 0.
 */
#ifndef BELAY_CMD_ARBITER_H
#define BELAY_CMD_ARBITER_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/arbiter_types.h"
#include "cmd/calls.h"
#include "common/util/error.h"
#include "coord/epoch.h"
#include "coord/verdict.h"

/* rundir: where the record lies; copied. NULL with err. */
struct job_arbiter *job_arbiter_create(const char *rundir, struct belay_error *err);
/* Accepts NULL. */
void job_arbiter_destroy(struct job_arbiter *arbiter);
/* The job is given up at all agents, and may be opened as a new one: only its hosts are known any more.
 * Nobody asks for leases. */
void job_arbiter_forget(struct job_arbiter *arbiter);

/* A node's agent has opened the job for this process; it is reached by `agent`. */
void job_arbiter_take_up(struct job_arbiter *arbiter, uint32_t node, const struct caller *agent,
                         const Belay__Wire__JobOpened *opened);
/* Nodes are hosts, which are reached in this folder: tools are told. */
void job_arbiter_set_nodes_dir(struct job_arbiter *arbiter, const char *path);
/* The node is a host: others reach it at this address (borrowed). is_other: it is not the launcher's host. */
void job_arbiter_set_host(struct job_arbiter *arbiter, uint32_t node, const char *address, bool is_other);
/*
 * The agents of all nodes have been taken up. is_restart: the job goes on, so the newest record that is left
 * counts; else it begins anew, and only the numbers go on. Returns 0, or -1 with err (ENODATA: no record is
 * left).
 */
int job_arbiter_begin(struct job_arbiter *arbiter, const struct job_arbiter_nodes *nodes, bool is_restart,
                      struct belay_error *err);

/*
 * Leases: a member asks for one, from any thread; the answer goes by `grant`, from within the call, NULL: by
 * nobody. The context has to outlive the arbiter, or another granter is set.
 *
 * If leases are bound (binds_leases), they are given as heard.h says. That is for a job which this process
 * launches once.
 */
void job_arbiter_set_granter(struct job_arbiter *arbiter, job_arbiter_grant_f *grant, void *context);
void job_arbiter_renew(struct job_arbiter *arbiter, uint32_t node, const Belay__Wire__Renewal *renewal);
/* Has the member not asked for a lease for half of the time of one? Its ranks may have been ended for that.
 * False if none is needed. */
bool job_arbiter_is_quiet(struct job_arbiter *arbiter, uint32_t node);
/* Of the job; "": no agent has named it yet. */
const char *job_arbiter_name(const struct job_arbiter *arbiter);

/*
 * Open the next epoch: recorded, and entered by all nodes, whose files are put back. *start is valid until
 * the next call. Returns 0, or -1 with err: an agent's, ENODATA if what the nodes hold is not enough, or
 * ENONET if it is, and fewer nodes are left than an epoch has to have.
 * ECONNRESET, ETIMEDOUT: agents were lost, as job_arbiter_failure_of() says; EREMOTEIO: an image could not be
 * fetched from another node. Once lost agents have been replaced, or
 * their nodes left out, the next epoch may be opened.
 */
int job_arbiter_open(struct job_arbiter *arbiter, const struct job_arbiter_launch *launch,
                     const struct epoch_start **start, struct belay_error *err);

/*
 * Wait until the node's agent, or its relay before it, has heard all that was said. 0, or -1 with err: it is
 * lost.
 */
int job_arbiter_settle(struct job_arbiter *arbiter, uint32_t node, struct belay_error *err);
enum job_arbiter_failure job_arbiter_failure_of(const struct job_arbiter *arbiter, uint32_t node);
/* Has the node's agent entered the epoch that was being opened? Then it has a launch that is to be ended. */
bool job_arbiter_has_entered(const struct job_arbiter *arbiter, uint32_t node);
/*
 * Before the first launch it is known where its ranks come up: nodes[r] has rank r. Recorded and told, as by
 * the next. Returns 0 or -1 with err.
 */
int job_arbiter_place(struct job_arbiter *arbiter, uint32_t ranks, const uint32_t *nodes,
                      struct belay_error *err);

/* A node says which ranks have come up there. Once all have, it is recorded, and told. 0 or -1 with err. */
int job_arbiter_take_ranks(struct job_arbiter *arbiter, uint32_t node, const Belay__Wire__RanksUp *up,
                           struct belay_error *err);

/*
 * The node of a job with this scheme has lost its memory: epochs are opened without it from now on. Returns
 * 0, or -1 with err (ENODATA): no other node holds what is needed of it.
 */
int job_arbiter_lose(struct job_arbiter *arbiter, uint32_t node, enum scheme scheme, struct belay_error *err);
/* Where a node's agent is reached; borrowed. */
void job_arbiter_set_rundir(struct job_arbiter *arbiter, uint32_t node, const char *rundir);
/* A node that was lost is there again, with nothing in its memory; its agent has been taken up. */
void job_arbiter_regain(struct job_arbiter *arbiter, uint32_t node);
/* The same, with all that it held: no epoch was opened without it. To be told before job_arbiter_begin(). */
void job_arbiter_recall(struct job_arbiter *arbiter, uint32_t node);
/* Is the node a member of the newest epoch that is known? */
bool job_arbiter_has_member(const struct job_arbiter *arbiter, uint32_t node);

/* How many nodes can be lost now so that the newest epoch's line can still be gone on from. */
enum job_arbiter_cover {
    JOB_ARBITER_COVERED = 0, /* any one; also if there is no line */
    JOB_ARBITER_EXPOSED,     /* for some none, until it is protected again */
    JOB_ARBITER_ALONE,       /* none, since no other node is left for copies */
};
enum job_arbiter_cover job_arbiter_cover(const struct job_arbiter *arbiter);

/*
 * Where the ranks of the newest epoch run, for the launch (common/wire/placement.h). *words, to be freed, is
 * NULL for one node. Returns 0 or -1 with err.
 */
int job_arbiter_placement(const struct job_arbiter *arbiter, char **words, struct belay_error *err);
/* The node that rank 0 of it runs on. */
uint32_t job_arbiter_first_node(const struct job_arbiter *arbiter);
/* The newest epoch, NULL: none. Valid until the next one is opened or placed. */
const struct epoch_start *job_arbiter_record(const struct job_arbiter *arbiter);
/* If the last opening lacked images: a part of a sentence about which, and who holds the others; else "". */
void job_arbiter_tell_lack(const struct job_arbiter *arbiter, char *text, size_t size);

/*
 * How the launch has ended, of which each node tells this, by node. *newest_line: that the nodes hold.
 * Returns 0, or -1 with err (EPROTO).
 */
int job_arbiter_judge(struct job_arbiter *arbiter, Belay__Wire__Reply *const *facts, int wait_status,
                      struct verdict *verdict, uint64_t *newest_line, struct belay_error *err);
/* This process has ended the launch, and that is why. */
void job_arbiter_blame(struct job_arbiter *arbiter, const char *reason);
/* Why it has ended, until the agents have been told; "": they know. */
const char *job_arbiter_reason(const struct job_arbiter *arbiter);

#endif
