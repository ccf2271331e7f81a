// hybrid_cxx - tasks, exceptions in threads, a C++ thread beside them; any thread calls MPI, one at a time
// (MPI_THREAD_SERIALIZED).
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

extern "C" {
#include "tests/programs/hybrid.h"
#include "tests/programs/program.h"
}

namespace
{

program state;

// Counts the steps that it is told of.
class Listener
{
  public:
    Listener() : thread_([this] { listen(); })
    {
    }
    ~Listener()
    {
        thread_.join();
    }
    void tell(long step)
    {
        std::lock_guard<std::mutex> guard(mutex_);
        told_ = step;
        changed_.notify_one();
    }
    long heard() const
    {
        return heard_;
    }

  private:
    void listen()
    {
        std::unique_lock<std::mutex> guard(mutex_);
        while (heard_ < state.steps) {
            changed_.wait_for(guard, std::chrono::seconds(1), [this] { return told_ > heard_; });
            heard_ = told_;
        }
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    long told_ = 0;
    std::atomic<long> heard_{0};
    std::thread thread_;
};

long throwing_sum(long step, long from, long to)
{
    long sum = 0;
    for (long i = from; i < to; i++)
        sum += hybrid_term(step, i);
    throw sum;
}

long sum_of_step(long step)
{
    long sum = 0;
    const long part = HYBRID_TERMS / 8;
#pragma omp parallel
#pragma omp single
    for (int k = 0; k < 8; k++) {
#pragma omp task shared(sum) firstprivate(k)
        try {
            throwing_sum(step, k * part, (k + 1) * part);
        } catch (long part_sum) {
#pragma omp atomic
            sum += part_sum;
        }
    }
    return sum;
}

} // namespace

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    state.steps = 100;
    program_begin(&state, "hybrid", argc, argv);
    Listener listener;
    for (long step = 1; step <= state.steps; step++) {
        long all = 0, mine = sum_of_step(step);
#pragma omp parallel
#pragma omp single
        MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        digest_add_number(&state.digest, static_cast<uint64_t>(all));
        program_step(&state, step);
        listener.tell(step);
    }
    program_end(&state);
    MPI_Finalize();
    return 0;
}
