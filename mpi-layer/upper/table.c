/* table.c - see table.h. */
#include "mpi-layer/upper/table.h"

#include "mpi-layer/upper/arena.h"

static struct table_entry *const *bucket_of(const struct table *table, uint64_t hash)
{
    return table->larger ? &table->larger[hash & (table->bucket_count - 1)]
                         : &table->first[hash & (TABLE_FIRST_BUCKETS - 1)];
}

static void put(struct table *table, struct table_entry *entry)
{
    struct table_entry **bucket = (struct table_entry **)bucket_of(table, entry->hash);
    entry->next = *bucket;
    *bucket = entry;
}

/* Chains are turned round, so that they keep their order when they are put in again. */
static void move_chain(struct table *table, struct table_entry *chain)
{
    struct table_entry *turned = NULL, *next;
    for (; chain; chain = next) {
        next = chain->next;
        chain->next = turned;
        turned = chain;
    }
    for (; turned; turned = next) {
        next = turned->next;
        put(table, turned);
    }
}

static void grow(struct table *table)
{
    struct table_entry **old = table->larger;
    size_t old_count = old ? table->bucket_count : TABLE_FIRST_BUCKETS;
    struct table_entry **larger = arena_alloc(4 * old_count * sizeof(struct table_entry *));
    if (!larger)
        return;
    table->larger = larger;
    table->bucket_count = 4 * old_count;
    for (size_t i = 0; i < old_count; i++)
        move_chain(table, old ? old[i] : table->first[i]);
    arena_free(old);
}

void table_add(struct table *table, struct table_entry *entry, uint64_t hash)
{
    size_t buckets = table->larger ? table->bucket_count : TABLE_FIRST_BUCKETS;
    if (++table->count > 2 * buckets)
        grow(table);
    entry->hash = hash;
    put(table, entry);
}

void table_remove(struct table *table, struct table_entry *entry)
{
    struct table_entry **link = (struct table_entry **)bucket_of(table, entry->hash);
    while (*link && *link != entry)
        link = &(*link)->next;
    if (!*link)
        return;
    *link = entry->next;
    table->count--;
}

void table_clear(struct table *table)
{
    size_t buckets = table->larger ? table->bucket_count : TABLE_FIRST_BUCKETS;
    struct table_entry **all = table->larger ? table->larger : table->first;
    for (size_t i = 0; i < buckets; i++)
        all[i] = NULL;
    table->count = 0;
}

static struct table_entry *with_hash(struct table_entry *entry, uint64_t hash)
{
    while (entry && entry->hash != hash)
        entry = entry->next;
    return entry;
}

struct table_entry *table_first(const struct table *table, uint64_t hash)
{
    return with_hash(*bucket_of(table, hash), hash);
}

struct table_entry *table_next(const struct table_entry *entry)
{
    return with_hash(entry->next, entry->hash);
}
