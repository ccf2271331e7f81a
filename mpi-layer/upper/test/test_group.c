/* test_group.c - groups: their members by world rank, noted once, and made again in the same order. */
#include "mpi-layer/upper/group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/test/below.h"

struct members {
    int count, world[4];
};
static struct members world = {4, {0, 1, 2, 3}}, made;
static int asked, world_groups, frees, releases;

static int size(struct members *group, int *count)
{
    asked++;
    *count = group->count;
    return MPI_SUCCESS;
}

static int comm_group(void *comm, struct members **group)
{
    assert_ptr_equal(comm, below_real(1));
    world_groups++;
    *group = &world;
    return MPI_SUCCESS;
}

static int group_free(struct members **group)
{
    if (*group == &world)
        world_groups--;
    else
        frees++;
    return MPI_SUCCESS;
}

static int translate(struct members *from, int count, const int *ranks, struct members *to, int *translated)
{
    assert_ptr_equal(to, &world);
    for (int i = 0; i < count; i++)
        translated[i] = from->world[ranks[i]];
    return MPI_SUCCESS;
}

static int incl(struct members *from, int count, const int *ranks, struct members **group)
{
    made.count = count;
    for (int i = 0; i < count; i++)
        made.world[i] = from->world[ranks[i]];
    *group = &made;
    return MPI_SUCCESS;
}

void handle_release(enum handle_kind kind, void *handle)
{
    (void)handle;
    assert_int_equal(kind, HANDLE_GROUP);
    releases++;
}

static int start(void **state)
{
    (void)state;
    BELOW_SET(MPI_Group_size, size);
    BELOW_SET(MPI_Comm_group, comm_group);
    BELOW_SET(MPI_Group_free, group_free);
    BELOW_SET(MPI_Group_translate_ranks, translate);
    BELOW_SET(MPI_Group_incl, incl);
    *(void **)(void *)MPI_COMM_WORLD = below_real(1);
    asked = frees = releases = 0;
    return 0;
}

static void made_again(void **state)
{
    (void)state;
    struct members real = {3, {3, 0, 2}};
    struct handle handle = {.real = &real, .kind = HANDLE_GROUP};
    assert_true(group_note(&handle));
    assert_int_equal(world_groups, 0);
    int first = asked;
    assert_true(group_note(&handle)); /* it never changes */
    assert_int_equal(asked, first);
    real.count = 0; /* another library */
    group_restore(&handle);
    assert_ptr_equal(handle.real, &made);
    assert_int_equal(made.count, 3);
    assert_memory_equal(made.world, ((const int[]){3, 0, 2}), 3 * sizeof(int));
    assert_int_equal(world_groups, 0);
    arena_free(handle.record);
}

static void without_memory(void **state)
{
    (void)state;
    struct members real = {0};
    struct handle handle = {.real = &real, .kind = HANDLE_GROUP};
    int blocks = below_blocks;
    below_is_memory_short = true;
    assert_false(group_note(&handle));
    below_is_memory_short = false;
    assert_null(handle.record);
    assert_true(group_note(&handle));
    group_restore(&handle);
    assert_int_equal(made.count, 0);
    arena_free(handle.record);
    assert_int_equal(below_blocks, blocks);
}

/* A new library does not know how often the old one has handed it out. */
static void the_empty_one_is_not_freed_below(void **state)
{
    (void)state;
    struct members real = {1, {2}};
    struct handle handle = {.real = &real, .kind = HANDLE_GROUP};
    MPI_Group empty = MPI_GROUP_EMPTY, group = (MPI_Group)(void *)&handle;
    assert_int_equal(PMPI_Group_free(&empty), MPI_SUCCESS);
    assert_ptr_equal(empty, MPI_GROUP_NULL);
    assert_int_equal(frees, 0);
    assert_int_equal(PMPI_Group_free(&group), MPI_SUCCESS);
    assert_ptr_equal(group, MPI_GROUP_NULL);
    assert_int_equal(frees, 1);
    assert_int_equal(releases, 2);
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(made_again), TEST(without_memory),
                                       TEST(the_empty_one_is_not_freed_below)};
    return cmocka_run_group_tests(tests, below_start, NULL);
}
