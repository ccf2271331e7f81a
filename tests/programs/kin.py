"""Neighbours (ranks 2k and 2k+1) share an array by multiprocessing.shared_memory, and nothing with others."""

import argparse
from multiprocessing import resource_tracker, shared_memory

import numpy
from mpi4py import MPI

from pace import incarnation, rest_after

CELLS = 4096


def parse_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--trace")
    return parser.parse_args()


def share(pair):
    """The even rank makes it, and removes it at the end."""
    shared = shared_memory.SharedMemory(create=True, size=8 * CELLS) if pair.rank == 0 else None
    name = pair.bcast(shared.name if shared else None)
    if not shared:
        shared = shared_memory.SharedMemory(name)
        resource_tracker.unregister(shared._name, "shared_memory")  # it is not this rank's to remove
    return shared


def main():
    options = parse_options()
    world = MPI.COMM_WORLD
    pair = world.Split(world.rank // 2, world.rank)
    shared = share(pair)
    cells = numpy.ndarray(CELLS, dtype="u8", buffer=shared.buf)
    trace = open(options.trace, "a", buffering=1) if options.trace and world.rank == 0 else None
    digest = 0
    for step in range(1, options.steps + 1):
        if step % 2 == pair.rank:
            cells[step * 513 % CELLS] = cells[(step - 1) * 513 % CELLS] * 6364136223846793005 % 2**63 + world.rank + step
        pair.Barrier()
        digest = (digest * 31 + int(cells.sum() % 2**32)) % 2**61
        pair.Barrier()
        total = world.allreduce(digest % 2**20)
        digest = (digest + total) % 2**61
        if trace:
            trace.write(f"{incarnation()} {step} 0\n")
        rest_after(step, options.steps, options.seconds)
    digests = world.gather(digest)
    if world.rank == 0:
        print("kin", digests)
    del cells
    shared.close()
    if pair.rank == 0:
        shared.unlink()


main()
