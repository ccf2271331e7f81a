/*
 * test_probe.c - probes find what drains have taken before what the library has (docs/mpi-support.md), by the
 * matching rules of MPI-3.1, 3.5 and 3.8; a matched message is the caller's alone.
 */
#include "mpi-layer/upper/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/drain.h"
#include "mpi-layer/upper/drained.h"
#include "mpi-layer/upper/test/around.h"
#include "mpi-layer/upper/test/below.h"
#include "mpi-layer/upper/test/world.h"
#include "mpi-layer/upper/wait.h"

#define COMM ((MPI_Comm)(void *)world_comm.handle)
#define MATCHED 30 /* the real handles of matched messages: from this number on */
#define NULL_MESSAGE 40
#define NO_PROC 41

/* What has come to the library on world_comm, oldest first, and the message from this rank to itself. */
static struct come {
    int source, tag;
    const char *text;
    bool is_matched;
} come[4];
static int come_count;
static const char *to_self;
static int to_self_bytes;
static int probes, looks_until_come;
static bool are_arguments_wrong;

static struct come *find(int source, int tag)
{
    probes++;
    if (looks_until_come && --looks_until_come)
        return NULL;
    for (int i = 0; i < come_count; i++)
        if (!come[i].is_matched && (source == MPI_ANY_SOURCE || come[i].source == source) &&
            (tag == MPI_ANY_TAG || come[i].tag == tag))
            return &come[i];
    return NULL;
}

static void set_status(MPI_Status *status, int source, int tag, int bytes)
{
    if (status == MPI_STATUS_IGNORE)
        return;
    status->MPI_SOURCE = source;
    status->MPI_TAG = tag;
    status->_ucount = (size_t)bytes;
}

static int iprobe(int source, int tag, void *comm, int *flag, MPI_Status *status)
{
    if (comm == comm_private_self()) {
        *flag = to_self != NULL;
        return MPI_SUCCESS;
    }
    const struct come *found = find(source, tag);
    *flag = found != NULL;
    if (found)
        set_status(status, found->source, found->tag, (int)strlen(found->text) + 1);
    return MPI_SUCCESS;
}

static int improbe(int source, int tag, void *comm, int *flag, void **message, MPI_Status *status)
{
    (void)comm;
    *flag = 1;
    *message = below_real(NO_PROC);
    if (source == MPI_PROC_NULL)
        return MPI_SUCCESS;
    struct come *found = find(source, tag);
    *flag = found != NULL;
    if (!found)
        return MPI_SUCCESS;
    found->is_matched = true;
    *message = below_real(MATCHED + (int)(found - come));
    set_status(status, found->source, found->tag, (int)strlen(found->text) + 1);
    return MPI_SUCCESS;
}

static int copy(void *buffer, int room, const char *text, int bytes)
{
    memcpy(buffer, text, (size_t)(room < bytes ? room : bytes));
    return room < bytes ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
}

static int mrecv(void *buffer, int count, void *type, void **message, MPI_Status *status)
{
    (void)type;
    if (are_arguments_wrong)
        return MPI_ERR_COUNT;
    if (*message != below_real(NO_PROC)) {
        for (int i = 0; i < come_count; i++)
            if (*message == below_real(MATCHED + i)) {
                int bytes = (int)strlen(come[i].text) + 1;
                set_status(status, come[i].source, come[i].tag, bytes);
                *message = below_real(NULL_MESSAGE);
                return copy(buffer, count, come[i].text, bytes);
            }
        fail_msg("no matched message");
    }
    set_status(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    *message = below_real(NULL_MESSAGE);
    return MPI_SUCCESS;
}

static int isend(const void *data, int count, void *type, int peer, int tag, void *comm, void **request)
{
    (void)type;
    assert_ptr_equal(comm, comm_private_self());
    assert_true(peer == 0 && tag == 0 && !to_self);
    to_self = data;
    to_self_bytes = count;
    *request = below_real(5);
    return MPI_SUCCESS;
}

static int receive(void *buffer, int count, void *type, int peer, int tag, void *comm, MPI_Status *status)
{
    (void)type;
    assert_ptr_equal(comm, comm_private_self());
    assert_non_null(to_self);
    if (are_arguments_wrong && buffer != to_self) /* taking the message back has right ones */
        return MPI_ERR_COUNT;
    int code = buffer == to_self ? MPI_SUCCESS : copy(buffer, count, to_self, to_self_bytes);
    set_status(status, peer, tag, to_self_bytes);
    to_self = NULL;
    return code;
}

static int wait_request(void **request, MPI_Status *status)
{
    (void)status;
    assert_ptr_equal(*request, below_real(5));
    assert_null(to_self);
    *request = NULL;
    return MPI_SUCCESS;
}

static int set_elements(MPI_Status *status, void *type, MPI_Count count)
{
    (void)type;
    status->_ucount = (size_t)count;
    return MPI_SUCCESS;
}

static int get_elements(const MPI_Status *status, void *type, MPI_Count *count)
{
    (void)type;
    *count = (MPI_Count)status->_ucount;
    return MPI_SUCCESS;
}

static int error_class(int code, int *class)
{
    *class = code;
    return MPI_SUCCESS;
}

static int start(void **state)
{
    BELOW_SET(MPI_Iprobe, iprobe);
    BELOW_SET(MPI_Improbe, improbe);
    BELOW_SET(MPI_Mrecv, mrecv);
    BELOW_SET(MPI_Isend, isend);
    BELOW_SET(MPI_Recv, receive);
    BELOW_SET(MPI_Wait, wait_request);
    BELOW_SET(MPI_Status_set_elements_x, set_elements);
    BELOW_SET(MPI_Get_elements_x, get_elements);
    BELOW_SET(MPI_Error_class, error_class);
    *(void **)(void *)MPI_MESSAGE_NO_PROC = below_real(NO_PROC);
    *(void **)(void *)MPI_MESSAGE_NULL = below_real(NULL_MESSAGE);
    come_count = probes = looks_until_come = 0;
    are_arguments_wrong = false;
    to_self = NULL;
    below_blocks = 0;
    around_start();
    return world_start(state);
}

/* All that was taken has been handed over or dropped: no memory is left. */
static int stop(void **state)
{
    (void)state;
    drained_drop(&world_comm);
    while (request_spare) {
        struct request *r = request_spare;
        request_spare = r->next;
        free(r);
        below_blocks--;
    }
    return below_blocks != 0;
}

static void comes(int source, int tag, const char *text)
{
    come[come_count++] = (struct come){source, tag, text, false};
}

static struct message *drain(int source, int tag, const char *text)
{
    struct message *m = drained_new(&world_comm, source, tag, strlen(text) + 1);
    assert_non_null(m);
    memcpy(m->data, text, strlen(text) + 1);
    assert_int_equal(drained_reserve(m), 0);
    drained_add(m);
    return m;
}

/* A status that names this message and has kept its MPI_ERROR, as calls with one status do (MPI-3.1, 3.2.5).
 */
static void check_status(const MPI_Status *status, int source, int tag, const char *text)
{
    assert_int_equal(status->MPI_SOURCE, source);
    assert_int_equal(status->MPI_TAG, tag);
    assert_int_equal(status->_ucount, strlen(text) + 1);
    assert_int_equal(status->MPI_ERROR, 77);
}

static void check_probe(int source, int tag, int found_source, int found_tag, const char *text)
{
    MPI_Status status = {.MPI_ERROR = 77}, waited = {.MPI_ERROR = 77};
    int flag = 0;
    assert_int_equal(PMPI_Iprobe(source, tag, COMM, &flag, &status), MPI_SUCCESS);
    assert_true(flag);
    check_status(&status, found_source, found_tag, text);
    assert_int_equal(PMPI_Probe(source, tag, COMM, &waited), MPI_SUCCESS);
    check_status(&waited, found_source, found_tag, text);
}

static MPI_Message match(int source, int tag, int found_source, int found_tag, const char *text)
{
    MPI_Status status = {.MPI_ERROR = 77};
    MPI_Message message = MPI_MESSAGE_NULL;
    assert_int_equal(PMPI_Mprobe(source, tag, COMM, &message, &status), MPI_SUCCESS);
    check_status(&status, found_source, found_tag, text);
    assert_ptr_not_equal(message, MPI_MESSAGE_NULL);
    return message;
}

static void check_receive(MPI_Message message, int source, int tag, const char *text)
{
    MPI_Status status = {.MPI_ERROR = 77};
    char buffer[32] = "";
    assert_int_equal(PMPI_Mrecv(buffer, sizeof buffer, MPI_BYTE, &message, &status), MPI_SUCCESS);
    assert_ptr_equal(message, MPI_MESSAGE_NULL);
    check_status(&status, source, tag, text);
    assert_string_equal(buffer, text);
}

static void drained_ones_come_first(void **state)
{
    (void)state;
    comes(1, 5, "in the library");
    comes(2, 6, "later");
    drain(1, 5, "drained");
    drain(2, 5, "drained next");
    check_probe(1, 5, 1, 5, "drained");
    check_probe(2, MPI_ANY_TAG, 2, 5, "drained next");
    check_probe(MPI_ANY_SOURCE, 5, 1, 5, "drained");
    check_probe(MPI_ANY_SOURCE, MPI_ANY_TAG, 1, 5, "drained");
    assert_int_equal(probes, 0);
    check_probe(2, 6, 2, 6, "later"); /* which no drained one matches */
    check_probe(MPI_ANY_SOURCE, 6, 2, 6, "later");
    assert_true(probes > 0);
    check_probe(1, 5, 1, 5, "drained"); /* a probe takes nothing */
    assert_int_equal(world_comm.drained, 2);
    assert_int_equal(world_comm.peers[1].received, 0);
}

static void another_communicator_does_not_match(void **state)
{
    int flag = 1;
    (void)state;
    drain(1, 5, "drained");
    assert_int_equal(PMPI_Iprobe(1, 5, (MPI_Comm)(void *)world_reverse.handle, &flag, MPI_STATUS_IGNORE), 0);
    assert_false(flag);
}

/* What one has matched, no later probe finds; each gets the data of its own, in whatever order. */
static void matched_ones_are_the_callers(void **state)
{
    (void)state;
    drain(1, 5, "first");
    drain(1, 5, "second");
    comes(1, 5, "third");
    comes(1, 5, "fourth");
    MPI_Message m[4];
    const char *texts[] = {"first", "second", "third", "fourth"};
    for (int i = 0; i < 4; i++)
        m[i] = match(1, i % 2 ? 5 : MPI_ANY_TAG, 1, 5, texts[i]);
    int flag = 1;
    MPI_Message none = MPI_MESSAGE_NULL;
    assert_int_equal(PMPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, COMM, &flag, &none, MPI_STATUS_IGNORE), 0);
    assert_false(flag);
    assert_ptr_equal(none, MPI_MESSAGE_NULL);
    for (int i = 3; i >= 0; i--)
        check_receive(m[i], 1, 5, texts[i]);
    assert_int_equal(world_comm.peers[1].received, 2); /* those of the library: a drain has counted its own */
    assert_int_equal(around.raised, 0);
}

/* A line comes while messages are matched: the image has to hold them, and no library has to know them. */
static void a_line_takes_matched_ones(void **state)
{
    (void)state;
    uint64_t bytes = 0;
    comes(1, 5, "first");
    comes(2, 6, "second");
    MPI_Message first = match(1, 5, 1, 5, "first"), second = match(MPI_ANY_SOURCE, 6, 2, 6, "second");
    assert_int_equal(probe_drain_matched(false, &bytes), -1);
    assert_int_equal(bytes, strlen("second") + 1);
    assert_int_equal(probe_drain_matched(true, &bytes), 0);
    come_count = 0; /* a new library */
    assert_int_equal(probe_drain_matched(false, &bytes), 0);
    check_receive(first, 1, 5, "first");
    check_receive(second, 2, 6, "second");
    assert_int_equal(world_comm.peers[1].received, 1); /* once */
}

static void one_without_memory_stays_in_the_library(void **state)
{
    (void)state;
    uint64_t bytes = 0;
    comes(1, 5, "first");
    MPI_Message message = match(1, 5, 1, 5, "first");
    below_is_memory_short = true;
    assert_int_equal(probe_drain_matched(true, &bytes), -1);
    below_is_memory_short = false;
    assert_int_equal(bytes, strlen("first") + 1);
    check_receive(message, 1, 5, "first"); /* the line has failed: the program goes on */
}

/* There is no memory for a match: the message can still be matched. */
static void a_failed_match_takes_nothing(void **state)
{
    (void)state;
    MPI_Message message = MPI_MESSAGE_NULL;
    drain(1, 5, "drained");
    below_is_memory_short = true;
    assert_int_equal(PMPI_Mprobe(1, 5, COMM, &message, MPI_STATUS_IGNORE), MPI_ERR_NO_MEM);
    below_is_memory_short = false;
    assert_int_equal(around.raised, 1);
    assert_ptr_equal(around.comm, COMM);
    check_receive(match(1, 5, 1, 5, "drained"), 1, 5, "drained");
}

static void no_process(void **state)
{
    (void)state;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status = {0};
    int flag = 0;
    drain(1, 5, "drained");
    assert_int_equal(PMPI_Improbe(MPI_PROC_NULL, 5, COMM, &flag, &message, &status), MPI_SUCCESS);
    assert_true(flag);
    assert_ptr_equal(message, MPI_MESSAGE_NO_PROC);
    assert_int_equal(PMPI_Mrecv(NULL, 0, MPI_BYTE, &message, &status), MPI_SUCCESS);
    assert_int_equal(status.MPI_SOURCE, MPI_PROC_NULL);
    assert_ptr_equal(message, MPI_MESSAGE_NULL);
}

/* The error goes to the communicator's handler, once, and the message is gone (MPI-3.1, 3.2.2 and 8.3). */
static void a_truncated_one_is_gone(void **state)
{
    (void)state;
    char small[2];
    for (int in_library = 0; in_library < 2; in_library++) {
        if (in_library)
            comes(1, 5, "long");
        else
            drain(1, 5, "long");
        MPI_Message message = match(1, 5, 1, 5, "long");
        assert_int_equal(PMPI_Mrecv(small, 2, MPI_BYTE, &message, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
        assert_ptr_equal(message, MPI_MESSAGE_NULL);
        assert_int_equal(around.raised, 1); /* the library calls the handler by itself */
        assert_ptr_equal(around.comm, COMM);
    }
}

/* Wrong arguments take no message: it can be received with right ones. */
static void wrong_arguments_leave_the_message(void **state)
{
    (void)state;
    char buffer[8];
    comes(1, 6, "b");
    drain(1, 5, "a");
    MPI_Message messages[] = {match(1, 5, 1, 5, "a"), match(1, 6, 1, 6, "b")};
    for (int i = 0; i < 2; i++) {
        MPI_Message message = messages[i];
        MPI_Request request = MPI_REQUEST_NULL;
        are_arguments_wrong = true;
        assert_int_equal(PMPI_Mrecv(buffer, -1, MPI_BYTE, &message, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
        assert_ptr_equal(message, messages[i]);
        assert_int_equal(PMPI_Imrecv(buffer, -1, MPI_BYTE, &message, &request), MPI_ERR_COUNT);
        assert_ptr_equal(message, messages[i]);
        assert_ptr_equal(request, MPI_REQUEST_NULL);
        assert_null(request_first());
        are_arguments_wrong = false;
        check_receive(message, 1, 5 + i, i ? "b" : "a");
    }
}

static void a_null_message_is_an_error(void **state)
{
    (void)state;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    char buffer[8];
    assert_int_equal(PMPI_Mrecv(buffer, 8, MPI_BYTE, &message, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    assert_int_equal(PMPI_Imrecv(buffer, 8, MPI_BYTE, &message, &request), MPI_ERR_REQUEST);
    assert_int_equal(around.raised, 2);
    assert_ptr_equal(request, MPI_REQUEST_NULL);
}

static void a_matched_receive_is_a_request(void **state)
{
    (void)state;
    char buffer[8];
    MPI_Status status = {.MPI_ERROR = 77};
    MPI_Request request = MPI_REQUEST_NULL;
    drain(1, 5, "text")->ack = 9;
    MPI_Message message = match(1, 5, 1, 5, "text");
    assert_int_equal(around.acks, 0); /* a probe does not receive: a synchronous send is not over */
    assert_int_equal(PMPI_Imrecv(buffer, 8, MPI_BYTE, &message, &request), MPI_SUCCESS);
    assert_ptr_equal(message, MPI_MESSAGE_NULL);
    assert_int_equal(around.acks, 1);
    assert_true(around.ack_rank == 1 && around.ack_request == 9);
    assert_int_equal(PMPI_Wait(&request, &status), MPI_SUCCESS);
    assert_ptr_equal(request, MPI_REQUEST_NULL);
    check_status(&status, 1, 5, "text");
    assert_string_equal(buffer, "text");
}

/* While a line converges, it is published whom a probe waits for: world ranks, anybody for a wildcard. */
static void waiting_is_published(void **state)
{
    (void)state;
    int flag = 1;
    MPI_Comm reverse = (MPI_Comm)(void *)world_reverse.handle;
    around_order(CONTROL_CONVERGE);
    PMPI_Iprobe(0, 5, reverse, &flag, MPI_STATUS_IGNORE);
    assert_false(flag);
    assert_int_equal(around.awaited_count, 1);
    assert_int_equal(around.awaited[0], 2);
    comes(1, 5, "text");
    looks_until_come = 3;
    PMPI_Probe(MPI_ANY_SOURCE, 5, COMM, MPI_STATUS_IGNORE);
    assert_int_equal(around.waits, 2);
    assert_int_equal(around.awaited_count, 0);
    assert_int_equal(half_control()->state, CONTROL_STATE_RUNNING); /* it waits no more */
    looks_until_come = 3;
    MPI_Message message = match(1, 5, 1, 5, "text");
    assert_int_equal(around.waits, 3);
    assert_int_equal(around.awaited[0], 1);
    check_receive(message, 1, 5, "text");
}

/* A line stops a rank in MPI_Probe, and its drain takes the message that the rank waits for. */
static bool line_takes(void)
{
    around.stop = NULL;
    around_order(CONTROL_RUN);
    come_count = 0;
    drain(1, 5, "text");
    return true;
}

static void a_line_stops_a_probe(void **state)
{
    (void)state;
    MPI_Status status = {.MPI_ERROR = 77};
    around_order(CONTROL_CONVERGE);
    around.stop = line_takes;
    assert_int_equal(PMPI_Probe(1, 5, COMM, &status), MPI_SUCCESS);
    check_status(&status, 1, 5, "text");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(drained_ones_come_first),
        TEST(another_communicator_does_not_match),
        TEST(matched_ones_are_the_callers),
        TEST(a_line_takes_matched_ones),
        TEST(one_without_memory_stays_in_the_library),
        TEST(a_failed_match_takes_nothing),
        TEST(no_process),
        TEST(a_truncated_one_is_gone),
        TEST(wrong_arguments_leave_the_message),
        TEST(a_null_message_is_an_error),
        TEST(a_matched_receive_is_a_request),
        TEST(waiting_is_published),
        TEST(a_line_stops_a_probe),
    };
    return cmocka_run_group_tests(tests, below_start, NULL);
}
