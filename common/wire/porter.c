#include "common/wire/porter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/wire/message.h"
#include "common/wire/peer.h"
#include "common/wire/rundir.h"

int porter_connect(const char *rundir, struct belay_error *err)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int used = snprintf(name.sun_path, sizeof name.sun_path, "%s/" PORTER_SOCKET, rundir);
    if (used < 0 || (size_t)used >= sizeof name.sun_path)
        return belay_error_set(err, ENAMETOOLONG, "the run directory's path is too long: use BELAY_RUNDIR");
    if (rundir_check(rundir, err) < 0)
        return -1;
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return belay_error_errno(err, "cannot make a socket");
    int rc;
    do {
        rc = connect(sock, (struct sockaddr *)&name, sizeof name);
    } while (rc < 0 && errno == EINTR);
    if (rc < 0)
        belay_error_errno(err, "no porter is running in %s", rundir);
    else if (peer_check_server(sock, err) == 0)
        return sock;
    close(sock);
    return -1;
}

int porter_ask(int sock, Belay__Wire__PorterRequest *request, const int *fds, unsigned fd_count,
               struct belay_error *err)
{
    uint8_t *bytes = NULL;
    request->version = PORTER_VERSION;
    if (message_send(sock, &request->base, fds, fd_count, err) < 0)
        return -1;
    ssize_t length = message_receive(sock, &bytes, NULL, NULL, err);
    if (length < 0)
        return -1;
    Belay__Wire__PorterReply *reply =
        length > 0 ? belay__wire__porter_reply__unpack(NULL, (size_t)length, bytes) : NULL;
    free(bytes);
    if (!reply)
        return belay_error_set(err, ECONNRESET, "the porter of this node has gone");
    int status = reply->version != PORTER_VERSION
                     ? belay_error_set(err, EPROTO, "the porter of this node has another version of Belay")
                 : reply->error[0] ? belay_error_set(err, ECANCELED, "%s", reply->error)
                                   : reply->status;
    belay__wire__porter_reply__free_unpacked(reply, NULL);
    return status;
}
