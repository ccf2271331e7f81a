"""mpi4py as scientists use it: objects of classes of their own, arrays in threads' BLAS, a file, a topology, callbacks.

Options and trace as of program.h; OPENBLAS_NUM_THREADS says how many threads multiply. With --table there is an array of so many
MiB, of which each step reads and writes a few rows.
"""

import argparse
import time
from collections import Counter

import numpy
from mpi4py import MPI

from pace import incarnation, rest_after

SIZE = 200


class Task:
    def __init__(self, number):
        self.number = number
        self.data = {"squares": [number * number, str(number)], "range": numpy.arange(number % 7)}

    def check(self, number):
        assert self.number == number and self.data["range"].sum() == sum(range(number % 7))


def larger(one, other, _):
    numpy.maximum(numpy.frombuffer(one), numpy.frombuffer(other), out=numpy.frombuffer(other))


def matrix(rank):
    """Whole numbers: products are exact whatever the order in which threads add up."""
    return (numpy.arange(SIZE * SIZE).reshape(SIZE, SIZE) * (rank + 3) % 11 - 5).astype("d")


def table_of(mib, rank):
    """Of rows of a page each."""
    return numpy.arange(mib * 2**17, dtype="d").reshape(-1, 512) + rank


def look_up(table, step):
    """Rows far from one another, which are not the same in each step."""
    rows = (numpy.arange(16) * 7919 + step * 104729) % len(table)
    table[rows] += 1
    return float(table[rows].sum())


def parse_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--table", type=int, default=0)
    parser.add_argument("--trace")
    return parser.parse_args()


def main():
    options = parse_options()
    world = MPI.COMM_WORLD
    rank, size = world.rank, world.size
    cart = world.Create_cart(MPI.Compute_dims(size, 2), periods=[True, True])
    key = MPI.Comm.Create_keyval(copy_fn=lambda comm, key, value: value + ["copied"],
                                 delete_fn=lambda comm, key, value: None)
    cart.Set_attr(key, ["made"])
    operation = MPI.Op.Create(larger, commute=True)
    file = MPI.File.Open(world, "science.dat", MPI.MODE_CREATE | MPI.MODE_RDWR)
    places = MPI.DOUBLE.Create_vector(4, 2, 2 * size).Commit()
    file.Set_view(rank * 16, MPI.DOUBLE, places)
    mine, words, total = matrix(rank), Counter(), 0.0
    table = table_of(options.table, rank)
    for step in range(options.steps):
        source, target = cart.Shift(step % 2, 1)
        request = cart.isend(Task(step + rank), target, tag=step)
        task = cart.recv(source=source, tag=step)
        request.wait()
        task.check(step + source)
        words.update(task.data["squares"][1])
        theirs = numpy.empty_like(mine)
        cart.Sendrecv(mine, target, 5, theirs, source, 5)
        mine = (mine @ theirs) % 11 - 5
        extremes = numpy.empty(2)
        world.Allreduce(numpy.array([mine.sum(), -mine.sum()]), extremes, op=operation)
        total += float(extremes[0] + 3 * extremes[1])
        if options.table:
            total += world.allreduce(look_up(table, step)) % 1e6
        merged = world.allreduce(words, op=MPI.SUM)
        if step % 10 == 0:
            copy = cart.Dup()
            assert copy.Get_attr(key) == ["made", "copied"]
            copy.Free()
            file.Write_all(numpy.full(8, step + rank, dtype="d"))
        assert world.scatter([[i, step] for i in range(size)] if rank == 0 else None, root=0) == [rank, step]
        if options.trace and rank == 0:
            with open(options.trace, "a", encoding="ascii") as log:
                log.write(f"{incarnation()} {step + 1} {time.monotonic():.9f}\n")
        rest_after(step, options.steps, options.seconds)
    file.Close()
    if rank == 0:
        print(sum(merged.values()), sorted(merged.items()), total)


if __name__ == "__main__":
    main()
