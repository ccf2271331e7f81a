"""LD_PRELOAD without `belay run`, over several hosts (lib/hosts.py)."""

import os
import subprocess

import pytest

from hosts import Hosts, lacking
from test_hosts import HostsSandbox, workload
from waiting import run

pytestmark = pytest.mark.skipif(bool(lacking()), reason=lacking())


@pytest.fixture(name="hosts")
def made_hosts():
    made = Hosts("a", "b")
    yield made
    made.destroy()


@pytest.fixture(name="sandbox")
def made_sandbox(request, prefix, programs, hosts):
    box = HostsSandbox(prefix, programs, hosts)
    yield box
    try:
        if getattr(request.node, "has_passed", False):
            box.assert_clean()
    finally:
        box.destroy()


def preload_line(sandbox, program, hosts="a:2,b:2", **settings):
    settings = {"LD_PRELOAD": os.path.join(sandbox.prefix, "lib", "belay", "libbelay.so"), "BELAY_NAME": "job",
                "BELAY_INTERVAL": "300ms", **settings}
    return ["mpirun", *[word for name, value in settings.items() for word in ("-x", f"{name}={value}")], "--host", hosts,
            *program.argv]


def test_without_belay_run(sandbox, programs):
    """It is refused: each host's agent would wait for the ranks of the other one, and the program would run unprotected."""
    done = run(sandbox.hosts.on("a", *preload_line(sandbox, workload(programs))), 60, text=True, cwd=sandbox.folder,
               env=sandbox.environment, stdin=subprocess.DEVNULL)
    assert done.returncode == 97, done.stderr
    assert done.stderr.count("host a is one of several of this launch") <= 1
    assert "one of several of this launch" in done.stderr
    assert "put 'belay run --' before the launch line" in done.stderr
    assert sandbox.status("job") is None
