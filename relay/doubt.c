#include "relay/doubt.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "relay/roles.h"

bool doubt_is_proven(struct doubt *doubt, const struct doubt_signs *signs)
{
    bool is_there = signs->now_ms - signs->heard_ms <= ROLE_UNANSWERED_MS ||
                    signs->ack_age_ms <= ROLE_UNANSWERED_MS || signs->unacked == 0;
    if (is_there) {
        doubt->since_ms = 0;
        return false;
    }
    if (doubt->since_ms == 0)
        doubt->since_ms = signs->now_ms;
    return signs->now_ms - doubt->since_ms >= ROLE_BEAT_MS;
}

bool doubt_look(struct doubt *doubt, int sock, int64_t now_ms, int64_t heard_ms)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    if (now_ms - heard_ms <= ROLE_UNANSWERED_MS) { /* the usual case, without a system call */
        doubt->since_ms = 0;
        return false;
    }
    if (getsockopt(sock, IPPROTO_TCP, TCP_INFO, &info, &bytes) < 0)
        return false;
    return doubt_is_proven(
        doubt, &(struct doubt_signs){now_ms, heard_ms, info.tcpi_last_ack_recv, info.tcpi_unacked});
}
