/*
 * link.h - one end of a link between two agents: an ordered, reliable stream of messages that lasts for one
 * epoch.
 *
 * Messages come whole, once, in the order in which the other end sent them, or the link is lost. A link that
 * is lost stays so; the next epoch has other links. The identity of the other end was checked before the
 * link was made; the content of its messages was not. All functions are called from the agent's loop, and so
 * are the callbacks, never from within a function of this header.
 */
#ifndef BELAY_NODE_AGENT_LINK_LINK_H
#define BELAY_NODE_AGENT_LINK_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/peer_message.h"

struct link_ops {
    /* One message. The bytes are the link's, and valid during the call only. */
    void (*received)(void *context, const uint8_t *bytes, size_t count);
    /* The link is lost. Called once; nothing is received afterwards. */
    void (*lost)(void *context, const char *reason);
};

/* The functions of one kind of link. */
struct link;
struct link_class {
    /* ops have been set. */
    void (*open)(struct link *link);
    /* Takes over bytes (of malloc). What cannot be sent loses the link. */
    void (*send)(struct link *link, uint8_t *bytes, size_t count);
    /* Frees, now or later. No callbacks any more. What was sent before may still arrive. */
    void (*destroy)(struct link *link);
};

/* First member of each implementation's struct. */
struct link {
    const struct link_class *class;
    const struct link_ops *ops; /* NULL: nobody listens yet; messages wait */
    void *context;
};

/* Listen. Messages that came before are received from now on. */
void link_open(struct link *link, const struct link_ops *ops, void *context);

/*
 * Send one message; bytes (of malloc) are taken over. Does not block. If the message cannot be sent, lost()
 * is called later. bytes NULL (a message for which there was no memory) loses the link, too: the other end
 * would miss the message.
 */
void link_send(struct link *link, uint8_t *bytes, size_t count);

/* The same for a message of a line, which is encoded first. */
void link_say(struct link *link, const struct peer_message *message);

/* The other end hears lost(). Accepts NULL. */
void link_destroy(struct link *link);

#endif
