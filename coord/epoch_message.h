/*
 * epoch_message.h - the data of epoch.h as messages of common/wire/belay.proto, and back. Messages that come
 * in are checked; messages that go out borrow their content.
 */
#ifndef BELAY_COORD_EPOCH_MESSAGE_H
#define BELAY_COORD_EPOCH_MESSAGE_H

#include "common/wire/belay.pb-c.h"
#include "coord/epoch.h"

/* The message borrows all of start, and the job's name. A member of several is told less: epoch_telling.h. */
Belay__Wire__EpochRecord epoch_message_of_start(const struct epoch_start *start, const char *job);
/* free() it. NULL with errno: EBADMSG (its numbers do not fit together), ENOMEM. */
struct epoch_start *epoch_message_to_start(const Belay__Wire__EpochRecord *record);

/* The message borrows what is held. */
Belay__Wire__NodeState epoch_message_of_state(const struct epoch_state *state);
/* The state borrows what is held from the message. Returns 0, or -1 with errno EBADMSG. */
int epoch_message_to_state(const Belay__Wire__NodeState *message, struct epoch_state *state);

#endif
