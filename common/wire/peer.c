#include "common/wire/peer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/wire/rundir.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

static int ask_kernel(int sock, struct ucred *peer)
{
    socklen_t bytes = sizeof *peer;
    return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, peer, &bytes);
}

static int connect_to(int sock, const struct sockaddr_un *name)
{
    int rc;
    do {
        rc = connect(sock, (const struct sockaddr *)name, sizeof *name);
    } while (rc < 0 && errno == EINTR);
    return rc;
}

static void tell_failure(int code, const char *rundir, const char *who, struct belay_error *err)
{
    if (code == ENOENT || code == ECONNREFUSED)
        belay_error_set(err, code, "no %s is running in %s", who, rundir);
    else
        belay_error_errno(err, "cannot reach the %s in %s", who, rundir);
}

int peer_connect(const char *rundir, const char *name, const char *who, struct belay_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int used = snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", rundir, name);
    if (used < 0 || (size_t)used >= sizeof address.sun_path)
        return belay_error_set(err, ENAMETOOLONG, "the run directory's path is too long: use BELAY_RUNDIR");
    if (rundir_check(rundir, err) < 0)
        return -1;
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return belay_error_errno(err, "cannot make a socket");
    int rc = connect_to(sock, &address);
    if (rc < 0)
        tell_failure(errno, rundir, who, err);
    else if (peer_check_server(sock, err) == 0)
        return sock;
    int code = rc < 0 ? errno : EPERM;
    close(sock);
    errno = code;
    return -1;
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

/* Of older kernels: as long as its end of the socket is open, its number is nobody else's. */
static int open_by_number(int sock, const struct ucred *peer)
{
    struct pollfd end = {.fd = sock, .events = POLLRDHUP};
    int pidfd = pidfd_open(peer->pid, 0);
    if (pidfd < 0 || poll(&end, 1, 0) == 0)
        return pidfd;
    close(pidfd);
    errno = ESRCH;
    return -1;
}

int peer_open(int sock, const struct ucred *peer)
{
    int pidfd;
    socklen_t bytes = sizeof pidfd;
    if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &bytes) == 0)
        return pidfd;
    return errno == ENOPROTOOPT ? open_by_number(sock, peer) : -1;
}

void peer_kill_server(int sock)
{
    struct ucred peer;
    int pidfd = ask_kernel(sock, &peer) == 0 && peer.pid > 0 ? peer_open(sock, &peer) : -1;
    if (pidfd < 0)
        return;
    pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
    close(pidfd);
}
