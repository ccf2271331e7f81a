"""A pool of worker processes beside mpi4py, for the whole run.

Options and trace as of program.h.
"""

import argparse
import multiprocessing
import os

from pace import incarnation, rest_after


def square(number):
    return number * number


def main():
    from mpi4py import MPI  # not in workers that were spawned  # pylint: disable=import-outside-toplevel

    comm = MPI.COMM_WORLD
    rank = comm.Get_rank()
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--trace")
    parser.add_argument("--method", default="fork")
    options = parser.parse_args()
    total = 0
    with multiprocessing.get_context(options.method).Pool(2) as pool:
        for step in range(1, options.steps + 1):
            total = comm.allreduce(total + sum(pool.map(square, range(step + rank)))) % 1000003
            if rank == 0 and options.trace:
                with open(options.trace, "a", encoding="ascii") as trace:
                    os.write(trace.fileno(), f"{incarnation()} {step} 0\n".encode())
            rest_after(step, options.steps, options.seconds)
    if rank == 0:
        print(total)


if __name__ == "__main__":  # a worker that was spawned imports this file
    main()
