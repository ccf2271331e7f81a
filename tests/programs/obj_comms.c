/*
 * obj_comms - communicators of every origin and groups of every operation, made once and used in every step;
 * each step makes some more and frees or disconnects them.
 */
#include <mpi.h>
#include <string.h>

#include "tests/programs/program.h"

#define MAX_COMMS 12
#define MAX_GROUPS 12

struct comms {
    struct program program;
    MPI_Comm comms[MAX_COMMS];
    MPI_Group groups[MAX_GROUPS];
    int comm_count, group_count;
    MPI_Comm inter; /* the lower half of the ranks and the upper half */
    long step;
};

static void add(struct comms *c, long number)
{
    digest_add_number(&c->program.digest, (uint64_t)number);
}

static MPI_Comm keep(struct comms *c, MPI_Comm comm)
{
    if (comm != MPI_COMM_NULL)
        c->comms[c->comm_count++] = comm;
    return comm;
}

static MPI_Group keep_group(struct comms *c, MPI_Group group)
{
    return c->groups[c->group_count++] = group;
}

static void make_groups(struct comms *c)
{
    MPI_Group world, group, first;
    int last = c->program.ranks - 1, reversed[3] = {last, 0, -1}, evens[3] = {0, last, 2};
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    keep_group(c, world);
    MPI_Group_incl(world, 2, (int[]){last, 0}, &first);
    keep_group(c, first);
    MPI_Group_excl(world, 1, (int[]){0}, &group);
    keep_group(c, group);
    MPI_Group_union(first, group, &group);
    keep_group(c, group);
    MPI_Group_intersection(c->groups[2], first, &group);
    keep_group(c, group);
    MPI_Group_difference(world, first, &group);
    keep_group(c, group);
    MPI_Group_range_incl(world, 1, &reversed, &group);
    keep_group(c, group);
    MPI_Group_range_excl(world, 1, &evens, &group);
    keep_group(c, group);
    MPI_Group_difference(first, world, &group); /* nobody */
    keep_group(c, group);
}

static void make_by_split(struct comms *c)
{
    MPI_Comm comm;
    MPI_Request request;
    int rank = c->program.rank;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    keep(c, comm);
    MPI_Comm_idup(comm, &comm, &request);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN); /* early, as mpi4py does */
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    keep(c, comm);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
    keep(c, comm);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, rank, &comm);
    keep(c, comm);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &comm);
    keep(c, comm);
    MPI_Comm_create(MPI_COMM_WORLD, c->groups[6], &comm);
    keep(c, comm);
    if (rank == 0 || rank == c->program.ranks - 1) {
        MPI_Comm_create_group(MPI_COMM_WORLD, c->groups[1], 3, &comm);
        keep(c, comm);
    }
}

static void make_inter(struct comms *c)
{
    MPI_Comm half, merged;
    int low = c->program.ranks / 2, is_high = c->program.rank >= low;
    MPI_Comm_split(MPI_COMM_WORLD, is_high, c->program.rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_high ? 0 : low, 9, &c->inter);
    MPI_Intercomm_merge(c->inter, !is_high, &merged);
    keep(c, half);
    keep(c, merged);
}

/* Hints and names; some other program than this one may set more. */
static void decorate(struct comms *c)
{
    MPI_Info info;
    MPI_Comm comm;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Comm_dup_with_info(c->comms[0], info, &comm);
    keep(c, comm);
    MPI_Comm_set_info(c->comms[1], info);
    MPI_Info_free(&info);
    MPI_Comm_set_name(MPI_COMM_WORLD, "everybody");
    MPI_Comm_set_name(c->comms[2], "every other");
    MPI_Comm_set_name(c->inter, "between");
}

static void ask_group(struct comms *c, MPI_Group group)
{
    int size, rank, all[3] = {0, 1, c->program.ranks - 1}, there[3], result;
    MPI_Group_size(group, &size);
    MPI_Group_rank(group, &rank);
    MPI_Group_translate_ranks(c->groups[0], 3, all, group, there);
    digest_add(&c->program.digest, there, sizeof there);
    MPI_Group_compare(group, c->groups[3], &result);
    add(c, size + 100L * rank + 10000L * result);
}

static void ask_hints(struct comms *c, MPI_Comm comm)
{
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int is_there, keys;
    MPI_Comm_get_info(comm, &info);
    MPI_Info_get_nkeys(info, &keys);
    MPI_Info_get(info, "mpi_assert_no_any_tag", MPI_MAX_INFO_VAL, value, &is_there);
    digest_add(&c->program.digest, value, strlen(value));
    add(c, 100 * keys + is_there);
    MPI_Info_free(&info);
}

static void ask_comm(struct comms *c, MPI_Comm comm)
{
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Group group;
    int rank, size, length, result, is_inter;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Comm_compare(comm, c->comms[0], &result);
    MPI_Comm_test_inter(comm, &is_inter);
    add(c, rank + 100L * size + 10000L * result + 1000000L * is_inter);
    MPI_Comm_get_name(comm, name, &length);
    digest_add(&c->program.digest, name, (size_t)length);
    MPI_Comm_group(comm, &group);
    ask_group(c, group);
    MPI_Group_free(&group);
    ask_hints(c, comm);
}

static void use_comm(struct comms *c, MPI_Comm comm)
{
    long mine = c->step * 10 + c->program.rank, sum = 0;
    MPI_Scan(&mine, &sum, 1, MPI_LONG, MPI_SUM, comm); /* tells the order */
    add(c, sum);
}

static void use_inter(struct comms *c)
{
    MPI_Group remote;
    long mine = c->step * 10 + c->program.rank, sum = 0;
    int size;
    ask_comm(c, c->inter);
    MPI_Comm_remote_size(c->inter, &size);
    MPI_Comm_remote_group(c->inter, &remote);
    ask_group(c, remote);
    MPI_Group_free(&remote);
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, c->inter);
    add(c, sum + size);
}

/*
 * MPI_Comm_disconnect waits for what is pending, which a line may find so. Open MPI does not always: what has
 * come is looked at after the wait.
 */
static void disconnect_pending(struct comms *c)
{
    MPI_Comm comm;
    MPI_Request requests[2];
    long mine = c->step + c->program.rank, got = 0;
    int rank = c->program.rank, ranks = c->program.ranks;
    MPI_Comm_dup(c->comms[0], &comm);
    MPI_Irecv(&got, 1, MPI_LONG, (rank + 1) % ranks, 0, comm, &requests[0]);
    program_step(&c->program, c->step);
    MPI_Isend(&mine, 1, MPI_LONG, (rank + ranks - 1) % ranks, 0, comm, &requests[1]);
    MPI_Comm_disconnect(&comm);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    add(c, got);
}

static void use_all(struct comms *c)
{
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    add(c, parent == MPI_COMM_NULL);
    for (int i = 0; i < c->group_count; i++)
        ask_group(c, c->groups[i]);
    for (int i = 0; i < c->comm_count; i++) {
        ask_comm(c, c->comms[i]);
        use_comm(c, c->comms[i]);
    }
    use_inter(c);
    disconnect_pending(c);
}

static void make_all(struct comms *c)
{
    make_groups(c);
    make_by_split(c);
    make_inter(c);
    decorate(c);
}

static void free_all(struct comms *c)
{
    for (int i = 0; i < c->group_count; i++)
        MPI_Group_free(&c->groups[i]);
    for (int i = 0; i < c->comm_count; i++)
        MPI_Comm_free(&c->comms[i]);
    MPI_Comm_free(&c->inter);
}

/* All of them once more, now and then: they are as those that live long. */
static void make_again(struct comms *c)
{
    struct comms fresh = {.program = c->program, .step = c->step};
    if (c->step % 5)
        return;
    make_all(&fresh);
    for (int i = 0; i < fresh.comm_count; i++)
        use_comm(&fresh, fresh.comms[i]);
    c->program.digest = fresh.program.digest;
    free_all(&fresh);
}

int main(int argc, char **argv)
{
    struct comms c = {.program = {.steps = 200}};
    MPI_Init(&argc, &argv);
    program_begin(&c.program, "obj_comms", argc, argv);
    make_all(&c);
    for (c.step = 1; c.step <= c.program.steps; c.step++) {
        use_all(&c);
        make_again(&c);
    }
    free_all(&c);
    program_end(&c.program);
    MPI_Finalize();
    return 0;
}
