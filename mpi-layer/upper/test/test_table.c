/* test_table.c - tables find what was added in the right order, when they grow and when there is no memory.
 */
#include "mpi-layer/upper/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include <cmocka.h>

#include "mpi-layer/upper/arena.h"

#define MANY 5000 /* grows twice */

struct item {
    int number;
    struct table_entry entry;
};

static struct item items[MANY];
static bool is_memory_short;
static int blocks; /* that the table holds */

void *arena_alloc(size_t bytes)
{
    if (is_memory_short)
        return NULL;
    blocks++;
    return calloc(1, bytes);
}

void arena_free(void *block)
{
    blocks -= block != NULL;
    free(block);
}

/* Two items with each hash. */
static uint64_t hash_of(int number)
{
    return table_hash(7, number / 2, 1);
}

static void fill(struct table *table)
{
    for (int i = 0; i < MANY; i++) {
        items[i].number = i;
        table_add(table, &items[i].entry, hash_of(i));
    }
    assert_int_equal(table->count, MANY);
}

static struct item *item_of(struct table_entry *entry)
{
    return entry ? TABLE_OWNER(entry, struct item, entry) : NULL;
}

/* Of each two the newer one comes first, and then nothing. */
static void check_all(const struct table *table)
{
    for (int i = 0; i < MANY; i += 2) {
        struct table_entry *first = table_first(table, hash_of(i));
        assert_ptr_equal(item_of(first), &items[i + 1]);
        assert_ptr_equal(item_of(table_next(first)), &items[i]);
        assert_null(table_next(table_next(first)));
    }
    assert_null(table_first(table, hash_of(MANY)));
}

static void check_removal(struct table *table)
{
    for (int i = 0; i < MANY; i += 2)
        table_remove(table, &items[i + 1].entry);
    table_remove(table, &items[1].entry); /* is not there any more */
    assert_int_equal(table->count, MANY / 2);
    for (int i = 0; i < MANY; i += 2) {
        struct table_entry *first = table_first(table, hash_of(i));
        assert_ptr_equal(item_of(first), &items[i]);
        assert_null(table_next(first));
    }
    table_clear(table);
    assert_int_equal(table->count, 0);
    for (int i = 0; i < MANY; i += 2)
        assert_null(table_first(table, hash_of(i)));
}

static void test_growing(void **state)
{
    (void)state;
    struct table table = {0};
    is_memory_short = false;
    fill(&table);
    assert_true(table.bucket_count >= 16 * TABLE_FIRST_BUCKETS);
    assert_int_equal(blocks, 1); /* the smaller ones have been given back */
    check_all(&table);
    check_removal(&table);
    arena_free(table.larger);
}

static void test_without_memory(void **state)
{
    (void)state;
    struct table table = {0};
    is_memory_short = true;
    fill(&table);
    assert_null(table.larger);
    check_all(&table);
    check_removal(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growing),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
