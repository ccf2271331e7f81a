/*
 * table.h - hash tables whose entries are members of the objects that they find. They grow while there is
 * memory; without it chains become longer, and nothing fails. In saved memory; no libc, so that callbacks of
 * the library may look.
 */
#ifndef BELAY_MPI_LAYER_UPPER_TABLE_H
#define BELAY_MPI_LAYER_UPPER_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define TABLE_FIRST_BUCKETS 64

struct table_entry {
    struct table_entry *next;
    uint64_t hash;
};

struct table {                   /* zeroed: empty */
    struct table_entry **larger; /* NULL: the first buckets are in use */
    size_t bucket_count;         /* of the larger ones */
    size_t count;
    struct table_entry *first[TABLE_FIRST_BUCKETS];
};

/* Finalizer of MurmurHash3 (Appleby): every input bit changes every output bit with probability 1/2. */
static inline uint64_t table_mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}

/* Hash of a communicator's id with two numbers. */
static inline uint64_t table_hash(uint64_t id, int a, int b)
{
    return table_mix(id ^ ((uint64_t)(uint32_t)a << 32 | (uint32_t)b));
}

/* The newest entry comes first among those with the same hash. */
void table_add(struct table *table, struct table_entry *entry, uint64_t hash);
void table_remove(struct table *table, struct table_entry *entry);
void table_clear(struct table *table);

/* Entries with this hash (and they alone): the first, the one after another. NULL: none. */
struct table_entry *table_first(const struct table *table, uint64_t hash);
struct table_entry *table_next(const struct table_entry *entry);

/* The object of type `type` whose member `member` is this entry. */
#define TABLE_OWNER(entry, type, member) ((type *)(void *)((char *)(entry)-offsetof(type, member)))

#endif
