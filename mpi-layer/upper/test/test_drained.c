/* test_drained.c - taken messages beside a plain list of them: whatever wildcards a receive has, it gets the
 * oldest that matches. */
#include "mpi-layer/upper/drained.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/upper/bytes.h"
#include "mpi-layer/upper/test/below.h"
#include "mpi-layer/upper/test/world.h"

#define TAGS 3
#define STEPS 20000
#define LIST_MAX 200

static struct message *list[LIST_MAX]; /* oldest first */
static int count;
static int received, receive_code; /* by the library below */

int bytes_receive_matched(void *buffer, uint64_t length, void **real_message)
{
    memset(buffer, *real_message == below_real(1) ? 'x' : 'y', length);
    received++;
    return receive_code;
}

static int start(void **state)
{
    world_start(state);
    below_blocks = received = count = 0;
    receive_code = MPI_SUCCESS;
    return 0;
}

static struct message *add(struct comm *comm, int source, int tag)
{
    struct message *m = drained_new(comm, source, tag, 8);
    assert_non_null(m);
    assert_int_equal(drained_reserve(m), 0);
    drained_add(m);
    list[count++] = m;
    return m;
}

static bool matches(const struct message *m, const struct comm *comm, int source, int tag)
{
    return m->comm == comm && (source == MPI_ANY_SOURCE || m->source == source) &&
           (tag == MPI_ANY_TAG || m->tag == tag);
}

static struct message *oldest(const struct comm *comm, int source, int tag)
{
    for (int i = 0; i < count; i++)
        if (matches(list[i], comm, source, tag))
            return list[i];
    return NULL;
}

/* The one that so many others of its source and tag have come after. */
static struct message *before(const struct comm *comm, int source, int tag, uint64_t later)
{
    for (int i = count - 1; i >= 0; i--)
        if (matches(list[i], comm, source, tag) && later-- == 0)
            return list[i];
    return NULL;
}

static void take(struct message *m)
{
    int at = 0;
    while (list[at] != m)
        at++;
    memmove(&list[at], &list[at + 1], (size_t)(--count - at) * sizeof list[0]);
    drained_take(m);
    drained_free(m);
}

static void each_receive_gets_the_oldest(void **state)
{
    struct comm *comms[] = {&world_comm, &world_reverse};
    (void)state;
    srand(1);
    for (int step = 0; step < STEPS; step++) {
        struct comm *comm = comms[rand() % 2];
        bool has_source = rand() % 2, has_tag = rand() % 2;
        int source = has_source ? rand() % WORLD_RANKS : MPI_ANY_SOURCE;
        int tag = has_tag ? rand() % TAGS : MPI_ANY_TAG;
        struct message *m = drained_find(comm, source, tag);
        assert_ptr_equal(m, oldest(comm, source, tag));
        if (has_source && has_tag)
            for (uint64_t later = 0; later < 4; later++)
                assert_ptr_equal(drained_before(comm, source, tag, later), before(comm, source, tag, later));
        if (count == LIST_MAX || (m && rand() % 2))
            take(m ? m : list[rand() % count]); /* a probe's message may be any */
        else
            add(comm, rand() % WORLD_RANKS, rand() % TAGS);
    }
    assert_int_equal(world_comm.drained + world_reverse.drained, count);
    while (count)
        take(list[0]);
    assert_int_equal(below_blocks, 0); /* the queues are gone with their last message */
}

static void a_communicator_that_ends_takes_its_messages(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        add(&world_comm, i % WORLD_RANKS, i);
        add(&world_reverse, i % WORLD_RANKS, i);
    }
    drained_drop(&world_comm);
    assert_null(drained_find(&world_comm, MPI_ANY_SOURCE, MPI_ANY_TAG));
    assert_int_equal(world_comm.drained, 0);
    assert_ptr_equal(drained_find(&world_reverse, MPI_ANY_SOURCE, MPI_ANY_TAG), list[1]);
    drained_drop(&world_reverse);
    assert_int_equal(below_blocks, 0);
}

static void a_message_without_memory_leaves_nothing(void **state)
{
    (void)state;
    below_is_memory_short = true;
    assert_null(drained_new(&world_comm, 0, 0, 8));
    below_is_memory_short = false;
    struct message *m = drained_new(&world_comm, 0, 0, 8);
    below_is_memory_short = true;
    assert_int_equal(drained_reserve(m), -1);
    below_is_memory_short = false;
    drained_free(m);
    assert_int_equal(below_blocks, 0);
}

static void data_that_the_library_has_come_once(void **state)
{
    uint64_t bytes = 0;
    (void)state;
    add(&world_comm, 1, 0);
    add(&world_reverse, 2, 0);
    assert_int_equal(drained_complete(true, &bytes), 0); /* both have theirs */
    assert_int_equal(received, 0);
    drained_drop(&world_comm);
    drained_drop(&world_reverse);

    struct message *first = drained_new(&world_comm, 1, 0, 16);
    struct message *second = drained_new(&world_reverse, 2, 0, 32);
    first->real = below_real(1);
    second->real = below_real(2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(drained_reserve(i ? second : first), 0);
        drained_add(i ? second : first);
    }
    assert_int_equal(drained_complete(false, &bytes), -1);
    assert_int_equal(bytes, 16);
    receive_code = MPI_ERR_TRUNCATE;
    assert_int_equal(drained_complete(true, &bytes), 0);
    assert_int_equal(received, 2);
    assert_null(first->real);
    assert_int_equal(first->error, MPI_ERR_TRUNCATE);
    assert_true(first->data[15] == 'x' && second->data[31] == 'y');
    assert_int_equal(drained_complete(true, &bytes), 0);
    assert_int_equal(received, 2);
    drained_drop(&world_comm);
    drained_drop(&world_reverse);
    assert_int_equal(below_blocks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_receive_gets_the_oldest, start),
        cmocka_unit_test_setup(a_communicator_that_ends_takes_its_messages, start),
        cmocka_unit_test_setup(a_message_without_memory_leaves_nothing, start),
        cmocka_unit_test_setup(data_that_the_library_has_come_once, start),
    };
    return cmocka_run_group_tests(tests, below_start, NULL);
}
