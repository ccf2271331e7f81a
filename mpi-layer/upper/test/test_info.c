/*
 * test_info.c - info objects: all keys and values are noted before a line, again after each change, and a new
 * library gets them in their order (MPI-3.1, chapter 9).
 */
#include "mpi-layer/upper/info.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/handle.h"
#include "mpi-layer/upper/test/below.h"

/* What the library below has: pairs, in the order in which they were set. */
struct pairs {
    int count;
    char key[4][MPI_MAX_INFO_KEY + 1], value[4][MPI_MAX_INFO_VAL + 1];
};
static struct pairs old, new;
static int code_of_change;

static int get_nkeys(struct pairs *pairs, int *count)
{
    *count = pairs->count;
    return MPI_SUCCESS;
}

static int get_nthkey(struct pairs *pairs, int i, char *key)
{
    strcpy(key, pairs->key[i]);
    return MPI_SUCCESS;
}

static int get(struct pairs *pairs, const char *key, int room, char *value, int *flag)
{
    *flag = 0;
    for (int i = 0; i < pairs->count; i++)
        if (!strcmp(pairs->key[i], key)) {
            snprintf(value, (size_t)room + 1, "%s", pairs->value[i]);
            *flag = 1;
        }
    return MPI_SUCCESS;
}

static int create(struct pairs **pairs)
{
    new.count = 0;
    *pairs = &new;
    return MPI_SUCCESS;
}

static int set(struct pairs *pairs, const char *key, const char *value)
{
    if (code_of_change != MPI_SUCCESS)
        return code_of_change;
    strcpy(pairs->key[pairs->count], key);
    strcpy(pairs->value[pairs->count++], value);
    return MPI_SUCCESS;
}

static int delete_key(struct pairs *pairs, const char *key)
{
    (void)key;
    if (code_of_change == MPI_SUCCESS)
        pairs->count--;
    return code_of_change;
}

static int start(void **state)
{
    (void)state;
    BELOW_SET(MPI_Info_get_nkeys, get_nkeys);
    BELOW_SET(MPI_Info_get_nthkey, get_nthkey);
    BELOW_SET(MPI_Info_get, get);
    BELOW_SET(MPI_Info_create, create);
    BELOW_SET(MPI_Info_set, set);
    BELOW_SET(MPI_Info_delete, delete_key);
    old.count = 0;
    code_of_change = MPI_SUCCESS;
    return 0;
}

static void made_again(void **state)
{
    (void)state;
    char longest[MPI_MAX_INFO_VAL + 1], longest_key[MPI_MAX_INFO_KEY + 1];
    memset(longest, 'v', sizeof longest);
    memset(longest_key, 'k', sizeof longest_key);
    longest[MPI_MAX_INFO_VAL - 1] = longest_key[MPI_MAX_INFO_KEY - 1] =
        '\0'; /* the longest that can be set */
    set(&old, "zebra", "striped");
    set(&old, "a", "b c");
    set(&old, longest_key, longest);
    struct info *info = info_note(&old, NULL);
    assert_non_null(info);
    old.count = 0; /* another library */
    assert_ptr_equal(info_make(info), &new);
    assert_int_equal(new.count, 3);
    assert_string_equal(new.key[0], "zebra");
    assert_string_equal(new.value[0], "striped");
    assert_string_equal(new.key[1], "a");
    assert_string_equal(new.value[1], "b c");
    assert_string_equal(new.key[2], longest_key);
    assert_string_equal(new.value[2], longest);
    arena_free(info);
}

static void an_empty_one(void **state)
{
    (void)state;
    struct info *info = info_note(&old, NULL);
    assert_non_null(info);
    assert_ptr_equal(info_make(info), &new);
    assert_int_equal(new.count, 0);
    arena_free(info);
}

/* What was noted before is given back, but for want of memory. */
static void noted_again(void **state)
{
    (void)state;
    int blocks = below_blocks;
    struct info *first = info_note(&old, NULL);
    set(&old, "key", "value");
    below_is_memory_short = true;
    assert_null(info_note(&old, first));
    below_is_memory_short = false;
    assert_int_equal(below_blocks, blocks + 1);
    struct info *second = info_note(&old, first);
    assert_int_equal(below_blocks, blocks + 1);
    info_make(second);
    assert_string_equal(new.value[0], "value");
    arena_free(second);
}

/* What has been noted is wrong as soon as the object changes. */
static void a_change_is_to_be_noted(void **state)
{
    (void)state;
    struct handle handle = {.real = &old, .kind = HANDLE_INFO};
    MPI_Info info = (MPI_Info)(void *)&handle;
    int blocks = below_blocks;
    handle.record = info_note(&old, NULL);
    code_of_change = MPI_ERR_INFO_KEY;
    assert_int_equal(PMPI_Info_set(info, "", "value"), MPI_ERR_INFO_KEY);
    assert_int_equal(PMPI_Info_delete(info, "key"), MPI_ERR_INFO_KEY);
    assert_non_null(handle.record); /* nothing has changed */
    code_of_change = MPI_SUCCESS;
    assert_int_equal(PMPI_Info_set(info, "key", "value"), MPI_SUCCESS);
    assert_null(handle.record);
    handle.record = info_note(&old, NULL);
    assert_int_equal(PMPI_Info_delete(info, "key"), MPI_SUCCESS);
    assert_null(handle.record);
    assert_int_equal(below_blocks, blocks);
    assert_int_equal(PMPI_Info_set(info, "key", "value"), MPI_SUCCESS); /* not noted yet */
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(made_again), TEST(an_empty_one), TEST(noted_again),
                                       TEST(a_change_is_to_be_noted)};
    return cmocka_run_group_tests(tests, below_start, NULL);
}
