#include "common/wire/porter.h"

#include <errno.h>
#include <stdlib.h>

#include "common/wire/message.h"
#include "common/wire/peer.h"

int porter_connect(const char *rundir, struct belay_error *err)
{
    return peer_connect(rundir, PORTER_SOCKET, "porter", err);
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
