"""A pool of worker processes beside mpi4py, for the whole run.

Options and trace as of program.h.
"""

import argparse
import multiprocessing
import os

from mpi4py import MPI

from pace import incarnation, rest_after

COMM = MPI.COMM_WORLD
RANK = COMM.Get_rank()


def square(number):
    return number * number


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--trace")
    options = parser.parse_args()
    total = 0
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for step in range(1, options.steps + 1):
            total = COMM.allreduce(total + sum(pool.map(square, range(step + RANK)))) % 1000003
            if RANK == 0 and options.trace:
                with open(options.trace, "a", encoding="ascii") as trace:
                    os.write(trace.fileno(), f"{incarnation()} {step} 0\n".encode())
            rest_after(step, options.steps, options.seconds)
    if RANK == 0:
        print(total)


main()
