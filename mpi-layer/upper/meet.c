/* meet.c - see meet.h. */
#include "mpi-layer/upper/meet.h"

#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/collective.h"
#include "mpi-layer/upper/comm.h"

enum { TAG_COME = 1, TAG_GO, TAG_LEADERS }; /* on the communicator of acknowledgements, which uses 0 */

static uint64_t made; /* ids chosen by this rank so far */

/* Never the same twice, on no rank; far from the hashes that other communicators get. */
static uint64_t choose_id(void)
{
    return (uint64_t)comm_world()->rank << 32 | (++made + 16);
}

static void send_word(int world_rank, int tag, uint64_t word)
{
    PMPI_Send(&word, 1, MPI_UINT64_T, world_rank, tag, comm_acks());
}

static uint64_t receive_word(int world_rank, int tag)
{
    uint64_t word = 0;
    PMPI_Recv(&word, 1, MPI_UINT64_T, world_rank, tag, comm_acks(), MPI_STATUS_IGNORE);
    return word;
}

/* The id that the leader chooses reaches everybody when everybody has come. */
static uint64_t agree(const int *world, int size, int rank, int leader, int remote_leader_world)
{
    uint64_t id;
    if (rank != leader) {
        send_word(world[leader], TAG_COME, 0);
        return receive_word(world[leader], TAG_GO);
    }
    for (int i = 0; i < size; i++)
        if (i != leader)
            receive_word(world[i], TAG_COME);
    id = choose_id();
    if (remote_leader_world >= 0) {
        send_word(remote_leader_world, TAG_LEADERS, id);
        uint64_t theirs = receive_word(remote_leader_world, TAG_LEADERS);
        id = remote_leader_world < world[leader] ? theirs : id;
    }
    for (int i = 0; i < size; i++)
        if (i != leader)
            send_word(world[i], TAG_GO, id);
    return id;
}

static MPI_Comm meet(const int *world, int size, int rank, int leader, int remote_leader_world)
{
    MPI_Comm made = comm_reserve(agree(world, size, rank, leader, remote_leader_world));
    agree(world, size, rank, leader, remote_leader_world);
    if (made)
        collective_enter(made);
    return made;
}

MPI_Comm meet_group(const int *world, int size, int rank)
{
    return meet(world, size, rank, 0, -1);
}

MPI_Comm meet_groups(const int *world, int size, int rank, int leader, int remote_leader_world)
{
    return meet(world, size, rank, leader, remote_leader_world);
}
