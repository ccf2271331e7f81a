#include "common/wire/peer.h"

#include <errno.h>
#include <unistd.h>

static int ask_kernel(int sock, struct ucred *peer)
{
    socklen_t bytes = sizeof *peer;
    return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, peer, &bytes);
}

int peer_check_server(int sock, struct belay_error *err)
{
    struct ucred peer;
    if (ask_kernel(sock, &peer) < 0)
        return belay_error_errno(err, "cannot tell who listens in the run directory");
    if (peer.uid == geteuid())
        return 0;
    return belay_error_set(
        err, EPERM,
        "what listens in the run directory belongs to another user (%u): nothing was told to "
        "it; set BELAY_RUNDIR to another directory",
        (unsigned)peer.uid);
}

int peer_check_client(int sock, struct ucred *peer)
{
    if (ask_kernel(sock, peer) < 0)
        return -1;
    if (peer->uid == geteuid() || peer->uid == 0)
        return 0;
    errno = EPERM;
    return -1;
}
