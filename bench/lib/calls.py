"""The cost of MPI calls: `programs/calls` natively and under `belay run`, in turn. No line is taken."""

import statistics

from report import Result

# Operation: the largest ratio that is wanted, or None.
TARGETS = {
    "allreduce": 1.05,
    "comm-rank": None,
    "half-round-trip": 1.10,
    "iprobe": 1.5,
    "isend-irecv-wait": None,
    "sendrecv": None,
    "sigprocmask": None,
    "waitall": 1.15,
}

LEASE_BLOCKS = 2000
LEASE_NS = 20


def measure(environment, names, pairs, blocks):
    """Results of the operations `names`: by the minimum of the blocks, and by their median."""
    native = environment.launch_line("calls", blocks, *names)
    protected = [environment.belay, "run", "--", *native]
    runs = []
    for i in range(pairs):
        # Which side is first alternates: a clock that slows down as the processor warms up favours neither.
        order = (native, protected) if i % 2 == 0 else (protected, native)
        outputs = {id(command): _parse(environment.output_of(command)) for command in order}
        runs.append((outputs[id(native)], outputs[id(protected)]))
    return [Result(name, statistic, "ns",
                   [(base[name][statistic], ours[name][statistic]) for base, ours in runs],
                   TARGETS[name] if statistic == "min" else None)
            for name in names for statistic in ("min", "median")]


def measure_lease(environment, pairs):
    """A pwrite() of 8 B under a lease, against without one: the call, and what the check of the lease takes of it."""
    native = environment.launch_line("calls", LEASE_BLOCKS, "pwrite")
    nodes = [environment.belay, "run", "--nodes", "2", "--local"]
    free, leased = [*nodes, "--", *native], [*nodes, "--lease", "1m", "--", *native]
    found = []
    for i in range(pairs):
        order = (free, leased) if i % 2 == 0 else (leased, free)
        outputs = {id(command): _parse(environment.output_of(command))["pwrite"]["min"] for command in order}
        found.append((outputs[id(free)], outputs[id(leased)]))
    more = [(base, ours - base) for base, ours in found]
    return [Result("lease-check", "min", "ns", found), Result("lease-check", "more", "ns", more, LEASE_NS, is_absolute=True)]


def _parse(output):
    """{operation: {"min": ns, "median": ns}}, means over the ranks."""
    found = {}
    for line in output.splitlines():
        name, _, minimum, median = line.split()
        found.setdefault(name, []).append((float(minimum), float(median)))
    return {name: {"min": statistics.fmean(low for low, _ in times),
                   "median": statistics.fmean(middle for _, middle in times)}
            for name, times in found.items()}
