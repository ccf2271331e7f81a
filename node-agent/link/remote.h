/*
 * remote.h - links to agents of other nodes, over the fabric.
 *
 * One `struct remotes` is this agent's end of all its links. A link that one side creates by
 * remotes_connect() comes to the other one as `came`, or is the same link if both do. It may be used at once:
 * messages wait until both sides have shown that they have the job's key. It is lost when the other agent is
 * (fabric.h), when the other side destroys its end, when an epoch begins, and when a message cannot be sent.
 * If the fabric is patient, a link that has not joined within the stall time is not lost: what waits in it
 * goes on waiting.
 *
 * Beside the messages of a link go words and data between the two agents. Each is of a subject, and is for
 * the subject's user (remotes_hear()). They need the link, whoever owns it, and its agent is named by its
 * node.
 */
#ifndef BELAY_NODE_AGENT_LINK_REMOTE_H
#define BELAY_NODE_AGENT_LINK_REMOTE_H

#include <uv.h>

#include "common/util/error.h"
#include "node-agent/fabric/fabric.h"
#include "node-agent/link/link.h"
#include "node-agent/link/transfers.h"

#define REMOTE_MESSAGE_BYTES (FABRIC_MESSAGE_BYTES - 1) /* of a message or word at most */
#define REMOTE_TAG_BYTES (FABRIC_TAG_BYTES - 1)

struct remotes;

/* What a word, or data, are about. */
enum remotes_subject {
    REMOTES_COPIES = 0, /* of a line in progress */
    REMOTES_IMAGES,     /* of the line that an epoch goes on from */
    REMOTES_PARITY,     /* of a line in progress */
    REMOTES_SHARES,     /* of images that are made again */
    REMOTES_CHECKS,     /* of what parity of the committed line follows from */
    REMOTES_REFILLS,    /* of the line that an epoch goes on from, for nodes that lack it */
    REMOTES_SUBJECTS,
};

struct remotes_ops {
    /* A word of the agent of this node; the bytes are valid during the call. */
    void (*word)(void *context, uint32_t node, const uint8_t *bytes, size_t count);
    /* It would push `bytes` at most. Returns 0 and fills *intake, or an errno: they are refused. */
    int (*offered)(void *context, uint32_t node, const void *tag, size_t tag_bytes, uint64_t bytes,
                   struct transfer_intake *intake);
    /* The link to the agent of this node is lost, with all words on their way. */
    void (*lost)(void *context, uint32_t node);
};

/*
 * Another agent has made a link to this one, which is the callee's from now on, to be opened and destroyed.
 * Only if the fabric's configuration is open, or after the former link with that agent.
 */
typedef void remotes_came_f(void *context, const struct fabric_identity *identity, struct link *link);

enum remote_news {
    REMOTE_NEWS_NONE = 0,
    REMOTE_LATE,   /* it has not joined for the stall time (only of a patient fabric) */
    REMOTE_JOINED, /* it was late, and has joined */
    REMOTE_SILENT, /* nothing is heard of it any more: the link is lost */
};

/* What becomes of a link that remotes_connect() has made. May not destroy it. */
typedef void remotes_news_f(void *context, const struct fabric_identity *identity, enum remote_news news);

/* NULL with err as fabric_create(). */
struct remotes *remotes_create(uv_loop_t *loop, const struct fabric_config *config, remotes_came_f *came,
                               void *context, struct belay_error *err);
/*
 * Not from a callback. All links have been destroyed by their owners; what is still on its way is dropped,
 * and the other agents hear of it after the stall time. NULL may be destroyed.
 */
void remotes_destroy(struct remotes *remotes);

/* Where other agents find this one. */
void remotes_address(const struct remotes *remotes, struct fabric_address *address);

/* All links are lost; later ones are of this epoch, with those who have its secret. */
void remotes_enter_epoch(struct remotes *remotes, const struct fabric_epoch *epoch);

/* Who may connect, as fabric_admit_hosts(). */
void remotes_admit_hosts(struct remotes *remotes, const struct fabric_address *hosts, size_t count);

/* A link to this agent. NULL with errno as fabric_connect(). */
struct link *remotes_connect(struct remotes *remotes, const struct fabric_identity *identity,
                             const struct fabric_address *address);

/* The process at the other end is gone, as others have seen: all links of the epoch to this node are lost. */
void remotes_lose(struct remotes *remotes, uint32_t node);

/* Who hears news of the links that were made; NULL: nobody. The context is that of remotes_create(). */
void remotes_hear_news(struct remotes *remotes, remotes_news_f *news);
/* Who hears words and offers of a subject; NULL: nobody, and offers are refused. ops are borrowed. All users
 * hear of lost links. */
void remotes_hear(struct remotes *remotes, enum remotes_subject subject, const struct remotes_ops *ops,
                  void *context);
/* Send a word to the agent of a node; it is copied. Returns 0 or -1 with errno (ENOTCONN: there is no link).
 */
int remotes_say(struct remotes *remotes, enum remotes_subject subject, uint32_t node, const void *bytes,
                size_t count);
/* Push data to the agent of a node, as transfers_push(). A tag has REMOTE_TAG_BYTES at most. */
int remotes_push(struct remotes *remotes, enum remotes_subject subject, uint32_t node, const void *tag,
                 size_t tag_bytes, uint64_t bytes, fabric_fill_f *fill, transfer_done_f *done, void *context);

#endif
