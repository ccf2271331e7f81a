/*
 * keeper.h - the keeper: a tiny process that holds descriptors by name for the agent.
 *
 * Datagrams (SOCK_SEQPACKET on rundir/keeper.sock), each a text, at most one descriptor with it:
 *     PUT NAME (+fd) -> OK      an older descriptor of that name is replaced in one step
 *     DROP NAME      -> OK      also if there was none
 *     RETAIN MS      -> OK      how long things are held when no agent is connected
 *     LIST           -> ITEM NAME (+fd) ..., END
 *     anything else  -> ERROR
 * What is named JOB/fence is a page that says until when the ranks of the job may run here
 * (common/wire/fence.h); descriptors named JOB/process/RANK are of their processes (pidfd). When the time has
 * come, the keeper kills these, whether an agent is connected or not. (a descriptor did not arrive: the
 * keeper has reached its limit of descriptors) -> FULL The functions here block. The keeper answers at once;
 * after 5 s without an answer it counts as dead.
 */
#ifndef BELAY_NODE_AGENT_STORE_KEEPER_H
#define BELAY_NODE_AGENT_STORE_KEEPER_H

#include <stdint.h>
#include <sys/types.h>

#include "common/util/error.h"

#define KEEPER_SOCKET "keeper.sock"
#define KEEPER_LISTEN_FD 3
#define KEEPER_NAME_BYTES 160
#define KEEPER_FENCE "/fence" /* behind the name of a job */
#define KEEPER_PROCESS "/process/"
#define KEEPER_MESSAGE_BYTES (KEEPER_NAME_BYTES + 16)

struct keeper;

/*
 * Connect to the keeper of a run directory; if there is none, start `program`. Only the agent that has
 * the run directory's lock may call this. NULL with err.
 */
struct keeper *keeper_open(const char *rundir, const char *program, struct belay_error *err);

/* Disconnect; a keeper that holds nothing then leaves, and this waits until it has. Accepts NULL. */
void keeper_close(struct keeper *keeper);

/* Leave what is held to the next agent: nothing is put or dropped from now on. Accepts NULL. */
void keeper_detach(struct keeper *keeper);

/*
 * Have the keeper hold a descriptor. The caller keeps its own, and must keep it open until keeper_drop(): if
 * the keeper was killed, another one is started and given everything again. Returns 0 or -1 with err.
 */
int keeper_put(struct keeper *keeper, const char *name, int fd, struct belay_error *err);

/* Returns 0 (also if the name was unknown), or -1 with err. */
int keeper_drop(struct keeper *keeper, const char *name, struct belay_error *err);

/* How long the keeper holds things when no agent is connected. Returns 0 or -1 with err. */
int keeper_retain(struct keeper *keeper, uint64_t retain_ms, struct belay_error *err);

/* Call each() with every name and a new descriptor, which each() then owns. Returns 0 or -1 with err. */
int keeper_list(struct keeper *keeper, void (*each)(void *context, const char *name, int fd), void *context,
                struct belay_error *err);

/* One datagram, fd -1: without a descriptor. Returns 0 or -1 with errno. */
int keeper_send(int sock, const char *text, int fd);

#define KEEPER_FD_LOST (-2) /* a descriptor came, and this process may open no more (ulimit -n) */

/* One datagram into text[KEEPER_MESSAGE_BYTES], *fd -1: none came. Returns its length, 0: end, or -1. */
ssize_t keeper_receive(int sock, char *text, int *fd);

#endif
