/*
 * key.h - the key of a session as it comes: on standard input, never in an argument or in the environment.
 */
#ifndef BELAY_RELAY_KEY_H
#define BELAY_RELAY_KEY_H

#include "common/util/error.h"
#include "relay/session.h"

/* From standard input. Returns 0 or -1 with err. The caller wipes it. */
int key_read(struct session_key *key, struct belay_error *err);

#endif
