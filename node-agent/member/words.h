/*
 * words.h - the messages of this member to the host. After the end of the epoch none is sent.
 */
#ifndef BELAY_NODE_AGENT_MEMBER_WORDS_H
#define BELAY_NODE_AGENT_MEMBER_WORDS_H

#include <stdint.h>

#include "common/wire/peer_message.h"

struct line_member;

/* A message that concerns no line; reason may be NULL. */
void say(struct line_member *member, enum peer_kind kind, const char *reason);
/* A message about a line. */
void say_of_line(struct line_member *member, enum peer_kind kind, uint64_t line, const char *reason);
/* The same with measures. */
void say_measured(struct line_member *member, enum peer_kind kind, uint64_t line, const char *reason,
                  const struct peer_measures *measures);
/* The line in progress cannot go on. */
void say_aborted(struct line_member *member, const char *reason);
/* The same, since what a node keeps of it is another image than it was given: no verdict may choose the line.
 */
void say_refuted(struct line_member *member, const char *reason);
/* A text for the user. */
void say_notice(struct line_member *member, const char *text);
/* A message with content of its own: sender and epoch are filled in. */
void say_message(struct line_member *member, struct peer_message message);

#endif
