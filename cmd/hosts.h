/*
 * hosts.h - the hosts of a job: found by the launcher itself, and joined to this one by a relay on each of
 * them (docs/hosts.md). This host is node 0.
 */
#ifndef BELAY_CMD_HOSTS_H
#define BELAY_CMD_HOSTS_H

#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/hosts_child.h"
#include "common/util/error.h"
#include "common/wire/placement.h"

#define HOSTS_ADDRESS_BYTES 64u

struct host {
    char name[HOST_NAME_MAX + 1];
    char address[HOSTS_ADDRESS_BYTES]; /* by which the other hosts reach it */
};

#define HOSTS_KEY_BYTES 48u /* of a session of relays: its key, and what tells jobs apart */
#define HOSTS_LINE_BYTES 512

struct hosts {
    struct host of[PLACEMENT_NODES_MAX]; /* by node */
    uint32_t count;                      /* 0 or 1: there is this one only */
    uint32_t ranks;
    char folder[PATH_MAX]; /* where the other hosts have their sockets; "": nowhere yet */
    uint32_t *placement;   /* by rank: the node where the launcher puts it, if nobody tells it otherwise */
    pid_t gatherer;        /* the relay beside this process; 0: none */
    int gatherer_in;       /* closed, it ends */
    FILE *gatherer_out;
    uint8_t key[HOSTS_KEY_BYTES];                      /* for relays that are started later */
    struct hosts_child launchers[PLACEMENT_NODES_MAX]; /* of relays that stay with them, by node */
    struct hosts_child *former; /* of relays that were given up, whose agents may have images of the job */
    size_t former_count, former_room;
    char listens[HOSTS_LINE_BYTES]; /* port and addresses of the gatherer; "": nobody starts relays later */
};

/*
 * Where the line runs its ranks: one launch of it with another program. Behind these hosts so many spares:
 * others that the line may use, by a second launch. Returns 0 or -1 with err.
 */
int hosts_find(struct hosts *hosts, const struct hosts_launch *launch, uint32_t spares,
               struct belay_error *err);
/* Start the relays. Returns 0 when all hosts have joined, or -1 with err, which names the one that has not.
 */
int hosts_join(struct hosts *hosts, const struct hosts_launch *launch, struct belay_error *err);
/*
 * The same for a launch that has begun: its processes start the relays. What they have to know is said on
 * standard output, in three lines and an empty one: the session's key, the run directory, and port and
 * addresses.
 */
int hosts_await(struct hosts *hosts, const struct hosts_launch *launch, struct belay_error *err);
/* Start the relay of a host that was lost; says nothing if it fails. Returns 0, or -1 with err. */
int hosts_call_back(struct hosts *hosts, uint32_t node, const struct hosts_launch *launch,
                    struct hosts_child *child, struct belay_error *err);
/*
 * The host has joined: the launcher of its relay is to last as long as this does. *child is none then. The
 * launcher of the relay before is ended.
 */
void hosts_keep_launcher(struct hosts *hosts, uint32_t node, struct hosts_child *child);
/* The same, and that one stays as well: what it has started holds images of the job. */
void hosts_add_launcher(struct hosts *hosts, uint32_t node, struct hosts_child *child);
/* A host that has joined, without waiting: its number, 0: none, or -1 with err: the gatherer has ended. */
int hosts_hear_joined(struct hosts *hosts, struct belay_error *err);
/* This process goes on in the background: nobody is to wait for the end of the relay's messages. */
void hosts_detach(const struct hosts *hosts);
/* Zeroed ones may be released. */
void hosts_release(struct hosts *hosts);

/* Their names for PLACEMENT_HOSTS_VARIABLE, to be freed; NULL with ENOMEM. */
char *hosts_words(const struct hosts *hosts);

#endif
