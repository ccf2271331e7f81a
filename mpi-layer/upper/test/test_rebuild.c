/*
 * test_rebuild.c - what is noted before a rank parks, and the order in which a new library gets the objects
 * of the old one: each needs those before it.
 */
#include "mpi-layer/upper/rebuild.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/attr.h"
#include "mpi-layer/upper/bind.h"
#include "mpi-layer/upper/datatype.h"
#include "mpi-layer/upper/drain.h"
#include "mpi-layer/upper/errhandler.h"
#include "mpi-layer/upper/error_codes.h"
#include "mpi-layer/upper/file.h"
#include "mpi-layer/upper/group.h"
#include "mpi-layer/upper/info.h"
#include "mpi-layer/upper/init.h"
#include "mpi-layer/upper/line.h"
#include "mpi-layer/upper/op.h"
#include "mpi-layer/upper/p2p.h"
#include "mpi-layer/upper/test/around.h"
#include "mpi-layer/upper/test/below.h"
#include "mpi-layer/upper/test/world.h"
#include "mpi-layer/upper/tool.h"

static char steps[500];
static const char *failing, *reason; /* the step that fails; what line_fail() was told */

static bool step(const char *name)
{
    sprintf(steps + strlen(steps), "%s; ", name);
    return !failing || strcmp(name, failing) != 0;
}

static void restore(const char *name, struct handle *handle)
{
    char text[40];
    sprintf(text, "%s %d", name, handle->number);
    step(text);
}

/* Two objects of each kind, of which the older one is first. */
static struct handle objects[HANDLE_WIN + 1][2];

struct handle *handle_first(enum handle_kind kind)
{
    return &objects[kind][0];
}

void bind_library(void)
{
    step("bind");
}

void p2p_bind(void)
{
    step("p2p");
}

void drain_forget(void)
{
    step("drain");
}

void error_codes_restore(void)
{
    step("codes");
}

void attr_bind_predefined(void)
{
    step("attributes");
}

void datatype_restore(struct handle *handle)
{
    restore("type", handle);
}

void datatype_restore_name(const struct handle *handle)
{
    if (handle == (const struct handle *)(const void *)MPI_INT)
        step("name of MPI_INT");
}

void op_restore(struct handle *handle)
{
    restore("op", handle);
}

void group_restore(struct handle *handle)
{
    restore("group", handle);
}

void errhandler_restore(struct handle *handle)
{
    restore("errhandler", handle);
}

void *info_make(const struct info *info)
{
    assert_non_null(info);
    step("info");
    return below_real(5);
}

void comm_rebuild_all(void)
{
    step("communicators");
}

void file_restore_all(void)
{
    step("files");
}

void handle_find_again(void)
{
    step("find");
}

void init_restore(void)
{
    step("init");
}

void tool_restore(void)
{
    step("tool");
}

int p2p_post(struct request *request)
{
    char text[40];
    sprintf(text, "post %d", request->tag);
    step(text);
    return MPI_SUCCESS;
}

bool comm_note_all(void)
{
    return step("communicators");
}

bool file_note_all(void)
{
    return step("files");
}

void errhandler_sweep(void)
{
    step("sweep");
}

bool tool_note(void)
{
    return step("tool");
}

bool group_note(struct handle *handle)
{
    restore("group", handle);
    return !failing || strcmp(failing, "groups") != 0;
}

struct info *info_note(void *real, struct info *old)
{
    (void)real;
    assert_null(old);
    return step("info") ? (struct info *)(void *)below_real(6) : NULL;
}

bool line_fail(const char *why, uint64_t bytes)
{
    assert_int_equal(bytes, 0);
    reason = why;
    return false;
}

static uint64_t now_ns(void)
{
    return 1000;
}

static int start(void **state)
{
    steps[0] = 0;
    failing = reason = NULL;
    memset(objects, 0, sizeof objects);
    for (int kind = 0; kind <= HANDLE_WIN; kind++)
        for (int i = 0; i < 2; i++) {
            objects[kind][i].kind = (uint32_t)kind;
            objects[kind][i].number = i + 1;
            objects[kind][i].next = i ? NULL : &objects[kind][1];
        }
    GATE->now_ns = now_ns;
    GATE->mpi_init_done_ns = 400;
    around_start();
    return world_start(state);
}

/* Types are made of older types; communicators come before files, all handles before receives. */
static void in_an_order_that_holds(void **state)
{
    (void)state;
    objects[HANDLE_INFO][0].record = objects[HANDLE_INFO][1].record = below_real(6);
    struct request *r = world_request(REQUEST_RECV, &world_comm, 1);
    request_describe(r, NULL, 0, 1, 3);
    rebuild_all(17);
    assert_string_equal(
        steps, "bind; p2p; drain; codes; attributes; name of MPI_INT; type 1; type 2; op 1; op 2; "
               "group 1; group 2; info; info; errhandler 1; errhandler 2; communicators; files; find; "
               "post 3; init; tool; ");
    assert_ptr_equal(objects[HANDLE_INFO][1].real, below_real(5));
    assert_int_equal(half_control()->restored_line, 17);
    assert_int_equal(half_control()->restore_ns, 600);
}

/* Receives match in the order in which they were posted: so they are posted again (MPI-3.1, 3.5). */
static void receives_in_their_order(void **state)
{
    (void)state;
    struct request *r[6];
    struct ending ending = {0};
    for (int i = 0; i < 6; i++) {
        r[i] = world_request(i == 1 ? REQUEST_SEND : REQUEST_RECV, i == 4 ? &world_reverse : &world_comm, 7);
        request_describe(r[i], NULL, 0, 1, i);
    }
    request_set_done(r[2], MPI_SUCCESS); /* a drain has its message */
    world_reverse.ending = &ending;      /* no message will come */
    objects[HANDLE_INFO][0].record = objects[HANDLE_INFO][1].record = below_real(6);
    rebuild_all(1);
    assert_non_null(strstr(steps, "find; post 0; post 3; post 5; init; "));
    assert_null(r[4]->real);
    world_reverse.ending = NULL;
}

static void all_is_noted(void **state)
{
    (void)state;
    objects[HANDLE_INFO][0].record = below_real(7); /* it has not changed */
    assert_true(rebuild_note(17));
    assert_string_equal(steps, "communicators; files; sweep; tool; group 1; group 2; info; ");
    assert_ptr_equal(objects[HANDLE_INFO][0].record, below_real(7));
    assert_ptr_equal(objects[HANDLE_INFO][1].record, below_real(6));
    assert_null(reason);
}

/* A line without all of them must not commit. */
static void one_that_cannot_be_noted_fails_the_line(void **state)
{
    (void)state;
    const char *const parts[] = {"communicators", "files", "tool", "groups", "info"};
    for (int i = 0; i < 5; i++) {
        objects[HANDLE_INFO][1].record = NULL;
        failing = parts[i];
        reason = NULL;
        assert_false(rebuild_note(17));
        assert_non_null(reason);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(in_an_order_that_holds), TEST(receives_in_their_order),
                                       TEST(all_is_noted), TEST(one_that_cannot_be_noted_fails_the_line)};
    return cmocka_run_group_tests(tests, below_start, NULL);
}
