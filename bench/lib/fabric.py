"""What it costs that data between nodes go through slabs and are authenticated: `programs/fabric`, two processes on one
node, against the bare writes of libfabric's provider in the same run.
"""

from report import Result

MIB = 2048
PROVIDER = "tcp"


def measure_fabric(environment, pairs):
    command = [environment.program("fabric"), PROVIDER, str(MIB)]
    runs = [_run(environment, command) for _ in range(pairs)]
    return [Result(f"fabric {way}", kind, "ms", [(run["raw"][i], run[way][i]) for run in runs])
            for way in ("mac", "encrypted") for i, kind in enumerate(("time", "cpu"))]


def _run(environment, command):
    """Of each way its time and its processor time, in ms."""
    lines = [line.split() for line in environment.output_of(command).splitlines()]
    return {way: (float(took), float(cpu)) for way, took, cpu in lines}
