"""What lines leave of huge pages: random reads of `programs/huge`, which writes to each of them, natively and after
lines.
"""

import statistics

from lines import MemoryJob
from report import Result

MIB = 1024
ROUNDS = 5  # of reads in a run; the median counts
LINES = 2


def measure_huge(environment, pairs):
    found = []
    for _ in range(pairs):
        native = MemoryJob(environment, 0, program="huge", memory=(MIB,), ranks=1, is_protected=False)
        with native as job:
            base = _read_ns(job)
        with MemoryJob(environment, 0, program="huge", memory=(MIB,), ranks=1) as job:
            job.value()
            for _ in range(LINES):
                job.checkpoint()
                job.value()
            found.append((base, _read_ns(job)))
    return [Result("huge-pages", "read", "ns", found, 1.1)]


def _read_ns(job):
    job.value()
    return statistics.median(job.value() for _ in range(ROUNDS))
