/*
 * doubt.h - whether a host is there whose kernel does not answer.
 *
 * What a process says may be late, since the process or its machine has much to do. The kernel acknowledges
 * what has come all the same, without a process. So a host that acknowledges nothing has lost its power or
 * its network, and that is known in half the time that a silent process is given (roles.h).
 */
#ifndef BELAY_RELAY_DOUBT_H
#define BELAY_RELAY_DOUBT_H

#include <stdbool.h>
#include <stdint.h>

struct doubt {
    int64_t since_ms; /* when there was the first one; 0: none */
};

/* Times in ms; heard and the present by CLOCK_MONOTONIC. */
struct doubt_signs {
    int64_t now_ms;
    int64_t heard_ms;    /* when the last byte came */
    uint32_t ack_age_ms; /* how long ago the last acknowledgement came */
    uint32_t unacked;    /* segments on their way */
};

/*
 * Is the host lost by these signs? Only if they stay for a while: this process itself may have stood still,
 * and what came meanwhile is read later than its age is.
 */
bool doubt_is_proven(struct doubt *doubt, const struct doubt_signs *signs);

/* The same by what the kernel tells of the TCP socket. False if it tells nothing. */
bool doubt_look(struct doubt *doubt, int sock, int64_t now_ms, int64_t heard_ms);

#endif
