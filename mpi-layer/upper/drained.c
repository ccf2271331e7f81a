/* drained.c - see drained.h. */
#include "mpi-layer/upper/drained.h"

#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/bytes.h"
#include "mpi-layer/upper/table.h"

struct queue { /* lives while a message is in it or about to be */
    struct table_entry entry;
    const struct comm *comm;
    int source, tag; /* MPI_ANY_SOURCE, MPI_ANY_TAG: of any */
    int kind;        /* which of a message's links are this queue's */
    uint64_t users;
    struct message *head, *tail;
    uint64_t count;
    /* Of drained_before(): a message and how many come before it. NULL: begin at the head. */
    struct message *cursor;
    uint64_t cursor_at;
};

static struct table queues;
static uint64_t incomplete; /* messages whose data the library has */

static struct queue *queue_find(const struct comm *comm, int source, int tag)
{
    struct table_entry *e = table_first(&queues, table_hash(comm->id, source, tag));
    for (; e; e = table_next(e)) {
        struct queue *q = TABLE_OWNER(e, struct queue, entry);
        if (q->comm == comm && q->source == source && q->tag == tag)
            return q;
    }
    return NULL;
}

/* The queue with this key, made if there is none; NULL: out of memory. Each user gives it to queue_leave().
 */
static struct queue *queue_join(const struct comm *comm, int source, int tag, int kind)
{
    struct queue *q = queue_find(comm, source, tag);
    if (!q) {
        q = arena_alloc(sizeof *q);
        if (!q)
            return NULL;
        *q = (struct queue){.comm = comm, .source = source, .tag = tag, .kind = kind};
        table_add(&queues, &q->entry, table_hash(comm->id, source, tag));
    }
    q->users++;
    return q;
}

static void queue_leave(struct queue *q)
{
    if (!q || --q->users)
        return;
    table_remove(&queues, &q->entry);
    arena_free(q);
}

struct message *drained_new(struct comm *comm, int source, int tag, uint64_t bytes)
{
    struct message *m = arena_alloc(sizeof *m + bytes);
    if (!m)
        return NULL;
    m->comm = comm;
    m->source = source;
    m->tag = tag;
    m->bytes = bytes;
    m->data = (char *)(m + 1);
    return m;
}

int drained_reserve(struct message *m)
{
    for (int i = 0; i < DRAINED_QUEUES; i++) {
        int source = i & 1 ? MPI_ANY_SOURCE : m->source, tag = i & 2 ? MPI_ANY_TAG : m->tag;
        m->queues[i] = queue_join(m->comm, source, tag, i);
        if (!m->queues[i])
            return -1;
    }
    return 0;
}

static void leave_queues(struct message *m)
{
    for (int i = 0; i < DRAINED_QUEUES; i++) {
        queue_leave(m->queues[i]);
        m->queues[i] = NULL;
    }
}

void drained_free(struct message *m)
{
    if (!m)
        return;
    leave_queues(m);
    if (m->data != (char *)(m + 1))
        arena_free(m->data);
    arena_free(m);
}

void drained_add(struct message *m)
{
    for (int i = 0; i < DRAINED_QUEUES; i++) {
        struct queue *q = m->queues[i];
        m->previous[i] = q->tail;
        *(q->tail ? &q->tail->next[i] : &q->head) = m;
        q->tail = m;
        q->count++;
    }
    m->comm->drained++;
    incomplete += m->real != NULL;
}

struct message *drained_find(const struct comm *comm, int source, int tag)
{
    const struct queue *q = queue_find(comm, source, tag);
    return q ? q->head : NULL;
}

void drained_take(struct message *m)
{
    for (int i = 0; i < DRAINED_QUEUES; i++) {
        struct queue *q = m->queues[i];
        *(m->previous[i] ? &m->previous[i]->next[i] : &q->head) = m->next[i];
        *(m->next[i] ? &m->next[i]->previous[i] : &q->tail) = m->previous[i];
        q->count--;
        q->cursor = NULL;
    }
    leave_queues(m);
    m->comm->drained--;
    incomplete -= m->real != NULL;
}

struct message *drained_before(const struct comm *comm, int source, int tag, uint64_t later)
{
    struct queue *q = queue_find(comm, source, tag);
    if (!q || q->count <= later)
        return NULL;
    uint64_t at = q->count - later - 1;
    if (!q->cursor || q->cursor_at > at) {
        q->cursor = q->head;
        q->cursor_at = 0;
    }
    for (; q->cursor_at < at; q->cursor_at++)
        q->cursor = q->cursor->next[q->kind];
    return q->cursor;
}

int drained_complete_taken(struct message *m)
{
    char *data = arena_alloc(m->bytes);
    if (!data)
        return -1;
    m->error = bytes_receive_matched(data, m->bytes, &m->real);
    m->real = NULL;
    m->data = data;
    return 0;
}

int drained_complete(bool has_memory, uint64_t *bytes)
{
    for (const struct comm *c = incomplete ? comm_first() : NULL; c && incomplete; c = c->next)
        for (struct message *m = drained_find(c, MPI_ANY_SOURCE, MPI_ANY_TAG); m;
             m = m->next[DRAINED_QUEUES - 1])
            if (m->real) {
                *bytes = m->bytes;
                if (!has_memory || drained_complete_taken(m))
                    return -1;
                incomplete--;
            }
    return 0;
}

void drained_drop(struct comm *comm)
{
    struct message *m;
    while ((m = drained_find(comm, MPI_ANY_SOURCE, MPI_ANY_TAG))) {
        drained_take(m);
        drained_free(m);
    }
}
