/*
 * What a stranger says to the port at which hosts join: the gatherer's side of a relay's session. The first
 * byte tells in which pieces it comes.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "relay/session.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const struct session_key key = {.key = {1}, .job = {2}};
    struct belay_error err;
    struct record record;
    int ends[2], rc = 0;
    if (count == 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0)
        return 0;
    struct session *session = session_await(ends[0], &key, &err);
    must(session);
    for (size_t at = 1, piece = 1 + bytes[0]; at < count && rc == 0; at += piece) {
        piece = piece < count - at ? piece : count - at;
        if (write(ends[1], bytes + at, piece) < 0)
            break;
        rc = session_move(session, &err);
        must(!session_is_open(session));
        must(session_waiting(session) <= 4096 && session_take(session, &record, &err) <= 0);
    }
    session_destroy(session);
    close(ends[1]);
    return 0;
}
