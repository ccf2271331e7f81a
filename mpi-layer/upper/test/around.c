/* around.c - see around.h. */
#include "mpi-layer/upper/test/around.h"

#include <stddef.h>
#include <string.h>

#include "mpi-layer/upper/ack.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/line.h"
#include "mpi-layer/upper/test/below.h"

struct around around;

static void note(void)
{
    around.notes++;
}

void around_start(void)
{
    memset(&around, 0, sizeof around);
    memset(half_control(), 0, sizeof(struct control) + BELOW_CLOCKS * sizeof(struct control_clock));
    GATE->notify = note;
}

void around_order(uint32_t command)
{
    half_control()->command = command;
    half_control()->command_seq++;
}

int errors_raise(MPI_Comm comm, int code)
{
    around.raised++;
    around.code = code;
    around.comm = comm;
    return code;
}

void line_publish_waiting(const int *world_ranks, uint32_t count)
{
    half_control()->state = CONTROL_STATE_WAITING;
    half_control()->peer_count = count;
    around.waits++;
    around.awaited_count = count;
    for (uint32_t i = 0; i < count; i++)
        half_control()->peers[i] = around.awaited[i] = world_ranks[i];
}

bool line_stop_if_ordered(void)
{
    return around.stop ? around.stop() : false;
}

bool line_fault(const char *point, uint64_t line)
{
    (void)point;
    (void)line;
    return false;
}

void ack_poll(void)
{
    if (around.poll)
        around.poll();
}

void ack_send(int world_rank, uint64_t request, uint64_t serial)
{
    around.acks++;
    around.ack_rank = world_rank;
    around.ack_request = request;
    around.ack_serial = serial;
}
