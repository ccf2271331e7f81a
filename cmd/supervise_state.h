/*
 * supervise_state.h - a job that is supervised, as the files supervise*.c share it: the loop (supervise.c),
 * the job at the agents of its nodes (supervise_agents.c, supervise_reopen.c), and one launch of it
 * (supervise_launch.c).
 */
#ifndef BELAY_CMD_SUPERVISE_STATE_H
#define BELAY_CMD_SUPERVISE_STATE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/arbiter.h"
#include "cmd/calls.h"
#include "cmd/comeback.h"
#include "cmd/detach.h"
#include "cmd/domain_file.h"
#include "cmd/hosts.h"
#include "cmd/inlet.h"
#include "cmd/launch.h"
#include "cmd/layout.h"
#include "cmd/leases.h"
#include "cmd/nodes.h"
#include "cmd/outcome.h"
#include "cmd/undo_place.h"
#include "cmd/watch.h"
#include "common/util/error.h"
#include "common/wire/belay.pb-c.h"

struct job_plan;

/* What is known of the job that this process supervises. */
struct supervisor {
    const struct job_plan *plan;
    struct install_layout layout;
    char rundir[PATH_MAX]; /* absolute */
    int folder;            /* the directory, which is not removed meanwhile (rundir_hold()); -1: not yet */
    char *name;
    char **argv;
    char **environment;
    Belay__Wire__JobSettings settings; /* that hold: given, or recorded */
    uint32_t restarts;                 /* done by this process */
    uint32_t epoch;                    /* of the newest launch; 0: none yet */
    struct epoch_start *homes;         /* the epoch by whose placement the streams lie; NULL: not known */
    double detect_ms;                  /* of the loss that the next launch makes good; 0: none */
    bool has_told_how;                 /* to go on with the job, which ends */
    bool is_hopeless;                  /* what the nodes hold does not suffice to go on */
    uint64_t cut_line;                 /* the newest one when a link between nodes was lost last */
    uint64_t line;                     /* that the agent holds; 0: none, or not asked */
    Belay__Wire__UndoFolder undo;      /* of the first node, for all; path "": not known */
    char undo_path[PATH_MAX];
    struct signals signals;
    struct job_arbiter *arbiter; /* of the job's epochs */
    struct leases *leases;       /* of its members; NULL: they need none */
    int64_t rests_from_ms; /* when the arbiter of the job's life before this one gave no lease any more, by
                            * clock_now_ms(); 0: not known */
    struct detach detach;
    struct launch launch;
    struct supervise_claim *claim; /* of the job, for all hosts to see; NULL: none */
    bool is_elsewhere;             /* this host was not the job's first one: it is counted anew */
    struct job_plan *resumed;      /* the plan, once it is known that the job goes on; NULL: as given */
    uint32_t renumbered[PLACEMENT_NODES_MAX]; /* by the numbers of a requeued job's nodes: those that they
                                                 have now */
    uint32_t renumbered_count;
    char absent[256];       /* hosts of the former launch of a requeued job that this one has not; "": none */
    uint32_t absent_epoch;  /* of the agent that has told them */
    struct hosts hosts;     /* of its nodes, if they are on several */
    struct nodes nodes;     /* whose agents have the job */
    struct domains domains; /* of these; count 0: they are not known, or there are none */
    struct inlet *inlet;    /* of this launch; NULL: the launcher has our standard input itself */
    struct watch watch;
    struct halt halt;
    struct comeback comeback;               /* of lost nodes */
    struct archiving *archiving;            /* its lines as files; NULL: none are written */
    Belay__Wire__ArchiveManifest *manifest; /* that this restart goes on from; NULL: from none */
    Belay__Wire__ArchiveManifest *aside;    /* that is gone on from if what nodes hold does not suffice */
    int archive_lock;                       /* of its job's folder; -1: not locked, or by `archiving` */
    char archive_folder[PATH_MAX];          /* of its line */
    struct recall *recall; /* of silent hosts, whose images the job lacks; NULL: it lacks none */
};

/* ---- the job at its agents: 0, or -1 with err ---- */

/* A new connection to the node's agent, which this starts if there is none. */
int supervise_connect(struct supervisor *s, struct node *node, struct belay_error *err);
/* Open the job on the agent of one node. */
int supervise_open_on_node(struct supervisor *s, uint32_t number, bool is_restart, struct belay_error *err);
/* It is open on all of them. */
int supervise_begin_arbiter(struct supervisor *s, bool is_restart, struct belay_error *err);
/* For the agent that has opened the job. Whether leases are needed is known when all nodes are. */
int supervise_open_leases(struct supervisor *s, struct belay_error *err);
/*
 * A node that holds nothing of the job any more, or is not reached. Returns 0, or -1 with err: the job cannot
 * do without it. A host that is not reached may come back with what it holds: whether the job can do without
 * it is known when the others have answered (supervise_recall()).
 */
int supervise_leave_node(struct supervisor *s, uint32_t number, struct belay_error *err);
/* The agent knows nothing of the job, or of no images of it. */
bool supervise_knows_nothing(const struct belay_error *err);
/* How long a lease is; 0: nodes need none. */
uint64_t supervise_lease_ms(const struct supervisor *s);
/* Are the leases over that a former arbiter of the job has given? */
bool supervise_has_rested(const struct supervisor *s);
int supervise_choose_scheme(const struct supervisor *s, enum scheme *scheme, struct belay_error *err);
/*
 * Open a job whose nodes are counted anew as a restart, if the hosts of its launch hold enough of it. Else a
 * requeued job is opened as a new one.
 */
int supervise_resume(struct supervisor *s, struct belay_error *err);
/*
 * The first epoch of a requeued job cannot be opened for want of images, as err says, which only shows when
 * all hosts have told what they hold: with parity, an image that is held nowhere may be made again. If any
 * line would do, the job may begin from the start: what is held is dropped, and it is opened as a new one.
 */
bool supervise_may_begin_anew(const struct supervisor *s);
int supervise_begin_anew(struct supervisor *s, struct belay_error *err);
/* Read which of its nodes may be lost together, if the settings name a file. */
int supervise_find_domains(struct supervisor *s, struct belay_error *err);
/* Become the job's arbiter; is_restart: it goes on from a committed line. */
int supervise_open(struct supervisor *s, bool is_restart, struct belay_error *err);
/* An epoch could not be opened, as the arbiter tells: the agents that have entered it end its launch. */
void supervise_leave_epoch(struct supervisor *s);
/* With new agents in the place of those that are lost, or without their nodes. */
int supervise_reopen(struct supervisor *s, struct belay_error *err);
/*
 * The launch was ended since the link between two nodes was lost (watch.cut), and goes on from this line. If
 * that has happened twice in a row, one of the two is left out, provided that the others hold what it holds.
 */
void supervise_take_cut(struct supervisor *s, uint64_t newest_line);
/* An epoch is open without the nodes that were left out: their agents drop what they hold of the job. */
void supervise_drop_left_out(struct supervisor *s);
/* A node that was lost can be reached again: it joins the job as a spare. */
int supervise_regain(struct supervisor *s, uint32_t number, struct belay_error *err);
/* New agents in the place of those of spares that have gone, or without these spares. */
void supervise_find_spares(struct supervisor *s);
/* The job is over at all agents that are left. Says what goes wrong. */
void supervise_close(struct supervisor *s, const struct outcome *outcome);
/* What the agent's refusal of a request means for our exit code. */
int supervise_exit_code(const struct belay_error *err);

/* ---- a restart on another host (supervise_elsewhere.c) ---- */

/* Where the agent is that has the job: s->rundir may become another one, and is_elsewhere. Returns 0, or -1
 * with err. */
int supervise_find_rundir(struct supervisor *s, struct belay_error *err);
/* So many nodes are hosts of the launch; others of a job whose nodes were counted anew are lost for good. */
static inline uint32_t supervise_host_count(const struct supervisor *s)
{
    return s->hosts.count > 1 ? s->hosts.count : 1;
}

/* ---- its undo folder (supervise_undo.c) ---- */

/*
 * Before a job is opened for the first time: if it has several hosts, and the user names no folder, make one
 * where all of them see it. Returns NULL, or why there is none, in words; "": they have no file system in
 * common where the job begins.
 */
const char *supervise_choose_undo(struct supervisor *s);
/* No agent has taken it. */
void supervise_drop_undo(struct supervisor *s);
/* What a node is to use; *shared may be filled for that. NULL: the node makes one. */
Belay__Wire__UndoFolder *supervise_undo_for(struct supervisor *s, uint32_t number,
                                            Belay__Wire__UndoFolder *shared);
/* What a node uses. NULL: not told. */
void supervise_take_undo(struct supervisor *s, const Belay__Wire__UndoFolder *undo);
/* If each host has its own folder: what this means, at the start (lack: as above) and for a node that is
 * lost. */
void supervise_tell_of_files(const struct supervisor *s, const char *lack);
void supervise_tell_lost_undo(const struct supervisor *s, uint32_t number);

/* Do all hosts have one folder? */
bool supervise_has_common_undo(const struct supervisor *s);

/* ---- no other arbiter of it (supervise_claim.c) ---- */

/*
 * Its nodes are known: claim the job, if all hosts share its undo folder. Waits until a former arbiter on
 * another host has noticed it. No-op if it is claimed already. Returns 0, or -1 with err (EADDRINUSE: another
 * host has gone on with it, and what this process can reach is older).
 */
int supervise_claim_job(struct supervisor *s, bool is_restart, struct belay_error *err);
/* An epoch is about to be opened. Does not return if another process has claimed the job. */
void supervise_check_claim(const struct supervisor *s);
/* An epoch is open. */
void supervise_note_epoch(struct supervisor *s);

/* The job is over, and the agent of this host, which removes the undo folder that it has claimed, is gone. */
void supervise_remove_claimed(const struct supervisor *s);

/* ---- the hosts of its nodes: 0, or -1 with err ---- */

/* Find the hosts that this launch line runs its ranks on, and have all join. No-op if it is this one. */
int supervise_find_hosts(struct supervisor *s, char *const argv[], char *const environment[],
                         struct belay_error *err);
/* A launcher that starts the relay of a host that was lost; see hosts_call_back(). Returns 0, or -1 with err.
 */
int supervise_call_host(struct supervisor *s, uint32_t node, struct hosts_child *child,
                        struct belay_error *err);
/* In an epoch without a placement: where ranks of the first launch come up, or those that begin anew. */
int supervise_place(struct supervisor *s, struct belay_error *err);
/* What was changed in the memory of streams has come to all hosts. */
int supervise_settle_streams(struct supervisor *s, struct belay_error *err);

/* ---- lost nodes that come back ---- */

/* A launch begins: which nodes are to be looked for, and when. */
void supervise_expect(struct supervisor *s);
/* The time has come, or a relay has something to say: watch.look_at_ms and watch.look_fd tell when this is to
 * be called next. */
void supervise_look(struct supervisor *s);
/* The job is over: what is under way is ended. */
void supervise_give_up(struct supervisor *s);

/* ---- silent hosts that may hold what no other node has (supervise_recall.c) ---- */

/*
 * An epoch cannot be opened for want of images, as err says. Calls hosts that may hold them, for a bounded
 * time over all calls until an epoch is open. Returns EXIT_OK: another one is of the job again, and opening
 * may be tried; or an exit code with err, which tells where the images may be and how to go on.
 */
int supervise_recall(struct supervisor *s, struct belay_error *err);
/* An epoch is open, or the job is over. */
void supervise_end_recall(struct supervisor *s);

/* ---- lines as files (supervise_archive.c) ---- */

/* The job is open: its archive is looked at, and claimed. Returns 0, or -1 with err. */
int supervise_begin_archive(struct supervisor *s, bool is_restart, struct belay_error *err);
/* No other process runs the job from this archive while the descriptor is open. -1 with err. */
int supervise_lock_archive(int folder, const char *name, struct belay_error *err);
/* An event of a node that has written its part of a line, or cannot. */
void supervise_take_archived(uint32_t node, Belay__Wire__Event *event, void *context);
/* The launch is over, and its images are kept: the newest line is written, if it is not there yet. */
void supervise_archive_last(struct supervisor *s);
/* The job is over. removes: its lines are of no use any more. */
void supervise_end_archive(struct supervisor *s, bool removes);

/* ---- from such files (supervise_retrieve.c) ---- */

/* Before anything is started: find what the plan names, and make the plan that of the archived job. Returns
 * 0, or -1 with err. */
int supervise_find_archive(struct supervisor *s, struct belay_error *err);
/* Do agents hold a job that is to go on from an archive, if it cannot from memory? Then the archive is laid
 * aside. */
bool supervise_is_held(struct supervisor *s);
/* After all it cannot, and no agent holds the job any more: go on from the archive that was laid aside.
 * Returns 0, or -1 with err. */
int supervise_fall_back(struct supervisor *s, struct belay_error *err);
/* Have the agents take the images into memory: the job is then as one that was lost. Returns 0, or -1 with
 * err.
 */
int supervise_retrieve(struct supervisor *s, struct belay_error *err);
/* What the failure of either means for our exit code. */
int supervise_archive_exit_code(const struct belay_error *err);

/* ---- a launch ---- */

/* Returns EXIT_OK when the launch has run and ended, else an exit code with err. */
int supervise_launch(struct supervisor *s, struct belay_error *err);
/* What was to become the program, as far as the launch line tells. */
const char *supervise_launched(const struct supervisor *s);

#endif
