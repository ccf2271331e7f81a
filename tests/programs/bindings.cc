// bindings.cc - MPI's C++ bindings, as Debian's mpicxx pulls them in: a ring, an operation, attributes,
// topologies, an error handler. With OMPI_SKIP_MPICXX it is a C++ program that uses the C functions.
#include <mpi.h>

#include <numeric>
#include <vector>

extern "C" {
#include "tests/programs/program.h"
}

namespace
{

constexpr int COUNT = 500;

#ifndef OMPI_SKIP_MPICXX

int errors;

void combine(const void *in, void *inout, int count, const MPI::Datatype &type)
{
    if (type != MPI::INT)
        return;
    const int *from = static_cast<const int *>(in);
    int *to = static_cast<int *>(inout);
    for (int i = 0; i < count; i++)
        to[i] = (from[i] + to[i]) % 10007;
}

int copy_next(const MPI::Comm &, int, void *, void *in, void *out, bool &flag)
{
    *static_cast<char **>(out) = static_cast<char *>(in) + 1;
    flag = true;
    return MPI::SUCCESS;
}

void count_error(MPI::Comm &, int *, ...)
{
    errors++;
}

struct Ring {
    MPI::Cartcomm comm;
    MPI::Op op;
    int key, left, right;

    explicit Ring(const program &program)
    {
        const bool periods[] = {true};
        comm = MPI::COMM_WORLD.Create_cart(1, &program.ranks, periods, false);
        comm.Shift(0, 1, left, right);
        op.Init(combine, true);
        key = MPI::Comm::Create_keyval(copy_next, MPI::Comm::NULL_DELETE_FN, nullptr);
        MPI::COMM_WORLD.Set_attr(key, reinterpret_cast<void *>(1000));
        comm.Set_errhandler(MPI::Comm::Create_errhandler(count_error));
    }

    ~Ring()
    {
        op.Free();
        comm.Free();
    }

    int exchange(const std::vector<int> &mine, std::vector<int> &theirs)
    {
        MPI::Request requests[] = {comm.Irecv(theirs.data(), COUNT, MPI::INT, left, 1),
                                   comm.Isend(mine.data(), COUNT, MPI::INT, right, 1)};
        MPI::Request::Waitall(2, requests);
        int total = 0;
        comm.Allreduce(&theirs[1], &total, 1, MPI::INT, op);
        return total;
    }

    void check(const program &program)
    {
        MPI::Intracomm copy = MPI::COMM_WORLD.Dup();
        void *value = nullptr;
        if (!copy.Get_attr(key, &value) || value != reinterpret_cast<void *>(1001))
            fail(&program, "attribute %p", value);
        copy.Free();
        const int before = errors;
        comm.Send(nullptr, 1, MPI::INT, program.ranks + 5, 1);
        if (errors != before + 1)
            fail(&program, "%d errors", errors - before);
    }
};

#else

struct Ring {
    int left, right;

    explicit Ring(const program &program)
        : left((program.rank + program.ranks - 1) % program.ranks), right((program.rank + 1) % program.ranks)
    {
    }

    int exchange(const std::vector<int> &mine, std::vector<int> &theirs)
    {
        MPI_Sendrecv(mine.data(), COUNT, MPI_INT, right, 1, theirs.data(), COUNT, MPI_INT, left, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        int total = 0;
        MPI_Allreduce(&theirs[1], &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        return total;
    }

    void check(const program &)
    {
    }
};

#endif

void run(program &program)
{
    Ring ring(program);
    std::vector<int> mine(COUNT), theirs(COUNT);
    for (long step = 1; step <= program.steps; step++) {
        std::iota(mine.begin(), mine.end(), static_cast<int>(step) * 100 + program.rank);
        digest_add_number(&program.digest, static_cast<uint64_t>(ring.exchange(mine, theirs)));
        digest_add(&program.digest, theirs.data(), theirs.size() * sizeof theirs[0]);
        if (step % 10 == 0)
            ring.check(program);
        program_step(&program, step);
    }
}

} // namespace

int main(int argc, char **argv)
{
    program program = {};
    program.steps = 100;
    MPI_Init(&argc, &argv);
    program_begin(&program, "bindings", argc, argv);
    run(program);
    program_end(&program);
    MPI_Finalize();
    return 0;
}
