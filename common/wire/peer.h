/*
 * peer.h - who is at the other end of a connected Unix socket, as the kernel knows it.
 */
#ifndef BELAY_COMMON_WIRE_PEER_H
#define BELAY_COMMON_WIRE_PEER_H

#include <stdbool.h>
#include <sys/socket.h>

#include "common/util/error.h"

/*
 * For a client: connect to the socket of this name in the run directory, which has to be this user's alone,
 * as has the process that listens. Returns a close-on-exec descriptor (the caller closes it), or -1 with
 * errno and err, which calls that process `who`: ENOENT or ECONNREFUSED if it does not run, EPERM if it is
 * another user's.
 */
int peer_connect(const char *rundir, const char *name, const char *who, struct belay_error *err);

/*
 * For a client, before it says anything: is the process that listens this user's? Another one would learn
 * what a request holds (the environment of a launch), and choose what its answer makes us do. Returns 0, or
 * -1 with err (EPERM).
 */
int peer_check_server(int sock, struct belay_error *err);

/*
 * For a server: may this client be served? This user's own processes and root's may. Returns 0 and fills
 * peer, or -1 with errno (EPERM).
 */
int peer_check_client(int sock, struct ucred *peer);

/*
 * A pidfd of the client that peer_check_client() has named: of that process, and not of one that has its
 * number by now. The caller owns it. -1 with errno (ESRCH: it is gone; EINVAL: it is in another pid
 * namespace).
 */
int peer_open(int sock, const struct ucred *peer);

/*
 * For a client: kill the process that listens, so that it does nothing any more. No-op if it has gone.
 */
void peer_kill_server(int sock);

#endif
