/*
 * job.h - one job: who launched it, its epochs one after the other, its lines and its images.
 *
 * How jobs begin, go on and end is in launch/jobs.h.
 */
#ifndef BELAY_NODE_AGENT_JOB_JOB_H
#define BELAY_NODE_AGENT_JOB_JOB_H

#include <stdbool.h>
#include <stdint.h>
#define HASH_NONFATAL_OOM 1 /* uthash would end the process */
#include <uthash.h>

#include "common/util/error.h"
#include "common/wire/belay.pb-c.h"
#include "common/wire/job_name.h"
#include "common/wire/placement.h"
#include "common/wire/states.h"
#include "coord/tree.h"
#include "node-agent/job/agent.h"
#include "node-agent/job/history.h"
#include "node-agent/job/lost_files.h"
#include "node-agent/job/membership.h"
#include "node-agent/job/parcels.h"
#include "node-agent/job/remains.h"
#include "node-agent/job/streams.h"
#include "node-agent/loop/timer.h"
#include "node-agent/store/store.h"
#include "node-agent/undo/undo.h"

#define JOB_MESSAGE_BYTES 512
#define JOB_AGENT_LOST "the agent was lost" /* why a launch was ended, if its arbiter says so */

/* Of the epoch that is about to begin, as its arbiter tells: for the history. */
struct job_loss {
    uint32_t nodes[PLACEMENT_NODES_MAX];
    uint32_t count;
    double detect_ms;
};

/* Its lines as files, as the arbiter tells; numbers of lines, 0: none. */
struct job_archive {
    uint64_t oldest, newest; /* that are whole */
    uint64_t pending;        /* oldest of those of which that is not known yet */
};

struct archiver;
struct epoch;
struct fence;
struct lease;
struct line;
struct own_arbiter;
struct renewal;
struct retrieval;

/*
 * What this agent knows of the last leases that its arbiter has given to anybody: none after it has closed
 * the job, and none later than one lease after the newest that this node has had (cmd/heard.h). Times are
 * those of CLOCK_BOOTTIME.
 */
struct job_last_leases {
    uint32_t life;       /* the arbiter's, as it has told (JobOpen); 0: not told */
    bool has_opened;     /* it has opened an epoch: leases of arbiters before it were over by then */
    uint64_t closed_ns;  /* when it has closed the job after that; 0: it has not */
    uint64_t granted_ns; /* when the newest lease has come; 0: none has */
    uint64_t lease_ns;   /* the length of each */
};

/* A client that waits for the end of the job. */
struct job_waiter {
    struct job_waiter *next;
    struct connection *connection;
};

struct job {
    UT_hash_handle hh;
    struct agent *agent;
    char name[JOB_NAME_BYTES];
    enum job_state state;         /* written by job_become() alone */
    Belay__Wire__JobOpen *config; /* the launch line, interval, limits; owned */
    Belay__Wire__JobOpen *launch; /* another launch line, until it has worked; NULL: none */
    struct connection *arbiter;   /* NULL: none (any more) */
    bool has_arbiter;             /* it was opened by one */
    struct job_last_leases last_leases;
    bool is_stopping;       /* belay stop */
    bool is_abandoned;      /* the arbiter went without closing the job */
    bool is_awaited;        /* taken up from a killed agent; its arbiter lives and will continue it */
    bool is_kept_by_others; /* it has ended, its images are kept, and none of them are here */
    bool is_unwanted;       /* `belay clean` came while its launch was ending: nothing is kept */
    uint32_t epoch_number;  /* of the newest epoch */
    uint32_t ranks;         /* 0: not known yet */
    struct epoch *epoch;    /* NULL: between epochs */
    struct line *line;
    struct store *store;
    struct membership *membership;       /* this node's part in its epochs, and the records of them */
    struct lease *lease;                 /* under which its ranks run here ... */
    const struct fence *fence;           /* ... and its end */
    struct own_arbiter *own_arbiter;     /* NULL: another process is its arbiter */
    struct renewal *renewal;             /* what ranks shared, of the newest restart; NULL: nothing */
    int made_fd;                         /* objects that restarts have made (shared/made.h), -1: none */
    char not_renewed[JOB_MESSAGE_BYTES]; /* why that could not be made again; "": it could */
    struct history history;
    char last_reason[JOB_MESSAGE_BYTES]; /* why the last epoch ended; becomes the next one's reason */
    struct job_loss loss;
    double fetch_ms;  /* that the images of the epoch that is about to begin took to come; 0: all were here */
    double send_rate; /* at which this node has sent its part of the newest line, in bytes per second; 0: it
                         has not */
    uint32_t restarts, restarts_from_start;
    uint64_t last_line;  /* largest number used */
    double line_cost_ms; /* of a line to the program, as far as this agent has seen; 0: not known */
    int exit_status;
    char nodes_dir[PATH_MAX];        /* where other hosts have their sockets; "": all nodes are on this one */
    char trouble[JOB_MESSAGE_BYTES]; /* with other nodes: why no line is taken in this epoch; "": none */
    char message[JOB_MESSAGE_BYTES]; /* last word about an ended job */
    struct streams_holder streams;
    struct parcels parcels;
    struct lost_files lost_files; /* of nodes that were lost since files were put back */
    uint64_t *common_devices;     /* file systems that all nodes have (common/util/mounts.h) */
    size_t common_count;
    bool is_output_forwarded; /* the arbiter takes output from the streams */
    struct remains remains;   /* of a launch whose agent was killed */
    bool is_retrieved; /* from an archive, with whose files its undo folder stays until an epoch is open */
    struct retrieval *retrieval; /* takes it from its archive; NULL: it does not */
    struct archiver *archiver;   /* writes a line to files; NULL: none does */
    struct job_archive archive;
    struct undo_folder undo;   /* files as they were at its lines */
    struct put_back *put_back; /* is at work; NULL: it is not */
    bool owes_files;           /* they have to be put back before anything else, or given up by the user */
    bool leaves_files;         /* this restart continues although files cannot be put back */
    uint64_t files_left;       /* files that its restarts have left as they were found */
    int record_fd;             /* its record in the keeper, -1: none */
    struct job_waiter *waiters;
    struct timer *retention; /* runs while an ended job's images are kept */
};

#define JOB_MADE "/renewed" /* the name of made_fd at the keeper, behind that of the job */

struct job *job_find(struct agent *agent, const char *name);
bool job_is_running(const struct job *job);
/* Whether this node belongs to the newest epoch that it knows; and whether it waits for one that needs it. */
bool job_is_member(const struct job *job);
bool job_is_spare(const struct job *job);
/* Which copies of its images members hold for one another. */
enum scheme job_scheme(const struct job *job);
/* Of SCHEME_PARITY; else all zero. */
struct parity_code job_code(const struct job *job);
/* The tree over the members of an epoch. */
struct tree job_tree(const struct job *job, const struct epoch_start *start);

/* Whether the table of states in node-agent/README.md has this transition. */
bool job_may_become(enum job_state from, enum job_state to);
/* Change the job's state. A transition that is not in the table is a bug of the agent. */
void job_become(struct job *job, enum job_state state);

/* The only running job, or NULL with err. */
struct job *job_only_running(struct agent *agent, struct belay_error *err);

/* Files as they were at this line and later ones are kept, if `line` is the newest one. */
uint64_t job_keeps_files_from(const struct job *job, uint64_t line);
/* Which lines its archive has, by what is in the folder. */
void job_find_archive(struct job *job);

/* Have a client told (Done) when the job has ended. Returns 0 or -1 with ENOMEM. */
int job_wait(struct job *job, struct connection *connection);
/* That client waits no longer. */
void job_drop_waiter(struct job *job, const struct connection *connection);

/* Tell the arbiter, if there is one. */
void job_tell(struct job *job, const Belay__Wire__Event *event);
void job_tell_text(struct job *job, const char *text);

#endif
