/*
 * translate.h - the coordinator's events and orders (coord/coord.h) as messages between agents, and back.
 */
#ifndef BELAY_NODE_AGENT_HOST_TRANSLATE_H
#define BELAY_NODE_AGENT_HOST_TRANSLATE_H

#include "common/wire/peer_message.h"
#include "coord/coord.h"

/* All four borrow the arrays and texts of what they are given; who speaks is left to the caller. */

/* A member's word. Type NONE: the coordinator has no use for it. */
struct coord_event translate_word(const struct peer_message *message);
/* A word that a branch says upwards. */
struct peer_message translate_said(const struct coord_event *word);
/* An order to members and branches. */
struct peer_message translate_order(const struct coord_action *action);
/* Its type is NONE if the message is no order. */
struct coord_action translate_ordered(const struct peer_message *message);

#endif
