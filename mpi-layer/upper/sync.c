/* sync.c - see sync.h. */
#include "mpi-layer/upper/sync.h"

#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/table.h"

struct sync_key { /* lives while a synchronous send with this key is pending */
    struct table_entry entry;
    const struct comm *comm;
    int peer, tag;
    uint64_t sent;    /* messages, the synchronous ones included */
    uint64_t pending; /* synchronous sends */
};

static struct table keys;
static struct sync_key *spare;
static uint64_t last_serial;

bool sync_reserve(void)
{
    if (!spare)
        spare = arena_alloc(sizeof *spare);
    return spare != NULL;
}

static struct sync_key *find(const struct comm *comm, int peer, int tag)
{
    struct table_entry *e = table_first(&keys, table_hash(comm->id, peer, tag));
    for (; e; e = table_next(e)) {
        struct sync_key *k = TABLE_OWNER(e, struct sync_key, entry);
        if (k->comm == comm && k->peer == peer && k->tag == tag)
            return k;
    }
    return NULL;
}

static struct sync_key *take_spare(const struct comm *comm, int peer, int tag)
{
    struct sync_key *k = spare;
    spare = NULL;
    *k = (struct sync_key){.comm = comm, .peer = peer, .tag = tag};
    table_add(&keys, &k->entry, table_hash(comm->id, peer, tag));
    return k;
}

void sync_begin(struct request *r)
{
    struct sync_key *k = find(r->comm, r->peer, r->tag);
    if (!k) {
        k = take_spare(r->comm, r->peer, r->tag);
        k->sent = 1;
    } /* else it has been counted, as any other message */
    k->pending++;
    r->sync_key = k;
    r->sync_number = k->sent;
    r->sync_serial = ++last_serial;
    r->may_be_drained = false;
    r->comm->peers[r->peer].pending_sync++;
}

void sync_end(struct request *r)
{
    struct sync_key *k = r->sync_key;
    if (!k)
        return;
    r->sync_key = NULL;
    r->comm->peers[r->peer].pending_sync--;
    if (--k->pending)
        return;
    table_remove(&keys, &k->entry);
    arena_free(k);
}

void sync_count(const struct comm *comm, int peer, int tag)
{
    struct sync_key *k = find(comm, peer, tag);
    if (k)
        k->sent++;
}

uint64_t sync_later(const struct request *r)
{
    return r->sync_key->sent - r->sync_number;
}
