/* peers.c - see peers.h. */
#include "mpi-layer/lower/peers.h"

#include <errno.h>
#include <mpi.h>
#include <stdlib.h>

#include "common/util/mounts.h"
#include "mpi-layer/lower/gate.h"
#include "mpi-layer/lower/vk_id.h"

struct said {
    uint64_t host, host_at_line;
    struct vk_id id;
};
_Static_assert(sizeof(struct said) == 24, "sent as bytes");

/* Those that were on one host with this one. Returns how many. */
static uint64_t choose(const struct said *all, int ranks, const struct said *own, struct vk_id *peers)
{
    uint64_t count = 0;
    for (int i = 0; i < ranks; i++)
        if (all[i].host_at_line == own->host_at_line)
            peers[count++] =
                (struct vk_id){all[i].id.known, all[i].host == own->host ? all[i].id.kernel : VK_ID_NOWHERE};
    return count;
}

int peers_meet(struct belay_error *err)
{
    struct said own = {mounts_host(), VK->ids_host, VK->ids[VK_ID_SELF]};
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    struct said *all = calloc((size_t)ranks, sizeof *all);
    struct vk_id *peers = calloc((size_t)ranks, sizeof *peers);
    int code = all && peers
                   ? MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, MPI_COMM_WORLD)
                   : MPI_ERR_NO_MEM;
    bool is_known = code == MPI_SUCCESS && vk_ids_set_peers(peers, choose(all, ranks, &own, peers));
    free(all);
    free(peers);
    return is_known
               ? 0
               : belay_error_set(err, ENOMEM, "cannot tell the ranks of this host each other's process ids");
}
