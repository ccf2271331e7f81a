/*
 * host_state.h - shared by the files of this folder: the state of a job's coordinator and its epoch.
 */
#ifndef BELAY_NODE_AGENT_HOST_HOST_STATE_H
#define BELAY_NODE_AGENT_HOST_HOST_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/archive/pace.h"
#include "coord/coord.h"
#include "node-agent/host/measure.h"
#include "node-agent/host/members.h"
#include "node-agent/host/pace.h"
#include "node-agent/host/requests.h"
#include "node-agent/job/job.h"

#define HOST_REASON_BYTES 512

struct line_host {
    struct job *job;
    struct coord *coord;
    uint32_t epoch; /* 0: none is open */
    uint32_t node;
    uint64_t committed_line, last_line; /* as the epoch was opened */
    struct host_members members;
    bool is_tree;                    /* the only one of them speaks for all */
    bool is_serving;                 /* all members are ready: the coordinator knows of the epoch */
    bool is_closed;                  /* the program ends: an aborted line is not told to the user */
    char trouble[HOST_REASON_BYTES]; /* a loss before it was serving; "": none */
    char refusal[HOST_REASON_BYTES]; /* why no line is taken of this launch; "": lines are */
    struct requests requests;
    struct pace pace;
    struct archive_clock archive; /* when a line was archived last */
    struct host_measure measure;  /* of the line in progress */
    struct host_measure settling; /* of the committed line whose ranks do not all run again yet */
};

/* host.c: one event for the coordinator, of this epoch. */
void host_step(struct line_host *host, struct coord_event event);
/* All members are ready. */
void host_serve(struct line_host *host);
/* A member's link is lost, or a message of it is invalid, or one of its ranks is lost. */
void host_lose(struct line_host *host, struct host_member *member, const char *reason);

/* words.c: one message of a member. */
void host_take(struct host_member *member, const uint8_t *bytes, size_t count);

/* settle.c: a line's state in the history. */
void host_note_state(struct line_host *host, uint64_t line, enum line_state state);
/* Every member has recorded the line in progress: it is committed, and settles. */
void host_note_committed(struct line_host *host);
/* The line in progress has aborted. */
void host_note_aborted(struct line_host *host, const char *reason);
/*
 * The times of the committed line are final: write them into the history and answer the clients that wait.
 * Does nothing if no line is settling.
 */
void host_settle(struct line_host *host);

#endif
