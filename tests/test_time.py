"""Timed waits and clocks under frequent lines and across restarts."""

from belaytest import assert_recovered, assert_same_result


def test_timed_waits(sandbox, programs):
    """Each lasts as long as it was told, and reports nothing else; no clock steps back."""
    job = sandbox.run(programs.test_program("time_waits", "--steps", 6, ranks=2), interval="200ms")
    job.wait_committed(1)
    status = job.kill_and_recover()
    job.wait_committed(status["history"][-1]["restored_line"] + 1)
    job.kill_and_recover()
    job.wait()
    assert_recovered(job)


def test_waits_on_sockets(sandbox, programs):
    """SO_RCVTIMEO and SO_SNDTIMEO; a restart does not bring sockets back, so nobody is killed."""
    job = sandbox.run(programs.test_program("time_waits", "--steps", 3, "--mode", "sockets", ranks=2),
                      interval="200ms")
    job.wait_committed(3)
    assert job.wait() == 0
    assert_same_result(job)
