"""Functions that communicate or handle requests: used before a line, pending across it, used after it."""

import os
import re

import pytest

from belaytest import assert_recovered, assert_same_result, run_and_recover
from programs import TOP, run_native

WITHOUT_CMA = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
CLASSES = ("send", "recv", "probe", "request", "collective", "icollective")


def supported_functions():
    """Those of the classes above that are carried; conversions of handles communicate nothing."""
    with open(os.path.join(TOP, "mpi-layer", "api", "functions.tsv"), encoding="ascii") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    return {row[0] for row in rows if row[1] in CLASSES and row[2] in ("generated", "custom") and
            not row[0].endswith(("_c2f", "_f2c"))}


def test_every_function_has_a_pattern(programs, tmp_path):
    done = run_native(programs.test_program("req_functions", "--mode", "list", ranks=2), tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    assert set(done.stdout.decode().split()) >= supported_functions()


@pytest.mark.parametrize("variables", [{}, WITHOUT_CMA], ids=["cma", "pipelined"])
def test_all_functions(sandbox, programs, variables):
    """Each step begins all that can be pending, rests for longer than the interval, and ends it."""
    run_and_recover(sandbox, programs.test_program("req_functions", "--steps", 34), **variables)


def test_detach_waits_for_messages(sandbox, programs):
    run_and_recover(sandbox, programs.test_program("req_functions", "--mode", "MPI_Buffer_detach", "--steps", 20))


def test_without_lines(sandbox, programs):
    job = sandbox.run(programs.test_program("req_functions", "--steps", 34, "--value", 1), interval=None)
    job.wait()
    assert_same_result(job)


def processor_seconds(errors):
    """What req_many says of its beginning and its end, together."""
    return sum(map(float, re.search(r"processor time: ([\d.]+) s to begin, ([\d.]+) s to end", errors).groups()))


CAMPAIGN = pytest.mark.campaign


@pytest.mark.parametrize("mode, count", [
    ("tags", 10000), ("receives", 20000), ("comms", 3000), pytest.param("issend", 20000, marks=CAMPAIGN),
    pytest.param("tags", 20000, marks=CAMPAIGN), pytest.param("unexpected", 20000, marks=CAMPAIGN),
    pytest.param("objects", 20000, marks=CAMPAIGN)])
def test_many(sandbox, programs, tmp_path, mode, count):
    """What calls and lines cost does not grow with the square of what is pending, nor much with its number."""
    program = programs.test_program("req_many", "--mode", mode, "--value", count, "--steps", 100, ranks=2)
    native = run_native(program, tmp_path).stderr.decode()
    job = run_and_recover(sandbox, program)
    slack = 1 if mode == "receives" else 0.2  # how often all are looked at depends on when messages come
    assert processor_seconds(job.errors) < 3 * processor_seconds(native) + slack
    drains = [line["drain_ms"] for line in job.status()["lines"] if line["state"] == "committed"]
    assert min(drains[1:9]) < 12, drains  # the first one takes the messages; other work delays some


ERRORS = """\
detach of nothing: MPI_ERR_BUFFER
attach of a negative size: MPI_ERR_ARG
attach: MPI_SUCCESS
attach of a second one: MPI_ERR_BUFFER
detach: MPI_SUCCESS
sends that fit: MPI_SUCCESS
one more: MPI_ERR_BUFFER
when there is room: MPI_SUCCESS
a rank too high: MPI_ERR_RANK
a negative tag: MPI_ERR_TAG
a negative count: MPI_ERR_COUNT
no datatype: MPI_ERR_TYPE
no source: MPI_ERR_RANK
free of no request: MPI_ERR_REQUEST
cancel of no request: MPI_ERR_REQUEST
start of no request: MPI_ERR_REQUEST
start of an ordinary one: MPI_ERR_REQUEST
persistent receive of two words: MPI_ERR_TRUNCATE
persistent receive of two words: MPI_SUCCESS
persistent receive of two words: MPI_SUCCESS
"""


def test_errors(sandbox, programs):
    """As the standard has them; Open MPI 4.1 itself stands still after a buffered send without room."""
    job = sandbox.run(programs.test_program("req_errors", ranks=2), interval=None, trace=False)
    assert job.wait(30) == 0, job.errors
    said = [line.rsplit(":", 1)[0] for line in job.read("out").decode().splitlines()]
    assert said == ERRORS.splitlines()


@pytest.mark.campaign
@pytest.mark.limit(600)
@pytest.mark.parametrize("kill", range(20))
def test_campaign_of_kills(sandbox, programs, kill):
    job = sandbox.run(programs.test_program("req_functions", "--steps", 40, "--value", 120 + kill),
                      interval="100ms", seed=kill)
    job.wait_committed(1 + kill % 7)
    job.wait_step(job.random.randrange(1, 25))
    job.kill_and_recover()
    job.finish()
    assert_recovered(job)
