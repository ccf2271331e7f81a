/*
 * comm_calls.c - functions of MPI that make and end communicators: collectives on their parent, or over
 * groups that have none in common (meet.h).
 */
#include "mpi-layer/api/api.gen.h"
#include "mpi-layer/upper/arena.h"
#include "mpi-layer/upper/attr.h"
#include "mpi-layer/upper/collective.h"
#include "mpi-layer/upper/comm.h"
#include "mpi-layer/upper/errors.h"
#include "mpi-layer/upper/half.h"
#include "mpi-layer/upper/meet.h"
#include "mpi-layer/upper/request.h"
#include "mpi-layer/upper/wait.h"

static int out_of_memory(MPI_Comm comm)
{
    return errors_raise(comm, MPI_ERR_NO_MEM);
}

/* Common end of the creating calls: record the new communicator and leave the parent's collective. */
static int created(int code, void *real, MPI_Comm parent, MPI_Comm *new_comm)
{
    MPI_Comm made = MPI_COMM_NULL;
    if (code == MPI_SUCCESS && !(made = comm_register(real, comm_of(parent))))
        code = out_of_memory(parent);
    if (code == MPI_SUCCESS)
        *new_comm = made;
    comm_reap();
    collective_leave(parent);
    return code;
}

static int copy_attributes(MPI_Comm parent, MPI_Comm made)
{
    int code = attr_copy_all(comm_of(parent)->handle, made);
    return code == MPI_SUCCESS ? code : errors_raise(parent, code);
}

/* What a duplicate takes over beside the members. */
static int duplicated(int code, MPI_Comm parent, bool has_hints, MPI_Comm *new_comm)
{
    if (code != MPI_SUCCESS)
        return code;
    comm_of(*new_comm)->has_hints = has_hints;
    return copy_attributes(parent, *new_comm);
}

int PMPI_Comm_dup(MPI_Comm comm, MPI_Comm *newcomm)
{
    void *real = NULL;
    collective_enter(comm);
    int code = lower_MPI_Comm_dup(api_real(comm), &real);
    code = created(code, real, comm, newcomm);
    return duplicated(code, comm, comm_of(comm) && comm_of(comm)->has_hints, newcomm);
}
API_EXPORT(MPI_Comm_dup);

int PMPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm)
{
    void *real = NULL;
    collective_enter(comm);
    int code = lower_MPI_Comm_dup_with_info(api_real(comm), api_real(info), &real);
    return duplicated(created(code, real, comm, newcomm), comm, true, newcomm);
}
API_EXPORT(MPI_Comm_dup_with_info);

int PMPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *newcomm)
{
    void *real = NULL;
    collective_enter(comm);
    int code = lower_MPI_Comm_split(api_real(comm), color, key, &real);
    return created(code, real, comm, newcomm);
}
API_EXPORT(MPI_Comm_split);

int PMPI_Comm_split_type(MPI_Comm comm, int split_type, int key, MPI_Info info, MPI_Comm *newcomm)
{
    void *real = NULL;
    collective_enter(comm);
    int code = lower_MPI_Comm_split_type(api_real(comm), split_type, key, api_real(info), &real);
    return created(code, real, comm, newcomm);
}
API_EXPORT(MPI_Comm_split_type);

int PMPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *newcomm)
{
    void *real = NULL;
    collective_enter(comm);
    int code = lower_MPI_Comm_create(api_real(comm), api_real(group), &real);
    return created(code, real, comm, newcomm);
}
API_EXPORT(MPI_Comm_create);

/* It has not begun. Both may be NULL. */
static void forget_duplicate(struct request *r, MPI_Comm made)
{
    if (made)
        comm_unregister(comm_of(made));
    if (r)
        request_delete(r);
}

/*
 * The new communicator is complete when the request is; until then its record is a copy of the old one's.
 * The library names the real one at once, and some programs (mpi4py) give it an error handler at once, too,
 * though MPI would have them wait.
 */
int PMPI_Comm_idup(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request)
{
    collective_enter(comm);
    struct comm *c = comm_of(comm);
    struct request *r = c ? request_new(REQUEST_COLLECTIVE, comm, NULL) : NULL;
    MPI_Comm made = r ? comm_copy(c) : NULL;
    int code = c ? MPI_ERR_NO_MEM : MPI_ERR_COMM;
    if (made) {
        r->is_special = true;
        code = lower_MPI_Comm_idup(api_real(comm), &r->made_real, &r->real);
    }
    if (code == MPI_SUCCESS) {
        r->made = (struct handle *)(void *)made;
        handle_set_real(r->made, r->made_real);
        comm_of(made)->is_incomplete = true;
        *newcomm = made;
        *request = (MPI_Request)(void *)r;
    } else {
        forget_duplicate(r, made);
    }
    collective_leave(comm);
    if (code != MPI_SUCCESS)
        return made ? code : errors_raise(comm, code); /* else the library has raised it */
    return duplicated(code, comm, c->has_hints, newcomm);
}
API_EXPORT(MPI_Comm_idup);

/* ---- process topologies ---- */

int PMPI_Cart_create(MPI_Comm old_comm, int ndims, const int dims[], const int periods[], int reorder,
                     MPI_Comm *comm_cart)
{
    void *real = NULL;
    collective_enter(old_comm);
    int code = lower_MPI_Cart_create(api_real(old_comm), ndims, dims, periods, reorder, &real);
    return created(code, real, old_comm, comm_cart);
}
API_EXPORT(MPI_Cart_create);

int PMPI_Cart_sub(MPI_Comm comm, const int remain_dims[], MPI_Comm *new_comm)
{
    void *real = NULL;
    collective_enter(comm);
    int code = lower_MPI_Cart_sub(api_real(comm), remain_dims, &real);
    return created(code, real, comm, new_comm);
}
API_EXPORT(MPI_Cart_sub);

int PMPI_Graph_create(MPI_Comm comm_old, int nnodes, const int index[], const int edges[], int reorder,
                      MPI_Comm *comm_graph)
{
    void *real = NULL;
    collective_enter(comm_old);
    int code = lower_MPI_Graph_create(api_real(comm_old), nnodes, index, edges, reorder, &real);
    return created(code, real, comm_old, comm_graph);
}
API_EXPORT(MPI_Graph_create);

int PMPI_Dist_graph_create(MPI_Comm comm_old, int n, const int nodes[], const int degrees[],
                           const int targets[], const int weights[], MPI_Info info, int reorder,
                           MPI_Comm *newcomm)
{
    void *real = NULL;
    collective_enter(comm_old);
    int code = lower_MPI_Dist_graph_create(api_real(comm_old), n, nodes, degrees, targets, weights,
                                           api_real(info), reorder, &real);
    return created(code, real, comm_old, newcomm);
}
API_EXPORT(MPI_Dist_graph_create);

int PMPI_Dist_graph_create_adjacent(MPI_Comm comm_old, int indegree, const int sources[],
                                    const int sourceweights[], int outdegree, const int destinations[],
                                    const int destweights[], MPI_Info info, int reorder,
                                    MPI_Comm *comm_dist_graph)
{
    void *real = NULL;
    collective_enter(comm_old);
    int code =
        lower_MPI_Dist_graph_create_adjacent(api_real(comm_old), indegree, sources, sourceweights, outdegree,
                                             destinations, destweights, api_real(info), reorder, &real);
    return created(code, real, comm_old, comm_dist_graph);
}
API_EXPORT(MPI_Dist_graph_create_adjacent);

/* ---- groups that share no communicator of their own: the members meet first (meet.h) ---- */

static int adopted(int code, void *real, MPI_Comm made, MPI_Comm parent, MPI_Comm *new_comm)
{
    struct comm *c = comm_of(made);
    bool is_made = code == MPI_SUCCESS && real != api_real(MPI_COMM_NULL);
    if (is_made && comm_fill(c, real)) {
        is_made = false;
        code = out_of_memory(parent);
    }
    if (!is_made)
        comm_unregister(c);
    if (code == MPI_SUCCESS)
        *new_comm = is_made ? made : MPI_COMM_NULL;
    comm_reap();
    collective_leave(MPI_COMM_NULL);
    return code;
}

/* Not a member, or a group that makes no sense: the library says what that means. */
static int create_group_alone(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *newcomm)
{
    void *real = NULL;
    wrapper_enter();
    int code = lower_MPI_Comm_create_group(api_real(comm), api_real(group), tag, &real);
    wrapper_leave();
    if (code == MPI_SUCCESS)
        *newcomm = MPI_COMM_NULL;
    return code;
}

int PMPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *newcomm)
{
    void *real = NULL, *members = NULL;
    int size = 0, rank = MPI_UNDEFINED, *world = NULL;
    wrapper_enter();
    lower_MPI_Group_size(api_real(group), &size);
    lower_MPI_Group_rank(api_real(group), &rank);
    if (rank != MPI_UNDEFINED && !lower_MPI_Group_excl(api_real(group), 0, NULL, &members))
        world = comm_members(members, size);
    wrapper_leave();
    if (!world)
        return create_group_alone(comm, group, tag, newcomm);
    MPI_Comm made = meet_group(world, size, rank);
    arena_free(world);
    if (!made)
        return out_of_memory(comm);
    int code = lower_MPI_Comm_create_group(api_real(comm), api_real(group), tag, &real);
    code = adopted(code, real, made, comm, newcomm);
    /* Open MPI takes the attributes over, which MPI does not ask for: programs find them there. */
    return code == MPI_SUCCESS ? copy_attributes(comm, *newcomm) : code;
}
API_EXPORT(MPI_Comm_create_group);

int PMPI_Intercomm_create(MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader,
                          int tag, MPI_Comm *newintercomm)
{
    void *real = NULL;
    const struct comm *local = comm_of(local_comm), *peer = comm_of(peer_comm);
    if (!local)
        return errors_raise(local_comm, MPI_ERR_COMM);
    bool is_leader = local->rank == local_leader;
    if (is_leader && (!peer || remote_leader < 0 || remote_leader >= peer->size))
        return errors_raise(local_comm, peer ? MPI_ERR_RANK : MPI_ERR_COMM);
    MPI_Comm made = meet_groups(local->world, local->size, local->rank, local_leader,
                                is_leader ? peer->world[remote_leader] : 0);
    if (!made)
        return out_of_memory(local_comm);
    int code = lower_MPI_Intercomm_create(api_real(local_comm), local_leader, api_real(peer_comm),
                                          remote_leader, tag, &real);
    return adopted(code, real, made, local_comm, newintercomm);
}
API_EXPORT(MPI_Intercomm_create);

int PMPI_Intercomm_merge(MPI_Comm intercomm, int high, MPI_Comm *newcomm)
{
    void *real = NULL;
    collective_enter(intercomm);
    int code = lower_MPI_Intercomm_merge(api_real(intercomm), high, &real);
    return created(code, real, intercomm, newcomm);
}
API_EXPORT(MPI_Intercomm_merge);

/*
 * The real communicator lives on until every member has freed it and what was sent on it has been received:
 * a line must not find messages of a communicator that half of its members have forgotten.
 */
int PMPI_Comm_free(MPI_Comm *comm)
{
    struct comm *c = comm_of(*comm);
    if (!c || c->handle->is_predefined) {
        wrapper_enter();
        void *real = api_real(*comm);
        int code = lower_MPI_Comm_free(&real); /* the library says what is wrong with it */
        wrapper_leave();
        return code;
    }
    int code = attr_delete_all(c->handle);
    if (code != MPI_SUCCESS)
        return errors_raise(*comm, code);
    collective_enter(*comm);
    code = comm_end(c);
    if (code == MPI_SUCCESS)
        *comm = MPI_COMM_NULL;
    comm_reap();
    collective_leave(MPI_COMM_NULL);
    return code == MPI_SUCCESS ? code : errors_raise(*comm, code);
}
API_EXPORT(MPI_Comm_free);

/* No process of another job is ever connected: it is a free that waits. */
int PMPI_Comm_disconnect(MPI_Comm *comm)
{
    if (comm_of(*comm))
        wait_idle(comm_of(*comm));
    return PMPI_Comm_free(comm);
}
API_EXPORT(MPI_Comm_disconnect);

int PMPI_Comm_set_name(MPI_Comm comm, const char *name)
{
    wrapper_enter();
    int code = lower_MPI_Comm_set_name(api_real(comm), name);
    if (code == MPI_SUCCESS && handle_set_name(comm, name))
        code = out_of_memory(comm);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Comm_set_name);

int PMPI_Comm_set_info(MPI_Comm comm, MPI_Info info)
{
    wrapper_enter();
    int code = lower_MPI_Comm_set_info(api_real(comm), api_real(info));
    if (code == MPI_SUCCESS) {
        comm_of(comm)->has_hints = true;
        comm_of(comm)->are_hints_noted = false;
    }
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Comm_set_info);

/* Asked so often that the way to the library would show. */

int PMPI_Comm_rank(MPI_Comm comm, int *rank)
{
    const struct comm *c = comm_of(comm);
    if (LIKELY(c && rank)) {
        *rank = c->rank;
        return MPI_SUCCESS;
    }
    wrapper_enter();
    int code = lower_MPI_Comm_rank(api_real(comm), rank);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Comm_rank);

int PMPI_Comm_size(MPI_Comm comm, int *size)
{
    const struct comm *c = comm_of(comm);
    if (LIKELY(c && size)) {
        *size = comm_is_inter(c) ? c->local_size : c->size;
        return MPI_SUCCESS;
    }
    wrapper_enter();
    int code = lower_MPI_Comm_size(api_real(comm), size);
    wrapper_leave();
    return code;
}
API_EXPORT(MPI_Comm_size);
