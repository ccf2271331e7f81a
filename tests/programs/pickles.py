"""mpi4py: pickled objects and buffers between neighbours, collectives, a thread, a subprocess now and then.

Options and trace as of program.h.
"""

import argparse
import array
import hashlib
import subprocess
import sys
import threading
import time

from mpi4py import MPI

from pace import incarnation, rest_after

COMM = MPI.COMM_WORLD
RANK, RANKS = COMM.Get_rank(), COMM.Get_size()
NEXT, PREVIOUS = (RANK + 1) % RANKS, (RANK - 1) % RANKS


def parse_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--trace")
    return parser.parse_args()


def exchange_objects(step, digest):
    message = {"step": step, "from": RANK, "text": "x" * (step * 37 % 5000)}
    request = COMM.isend(message, dest=NEXT, tag=3)
    got = COMM.recv(source=PREVIOUS, tag=3)
    request.wait()
    assert got["step"] == step and got["from"] == PREVIOUS, got
    digest.update(repr(sorted(got.items())).encode())


def exchange_buffers(step, digest):
    mine, theirs = array.array("d", [RANK + step * 0.5] * 1000), array.array("d", [0.0] * 1000)
    requests = [COMM.Irecv([theirs, MPI.DOUBLE], source=NEXT, tag=4), COMM.Isend([mine, MPI.DOUBLE], PREVIOUS, 4)]
    MPI.Request.Waitall(requests)
    assert theirs[999] == NEXT + step * 0.5
    digest.update(theirs.tobytes())


def collect(step, digest):
    digest.update(str(COMM.allreduce(step * RANK)).encode())
    digest.update(str(COMM.allgather((RANK, step))).encode())
    root = step % RANKS
    assert COMM.bcast({"root": root} if RANK == root else None, root=root)["root"] == root
    if step % 20 == 0:
        half = COMM.Split(RANK % 2, RANK)
        digest.update(str(half.allreduce([RANK], op=MPI.SUM)).encode())
        half.Free()


def say_hello():
    return subprocess.run(["echo", "hello"], capture_output=True, check=True).stdout


class Counter(threading.Thread):
    """Counts beside the steps, and has to go on after a restart."""

    def __init__(self):
        super().__init__(daemon=True)
        self.count = 0

    def run(self):
        while True:
            self.count += 1
            time.sleep(0.005)


def main():
    options = parse_options()
    trace = open(options.trace, "a", encoding="ascii") if options.trace and RANK == 0 else None
    digest, counter = hashlib.sha256(), Counter()
    counter.start()
    for step in range(1, options.steps + 1):
        before = counter.count
        exchange_objects(step, digest)
        exchange_buffers(step, digest)
        collect(step, digest)
        if step % 50 == 0:
            assert say_hello() == b"hello\n"
            while counter.count == before:
                time.sleep(0.001)
        if trace:
            print(incarnation(), step, time.monotonic(), file=trace, flush=True)
        rest_after(step, options.steps, options.seconds)
    digests = COMM.gather(digest.hexdigest())
    if RANK == 0:
        print("pickles:", RANKS, "ranks,", options.steps, "steps,", *digests)
    return 0


if __name__ == "__main__":
    sys.exit(main())
