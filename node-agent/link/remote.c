#include "node-agent/link/remote.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* That may wait in a link, in each direction: for a user who listens, or for the other side. */
#define WAITING_MAX_BYTES (64u << 20)

/*
 * The last byte of each message tells whose it is, the last one of a tag its subject. An empty message is the
 * end of the link.
 */
enum channel { CHANNEL_LINK = 1, CHANNEL_WORD }; /* CHANNEL_WORD + subject */

struct parcel {
    struct parcel *next;
    uint8_t *bytes;
    size_t count;
};

struct parcels {
    struct parcel *first, *last;
    size_t bytes;
};

struct remote {
    struct link link;
    struct remotes *remotes;
    struct remote *next;
    struct fabric_identity identity;
    struct fabric_peer *peer; /* NULL: the fabric knows nothing of it any more */
    uint64_t epoch;
    struct parcels in;  /* came before the link was opened */
    struct parcels out; /* to be sent */
    bool is_joined;
    bool is_late;
    bool is_leaving; /* nothing more is sent but the end, an empty message */
    bool is_lost;
    bool has_told_loss;
    bool has_told_listener; /* of the loss */
    bool is_destroyed;
    char reason[96];
};

/* Of words and offers. */
struct hearer {
    const struct remotes_ops *ops; /* NULL: nobody */
    void *context;
};

struct remotes {
    struct fabric *fabric;
    struct remote *first;
    uv_idle_t *turn; /* runs while a link has something to tell or is to be freed; frees itself when closed */
    remotes_came_f *came;
    remotes_news_f *news; /* NULL: nobody hears them */
    void *context;        /* of both */
    uint64_t epoch;       /* that was entered last */
    struct transfers transfers;
    struct hearer hearers[REMOTES_SUBJECTS];
};

static void start(struct link *link);
static void hand_over(struct link *link, uint8_t *bytes, size_t count);
static void destroy(struct link *link);
static const struct link_class remote_class = {.open = start, .send = hand_over, .destroy = destroy};

static struct remote *remote_create(struct remotes *remotes, const struct fabric_identity *identity);
static void remote_free(struct remote *remote);
static struct remote *find(const struct remotes *remotes, uint32_t node);
static void put_message(struct remote *remote, uint8_t *bytes, size_t count, unsigned channel);
static void take_message(struct remote *remote, const uint8_t *bytes, size_t count);
static void take_word(const struct remote *remote, unsigned subject, const uint8_t *bytes, size_t count);
static void flush(struct remote *remote);
static void leave(struct remote *remote);
static void lose(struct remote *remote, const char *reason);
static void tell_news(const struct remote *remote, enum remote_news news);
static void forget(struct remote *remote);
static bool parcels_put(struct parcels *parcels, uint8_t *bytes, size_t count);
static struct parcel *parcels_take(struct parcels *parcels);
static void parcels_drop(struct parcels *parcels);
static void on_turn(uv_idle_t *turn);
static void tell_listener(struct remote *remote);
static bool tell(struct remote *remote);
static void on_turn_closed(uv_handle_t *handle);

static void on_joined(void *context, struct fabric_peer *peer);
static void on_received(void *context, struct fabric_peer *peer, const uint8_t *bytes, size_t count);
static void on_writable(void *context, struct fabric_peer *peer);
static void on_late(void *context, struct fabric_peer *peer);
static void on_broken(void *context, struct fabric_peer *peer);
static void on_lost(void *context, struct fabric_peer *peer, const char *reason);
static void on_offered(void *context, struct fabric_peer *peer, struct fabric_pull *pull, const void *tag,
                       size_t tag_bytes, uint64_t bytes);
static void on_pulled(void *context, struct fabric_pull *pull, int error);
static void on_pushed(void *context, struct fabric_push *push, int error);
static const struct fabric_ops fabric_ops = {
    .joined = on_joined,
    .received = on_received,
    .writable = on_writable,
    .late = on_late,
    .broken = on_broken,
    .lost = on_lost,
    .offered = on_offered,
    .pulled = on_pulled,
    .pushed = on_pushed,
};

struct remotes *remotes_create(uv_loop_t *loop, const struct fabric_config *config, remotes_came_f *came,
                               void *context, struct belay_error *err)
{
    struct remotes *remotes = calloc(1, sizeof *remotes);
    uv_idle_t *turn = calloc(1, sizeof *turn);
    if (!remotes || !turn) {
        belay_error_set(err, ENOMEM, "no memory for links to other nodes");
        goto fail;
    }
    remotes->came = came;
    remotes->context = context;
    remotes->fabric = fabric_create(loop, config, &fabric_ops, remotes, err);
    if (!remotes->fabric)
        goto fail;
    uv_idle_init(loop, turn); /* cannot fail */
    turn->data = remotes;
    remotes->turn = turn;
    return remotes;
fail:
    free(remotes);
    free(turn);
    return NULL;
}

void remotes_destroy(struct remotes *remotes)
{
    if (!remotes)
        return;
    fabric_destroy(remotes->fabric);
    transfers_lose(&remotes->transfers, NULL);
    transfers_tell(&remotes->transfers);
    while (remotes->first) {
        assert(remotes->first->is_destroyed);
        remote_free(remotes->first);
    }
    uv_close((uv_handle_t *)remotes->turn, on_turn_closed);
    free(remotes);
}

void remotes_address(const struct remotes *remotes, struct fabric_address *address)
{
    fabric_address(remotes->fabric, address);
}

void remotes_enter_epoch(struct remotes *remotes, const struct fabric_epoch *epoch)
{
    remotes->epoch = epoch->number;
    fabric_enter_epoch(remotes->fabric, epoch);
}

void remotes_admit_hosts(struct remotes *remotes, const struct fabric_address *hosts, size_t count)
{
    fabric_admit_hosts(remotes->fabric, hosts, count);
}

/* A link that has been destroyed and is only waited for stands in nobody's way. */
struct link *remotes_connect(struct remotes *remotes, const struct fabric_identity *identity,
                             const struct fabric_address *address)
{
    struct remote *remote = remotes->first;
    while (remote && (!remote->peer || !(remote->is_destroyed || remote->is_lost) ||
                      remote->identity.role != identity->role || remote->identity.node != identity->node))
        remote = remote->next;
    if (remote)
        forget(remote);
    remote = remote_create(remotes, identity);
    if (!remote)
        return NULL;
    remote->peer = fabric_connect(remotes->fabric, identity, address, remote);
    if (remote->peer)
        return &remote->link;
    int code = errno;
    remote_free(remote);
    errno = code;
    return NULL;
}

/* Something may have come before. */
static void start(struct link *link)
{
    uv_idle_start(((struct remote *)link)->remotes->turn, on_turn);
}

static void hand_over(struct link *link, uint8_t *bytes, size_t count)
{
    struct remote *remote = (struct remote *)link;
    if (!bytes || count == 0 || count > REMOTE_MESSAGE_BYTES || remote->is_leaving || remote->is_lost) {
        free(bytes);
        lose(remote, "a message could not be sent");
    } else {
        put_message(remote, bytes, count, CHANNEL_LINK);
    }
}

/* Takes the bytes over. */
static void put_message(struct remote *remote, uint8_t *bytes, size_t count, unsigned channel)
{
    uint8_t *longer = realloc(bytes, count + 1);
    if (!longer) {
        free(bytes);
        lose(remote, "there is no memory for a message");
        return;
    }
    longer[count] = (uint8_t)channel;
    if (!parcels_put(&remote->out, longer, count + 1))
        lose(remote, "the other end does not take what is sent");
    else if (remote->is_joined)
        flush(remote);
}

void remotes_hear_news(struct remotes *remotes, remotes_news_f *news)
{
    remotes->news = news;
}

void remotes_hear(struct remotes *remotes, enum remotes_subject subject, const struct remotes_ops *listener,
                  void *context)
{
    remotes->hearers[subject] = (struct hearer){listener, context};
}

int remotes_say(struct remotes *remotes, enum remotes_subject subject, uint32_t node, const void *bytes,
                size_t count)
{
    struct remote *remote = find(remotes, node);
    uint8_t *copy = remote && count > 0 && count <= REMOTE_MESSAGE_BYTES ? malloc(count) : NULL;
    if (!copy) {
        errno = !remote ? ENOTCONN : ENOMEM;
        return -1;
    }
    memcpy(copy, bytes, count);
    put_message(remote, copy, count, CHANNEL_WORD + subject);
    return 0;
}

int remotes_push(struct remotes *remotes, enum remotes_subject subject, uint32_t node, const void *tag,
                 size_t tag_bytes, uint64_t bytes, fabric_fill_f *fill, transfer_done_f *done, void *context)
{
    const struct remote *remote = find(remotes, node);
    uint8_t longer[FABRIC_TAG_BYTES];
    if (!remote || tag_bytes > REMOTE_TAG_BYTES) {
        errno = !remote ? ENOTCONN : EINVAL;
        return -1;
    }
    memcpy(longer, tag, tag_bytes);
    longer[tag_bytes] = (uint8_t)subject;
    return transfers_push(&remotes->transfers, remote->peer, longer, tag_bytes + 1, bytes, fill, done,
                          context);
}

/* The link to the agent of a node, NULL: there is none that anything can be sent over. */
static struct remote *find(const struct remotes *remotes, uint32_t node)
{
    struct remote *remote = remotes->first;
    while (remote && (remote->identity.role != FABRIC_ROLE_MEMBER || remote->identity.node != node ||
                      !remote->peer || remote->is_leaving || remote->is_lost))
        remote = remote->next;
    return remote;
}

static void destroy(struct link *link)
{
    struct remote *remote = (struct remote *)link;
    remote->is_destroyed = true;
    parcels_drop(&remote->in);
    leave(remote);
    uv_idle_start(remote->remotes->turn, on_turn);
}

static struct remote *remote_create(struct remotes *remotes, const struct fabric_identity *identity)
{
    struct remote *remote = calloc(1, sizeof *remote);
    if (!remote)
        return NULL;
    remote->link.class = &remote_class;
    remote->remotes = remotes;
    remote->identity = *identity;
    remote->epoch = remotes->epoch;
    remote->next = remotes->first;
    remotes->first = remote;
    return remote;
}

static void remote_free(struct remote *remote)
{
    struct remote **link = &remote->remotes->first;
    while (*link != remote)
        link = &(*link)->next;
    *link = remote->next;
    parcels_drop(&remote->in);
    parcels_drop(&remote->out);
    free(remote);
}

/* As much as the fabric takes; the rest when it says that it is writable. */
static void flush(struct remote *remote)
{
    for (struct parcel *parcel; remote->peer && (parcel = remote->out.first);) {
        if (fabric_send(remote->peer, parcel->bytes, parcel->count) < 0) {
            if (errno != EAGAIN && errno != ENOTCONN) /* of a peer that is not connected, lost() tells */
                lose(remote, "a message could not be sent");
            return;
        }
        free(parcels_take(&remote->out));
    }
}

/*
 * Say so to the other side, after all that was to be sent. The peer is kept until that side has forgotten us
 * and is silent.
 */
static void leave(struct remote *remote)
{
    if (remote->is_leaving || !remote->peer)
        return;
    remote->is_leaving = true;
    if (!remote->is_joined || !parcels_put(&remote->out, NULL, 0))
        forget(remote);
    else
        flush(remote);
}

/* Told from the loop. */
static void lose(struct remote *remote, const char *reason)
{
    if (remote->is_lost)
        return;
    remote->is_lost = true;
    snprintf(remote->reason, sizeof remote->reason, "%s", reason);
    leave(remote);
    uv_idle_start(remote->remotes->turn, on_turn);
}

/* Nobody is told of the news: who calls this has brought it. */
void remotes_lose(struct remotes *remotes, uint32_t node)
{
    for (struct remote *remote = remotes->first; remote; remote = remote->next) {
        if (remote->identity.node != node || remote->epoch != remotes->epoch || !remote->peer)
            continue;
        lose(remote, "its agent is gone");
        forget(remote);
    }
}

/* Links of a former epoch, and those that their owners have given up, are no news. */
static void tell_news(const struct remote *remote, enum remote_news news)
{
    const struct remotes *remotes = remote->remotes;
    bool is_of_now = remote->epoch == remotes->epoch && !remote->is_destroyed && !remote->is_lost;
    if (remotes->news && is_of_now)
        remotes->news(remotes->context, &remote->identity, news);
}

static void forget(struct remote *remote)
{
    if (remote->peer) {
        transfers_lose(&remote->remotes->transfers, remote->peer);
        fabric_forget(remote->peer);
    }
    remote->peer = NULL;
    uv_idle_start(remote->remotes->turn, on_turn);
}

/* False: there is too much already, or no memory. The bytes are taken over in any case. */
static bool parcels_put(struct parcels *parcels, uint8_t *bytes, size_t count)
{
    struct parcel *parcel = parcels->bytes + count <= WAITING_MAX_BYTES ? calloc(1, sizeof *parcel) : NULL;
    if (!parcel) {
        free(bytes);
        return false;
    }
    parcel->bytes = bytes;
    parcel->count = count;
    if (parcels->last)
        parcels->last->next = parcel;
    else
        parcels->first = parcel;
    parcels->last = parcel;
    parcels->bytes += count;
    return true;
}

/* The first, without its bytes, which are freed. */
static struct parcel *parcels_take(struct parcels *parcels)
{
    struct parcel *parcel = parcels->first;
    parcels->first = parcel->next;
    if (!parcel->next)
        parcels->last = NULL;
    parcels->bytes -= parcel->count;
    free(parcel->bytes);
    return parcel;
}

static void parcels_drop(struct parcels *parcels)
{
    while (parcels->first)
        free(parcels_take(parcels));
}

/* One thing of each link in each round: a callback may destroy any of them, but none is freed within it. */
static void on_turn(uv_idle_t *turn)
{
    struct remotes *remotes = turn->data;
    bool has_more = false;
    transfers_tell(&remotes->transfers);
    for (struct remote *remote = remotes->first; remote; remote = remote->next) {
        tell_listener(remote);
        has_more |= tell(remote);
    }
    for (struct remote *remote = remotes->first, *next; remote; remote = next) {
        next = remote->next;
        if (remote->is_destroyed && !remote->peer)
            remote_free(remote);
    }
    if (!has_more)
        uv_idle_stop(turn);
}

/* Of words and data. */
static void tell_listener(struct remote *remote)
{
    const struct remotes *remotes = remote->remotes;
    if (!remote->is_lost || remote->is_destroyed || remote->has_told_listener)
        return;
    remote->has_told_listener = true;
    for (unsigned subject = 0; subject < REMOTES_SUBJECTS; subject++)
        if (remotes->hearers[subject].ops)
            remotes->hearers[subject].ops->lost(remotes->hearers[subject].context, remote->identity.node);
}

/* True if there may be more. */
static bool tell(struct remote *remote)
{
    struct parcel *parcel = remote->in.first;
    if (!remote->link.ops || remote->is_destroyed)
        return false;
    if (!parcel && (!remote->is_lost || remote->has_told_loss))
        return false;
    if (!parcel) {
        remote->has_told_loss = true;
        remote->link.ops->lost(remote->link.context, remote->reason);
        return true;
    }
    struct parcel first = *parcel;
    parcel->bytes = NULL;
    free(parcels_take(&remote->in));
    remote->link.ops->received(remote->link.context, first.bytes, first.count);
    free(first.bytes);
    return true;
}

static void on_turn_closed(uv_handle_t *handle)
{
    free(handle);
}

/* One that nobody has asked for is a link that came. */
static void on_joined(void *context, struct fabric_peer *peer)
{
    struct remotes *remotes = context;
    struct remote *remote = fabric_peer_context(peer);
    if (remote) {
        remote->is_joined = true;
        if (remote->is_late)
            tell_news(remote, REMOTE_JOINED);
        flush(remote);
        return;
    }
    struct fabric_identity identity;
    fabric_peer_identity(peer, &identity);
    remote = remote_create(remotes, &identity);
    if (!remote) {
        fabric_forget(peer);
        return;
    }
    remote->peer = peer;
    remote->is_joined = true;
    fabric_peer_set_context(peer, remote);
    remotes->came(remotes->context, &identity, &remote->link);
}

/* What came before the link was opened is not overtaken. */
static void on_received(void *context, struct fabric_peer *peer, const uint8_t *bytes, size_t count)
{
    struct remote *remote = fabric_peer_context(peer);
    (void)context;
    if (count == 0) {
        lose(remote, "the other end has gone");
        forget(remote);
        return;
    }
    if (remote->is_destroyed || remote->is_lost)
        return;
    uint8_t channel = bytes[count - 1];
    if (channel == CHANNEL_LINK && count > 1)
        take_message(remote, bytes, count - 1);
    else if (channel >= CHANNEL_WORD && channel < CHANNEL_WORD + REMOTES_SUBJECTS && count > 1)
        take_word(remote, channel - CHANNEL_WORD, bytes, count - 1);
    else
        lose(remote, "the other end has sent what is no message");
}

static void take_word(const struct remote *remote, unsigned subject, const uint8_t *bytes, size_t count)
{
    const struct hearer *hearer = &remote->remotes->hearers[subject];
    if (hearer->ops)
        hearer->ops->word(hearer->context, remote->identity.node, bytes, count);
}

static void take_message(struct remote *remote, const uint8_t *bytes, size_t count)
{
    if (remote->link.ops && !remote->in.first) {
        remote->link.ops->received(remote->link.context, bytes, count);
        return;
    }
    uint8_t *copy = malloc(count);
    if (copy)
        memcpy(copy, bytes, count);
    if (!copy || !parcels_put(&remote->in, copy, count))
        lose(remote, "there is no memory for what comes");
    uv_idle_start(remote->remotes->turn, on_turn);
}

static void on_writable(void *context, struct fabric_peer *peer)
{
    (void)context;
    flush(fabric_peer_context(peer));
}

static void on_late(void *context, struct fabric_peer *peer)
{
    (void)context;
    struct remote *remote = fabric_peer_context(peer);
    if (!remote)
        return;
    remote->is_late = true;
    tell_news(remote, REMOTE_LATE);
}

/* A hint only; the fabric goes on trying. */
static void on_broken(void *context, struct fabric_peer *peer)
{
    (void)context, (void)peer;
}

static void on_lost(void *context, struct fabric_peer *peer, const char *reason)
{
    (void)context;
    struct remote *remote = fabric_peer_context(peer);
    if (!remote) { /* lost before it was known here */
        fabric_forget(peer);
        return;
    }
    tell_news(remote, REMOTE_SILENT);
    lose(remote, reason);
    forget(remote);
}

static void on_offered(void *context, struct fabric_peer *peer, struct fabric_pull *pull, const void *tag,
                       size_t tag_bytes, uint64_t bytes)
{
    struct remotes *remotes = context;
    const struct remote *remote = fabric_peer_context(peer);
    struct transfer_intake intake;
    unsigned subject = tag_bytes > 0 ? ((const uint8_t *)tag)[tag_bytes - 1] : REMOTES_SUBJECTS;
    const struct hearer *hearer = subject < REMOTES_SUBJECTS ? &remotes->hearers[subject] : NULL;
    bool is_heard = hearer && hearer->ops && remote && !remote->is_destroyed && !remote->is_lost;
    int error = is_heard ? hearer->ops->offered(hearer->context, remote->identity.node, tag, tag_bytes - 1,
                                                bytes, &intake)
                         : ENOTSUP;
    if (error) {
        fabric_refuse(pull, error);
    } else if (transfers_admit(&remotes->transfers, peer, pull, &intake) < 0) {
        fabric_refuse(pull, ENOMEM);
        intake.done(intake.context, ENOMEM);
    }
}

static void on_pulled(void *context, struct fabric_pull *pull, int error)
{
    struct remotes *remotes = context;
    transfers_end(&remotes->transfers, fabric_pull_context(pull), error);
}

static void on_pushed(void *context, struct fabric_push *push, int error)
{
    struct remotes *remotes = context;
    transfers_end(&remotes->transfers, fabric_push_context(push), error);
}
