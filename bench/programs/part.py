"""part.py MIB PERCENT - a NumPy program that uses a part of its memory.

Each rank fills MIB of arrays. A step works on PERCENT of them, always the same ones; rank 0 prints how long it took, in
nanoseconds. It ends when it is stopped.
"""

import sys
import time

import numpy
from mpi4py import MPI

ARRAY_MIB = 1


def main():
    mib, percent = int(sys.argv[1]), int(sys.argv[2])
    world = MPI.COMM_WORLD
    arrays = [numpy.full(ARRAY_MIB << 17, float(world.rank + number)) for number in range(mib)]
    used = arrays[:max(1, mib * percent // 100)]
    while True:
        world.Barrier()
        begin = time.monotonic_ns()
        for array in used:
            numpy.multiply(array, 1.0000001, out=array)
        world.allreduce(float(used[0].sum()))
        if world.rank == 0:
            print(time.monotonic_ns() - begin, flush=True)


main()
