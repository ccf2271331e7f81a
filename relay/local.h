/*
 * local.h - one end of a Unix socket that carries messages of belay.proto, without blocking: a client of the
 * gatherer, or a connection of the host's relay to its agent. The messages are passed on, not read.
 */
#ifndef BELAY_RELAY_LOCAL_H
#define BELAY_RELAY_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOCAL_FDS 2u /* descriptors that come or go with a message at most: those of a job's streams */

struct local;

/* What has come; the descriptors are the caller's. */
struct local_message {
    const uint8_t *bytes; /* without the length before it; valid until the next call */
    size_t count;
    int fds[LOCAL_FDS];
    unsigned fd_count;
};

/* Over a connected socket, taken over also on failure. NULL with ENOMEM. */
struct local *local_create(int sock, uint32_t channel);
/* Accepts NULL. */
void local_destroy(struct local *local);

uint32_t local_channel(const struct local *local);
int local_fd(const struct local *local);
short local_events(const struct local *local);

/* Queue a message; the descriptors are duplicated. Returns 0 or -1 with errno. */
int local_put(struct local *local, const uint8_t *bytes, size_t count, const int *fds, unsigned fd_count);
/* Write what can be written. Returns 0, or -1 with errno: it is over. */
int local_flush(struct local *local);
/* The next message. Returns 1, 0 if there is none yet, or -1 with errno: it is over (ECONNRESET: orderly). */
int local_take(struct local *local, struct local_message *message);

#endif
