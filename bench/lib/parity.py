"""Jobs under parity: what their lines cost, what they hold, and what it takes to make a lost image again (docs/parity.md)."""

from environment import BenchError
from report import Result
from several import DIRTY_TARGET, FIRST_LINES, LITTLE, MIB, NODES, PROTECT_TARGET, PROVIDER, REST_MS, VICTIM, NodesJob

EACH_LINE = 1001  # in the place of permille of the pages: shares have only the lines of 64 bytes that changed
# Of 4 nodes: with how many blocks of parity each byte is sent once.
CODES = {"XOR": 1, "RS:2+2": 2}
# Nodes, k and m: the formula of coord/protection.h for what is held between lines.
HELD = {"PARTNER": (4, 1, 1), "XOR:4": (4, 3, 1), "RS:4+2": (6, 4, 2)}
HELD_TARGET = 1.03
REBUILT_MIB, SURVIVORS = 512, 4  # of the lost rank; of its set
REBUILD_TARGET = 1.3


def measure_parity(environment, pairs):
    """Whole lines while the ranks rest, against as many bytes through as many streams of the fabric alone."""
    results = []
    for code, holders in CODES.items():
        found = []
        with NodesJob(environment, "--granularity", "page", "--redundancy", code, memory=(MIB, EACH_LINE, REST_MS)) as job:
            for _ in range(FIRST_LINES):
                job.value()
                job.checkpoint()
            for _ in range(pairs):
                fabric = environment.output_of([environment.program("fabric"), PROVIDER, str(MIB * holders), str(NODES)])
                streams_ms = next(float(line.split()[1]) for line in fabric.splitlines() if line.startswith("mac "))
                job.value()
                line = job.checkpoint()
                wanted = holders * NODES * MIB << 20
                if line["sent_bytes"] < wanted:
                    raise BenchError(f"{code}: only {line['sent_bytes']} B of {wanted} B were sent")
                found.append((streams_ms, line["protect_ms"] * wanted / line["sent_bytes"]))
        results.append(Result("parity", code, "ms", found, PROTECT_TARGET))
    return results


def measure_parity_dirty(environment, pairs):
    """Lines of a program of which a hundredth is written all the time, against lines that copy everything."""
    return [Result("parity-1%", code, "ms", list(zip(_totals(environment, pairs, code, "--tracker", "full"),
                                                     _totals(environment, pairs, code), strict=True)), DIRTY_TARGET)
            for code in CODES]


def _totals(environment, count, code, *options):
    with NodesJob(environment, "--redundancy", code, *options, memory=(MIB, LITTLE)) as job:
        job.value()
        for _ in range(FIRST_LINES):
            job.checkpoint()
        return [job.checkpoint()["total_ms"] for _ in range(count)]


def measure_parity_memory(environment, pairs):
    """What all nodes hold after a line, against the formula."""
    results = []
    for scheme, (nodes, data, parity) in HELD.items():
        found = []
        with NodesJob(environment, "--redundancy", scheme, memory=(MIB // 2, LITTLE), nodes=nodes) as job:
            job.value()
            for number in range(FIRST_LINES + pairs):
                images = job.checkpoint()["image_bytes"] / 2**20
                if number >= FIRST_LINES:
                    found.append((images * (data + parity) / data, job.status()["held_bytes"] / 2**20))
        results.append(Result("parity-memory", scheme, "MiB", found, HELD_TARGET))
    return results


def measure_rebuild(environment, pairs):
    """A spare makes the image of a lost rank again, of four survivors', against one that fetches the copy of such an image."""
    found = []
    for i in range(pairs):
        order = ("PARTNER", f"XOR:{SURVIVORS + 1}") if i % 2 == 0 else (f"XOR:{SURVIVORS + 1}", "PARTNER")
        times = {scheme: _fetch_ms(environment, scheme) for scheme in order}
        found.append((times["PARTNER"], times[f"XOR:{SURVIVORS + 1}"]))
    return [Result("rebuild", "fetch", "ms", found, REBUILD_TARGET)]


def _fetch_ms(environment, scheme):
    with NodesJob(environment, "--redundancy", scheme, "--spares", "1", memory=(REBUILT_MIB, LITTLE), nodes=SURVIVORS + 1,
                  max_restarts=1) as job:
        job.value()
        job.checkpoint()
        job.lose_node(VICTIM)
        took_ms = job.status()["history"][-1]["fetch_ms"]
    if took_ms <= 0:
        raise BenchError(f"no image came to the spare under {scheme}")
    return took_ms
