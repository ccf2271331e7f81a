/*
 * guests.h - one host that has joined, as the gatherer has it: its session, the socket in the place of its
 * agent's, the clients there, and the mirror of its ranks' streams.
 */
#ifndef BELAY_RELAY_GUESTS_H
#define BELAY_RELAY_GUESTS_H

#include <poll.h>
#include <stdint.h>

#include "common/util/error.h"
#include "relay/session.h"

#define GUEST_POLLS_MAX 68u /* descriptors that a guest waits for, at most */

struct guest;

/* An open session whose host has said its name; taken over, also on failure. NULL with err. */
struct guest *guest_create(struct session *session, const char *rundir, const char *name,
                           struct belay_error *err);
/* Its clients are told by the end of their connections; the socket is gone. Accepts NULL. */
void guest_destroy(struct guest *guest);

uint32_t guest_node(const struct guest *guest);
const char *guest_name(const struct guest *guest);

/* Do what can be done. *is_waiting: output waits to be taken. Returns 0, or -1 with err: the host is lost. */
int guest_move(struct guest *guest, bool *is_waiting, struct belay_error *err);
/* What it waits for; returns how many. */
nfds_t guest_polls(const struct guest *guest, struct pollfd fds[GUEST_POLLS_MAX]);

#endif
