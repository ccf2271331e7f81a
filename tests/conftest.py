"""Fixtures of the integration tests.

BELAY_PREFIX is where Belay is installed (default: _install in the checkout), BELAY_BUILD where it was built
(default: _build). Tests marked `campaign` run with --campaign only.
"""

import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))

pytest.register_assert_rewrite("belaytest")  # its failures tell the values, as those of tests do

import traces  # noqa: E402
import cluster as clusters  # noqa: E402
from belaytest import Sandbox  # noqa: E402
from cluster_job import ClusterSandbox  # noqa: E402
from hosts import Hosts, lacking  # noqa: E402
from hosts_job import HostsSandbox  # noqa: E402
from programs import TOP, Programs  # noqa: E402
from waiting import deadline  # noqa: E402

DEFAULT_LIMIT_S = 120


def pytest_addoption(parser):
    parser.addoption("--campaign", action="store_true", help="run the long campaigns as well")


def pytest_configure(config):
    config.addinivalue_line("markers", "campaign: takes long; deselected without --campaign")
    config.addinivalue_line("markers", "limit(seconds): the longest that the test may take")
    config.addinivalue_line("markers", "hosts(name, ...): the test runs on these hosts of namespaces, and needs root")
    config.addinivalue_line("markers", "cluster: the test runs on a Slurm cluster of namespaces, and needs root")
    traces.has_own_objects = traces.leave_common_objects()


def pytest_collection_modifyitems(config, items):
    if config.getoption("--campaign"):
        return
    left_out = [item for item in items if item.get_closest_marker("campaign")]
    items[:] = [item for item in items if not item.get_closest_marker("campaign")]
    config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    marker = item.get_closest_marker("limit")
    with deadline(marker.args[0] if marker else DEFAULT_LIMIT_S, item.name):
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Let the fixtures' ends know whether the test passed."""
    outcome = yield
    if call.when == "call":
        item.has_passed = outcome.get_result().passed


@pytest.fixture(scope="session")
def prefix():
    """The folder that Belay is installed in."""
    path = os.environ.get("BELAY_PREFIX") or os.path.join(TOP, "_install")
    if not os.access(os.path.join(path, "bin", "belay"), os.X_OK):
        pytest.fail(f"no Belay in {path} (set BELAY_PREFIX)", pytrace=False)
    return path


@pytest.fixture(scope="session")
def programs(prefix, tmp_path_factory):
    build = os.environ.get("BELAY_BUILD") or os.path.join(TOP, "_build")
    return Programs(prefix, build, str(tmp_path_factory.mktemp("programs")))


@pytest.fixture(scope="session")
def restores_on_demand(prefix):
    """The kernel lets this user catch page faults, also those in system calls (vm.unprivileged_userfaultfd)."""
    doctor = subprocess.run([os.path.join(prefix, "bin", "belay"), "doctor"], capture_output=True, text=True, check=False).stdout
    row = next(row for row in doctor.splitlines() if "restore on demand" in row)
    if not row.startswith("ok"):
        pytest.skip(" ".join(row.split()))


@pytest.fixture
def hosts(request):
    """Those that the mark `hosts` names. A parameter of this fixture tells in what they differ (Hosts)."""
    if lacking():
        pytest.skip(lacking())
    made = Hosts(*request.node.get_closest_marker("hosts").args, **getattr(request, "param", {}))
    yield made
    made.destroy()


@pytest.fixture(scope="session")
def session_cluster(prefix):
    """Of each worker: clusters.Lasting."""
    if clusters.lacking():
        pytest.skip(clusters.lacking())
    lasting = clusters.Lasting(os.path.join(prefix, "lib", "belay", "spank_belay.so"))
    yield lasting
    lasting.destroy()


@pytest.fixture
def cluster(session_cluster):
    """A Slurm cluster whose nodes are idle, without any trace of what ran on it before. A test after which they do not become
    idle fails; the next one has another cluster."""
    session_cluster.reset()
    yield session_cluster.take()
    session_cluster.reset()


def make_sandbox(request, box):
    yield box
    try:
        if getattr(request.node, "has_passed", False):
            with deadline(60, "the check of what is left behind"):
                box.assert_clean()
    finally:
        box.destroy()


@pytest.fixture
def sandbox(request, prefix, programs):
    """A run directory for this test; with the mark `hosts`, commands run on the first host, with the mark `cluster` as an
    ordinary user on the first node. Whatever the test leaves behind fails it."""
    if request.node.get_closest_marker("cluster"):
        box = ClusterSandbox(prefix, programs, request.getfixturevalue("cluster"))
    elif request.node.get_closest_marker("hosts"):
        box = HostsSandbox(prefix, programs, request.getfixturevalue("hosts"))
    else:
        box = Sandbox(prefix, programs)
    yield from make_sandbox(request, box)


@pytest.fixture
def other_sandbox(request, prefix, programs):
    """Another one, as another user or another session of the same one has it."""
    yield from make_sandbox(request, Sandbox(prefix, programs))


@pytest.fixture
def belay(sandbox):
    """Run the installed command in this test's sandbox: belay("status", "job")."""
    return sandbox.belay
