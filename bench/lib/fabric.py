"""What it costs that data between nodes go through slabs and are authenticated: `programs/fabric`, two processes on one
node, against the bare writes of libfabric's provider in the same run.
"""

from report import Result

MIB = 2048
SEALED_TARGET = 1 / 0.9  # the time of nine tenths of the rate
PROVIDER = "tcp"


def measure_fabric(environment, pairs):
    command = [environment.program("fabric"), PROVIDER, str(MIB)]
    runs = [_run(environment, command) for _ in range(pairs)]
    return [Result(f"fabric {way}", kind, "ms", [(run["raw"][i], run[way][i]) for run in runs])
            for way in ("mac", "encrypted") for i, kind in enumerate(("time", "cpu"))]


def measure_sealed(environment, pairs):
    """As many bytes with MACs, sums of all pages and the hash over the sums, against the same without all of them."""
    sealed = [environment.program("fabric"), PROVIDER, str(MIB), "1", "sums"]
    plain = [environment.program("fabric_plain"), PROVIDER, str(MIB)]
    runs = []
    for number in range(pairs):  # the first of the two alternates
        first, second = (plain, sealed) if number % 2 else (sealed, plain)
        times = {first[0]: _run(environment, first), second[0]: _run(environment, second)}
        runs.append((times[plain[0]]["mac"], times[sealed[0]]["mac"]))
    return [Result("sealed", kind, "ms", [(plain[i], sealed[i]) for plain, sealed in runs], target)
            for i, (kind, target) in enumerate((("time", SEALED_TARGET), ("cpu", None)))]


def _run(environment, command):
    """Of each way its time and its processor time, in ms."""
    lines = [line.split() for line in environment.output_of(command).splitlines()]
    return {way: (float(took), float(cpu)) for way, took, cpu in lines}
