"""A job on several nodes, and somebody on their network: what can be read there, and what can be done from there."""

import os
import socket
import struct
import subprocess

import pytest

import network as networks
from belaytest import assert_recovered, assert_same_result
from nodes import kill_node, on_nodes, workload

pytestmark = pytest.mark.skipif(networks.lacking() != "", reason=networks.lacking())

MAGIC, HELLO_BYTES = b"blyhello", 320  # common/secure/hello.h
SYN_SENT = 2  # of the kernel, netinet/tcp.h
SECRET = b"this-is-for-nobody-else."


@pytest.fixture
def network(sandbox):
    made = networks.Network()
    sandbox.user = made.words
    yield made
    sandbox.user = []  # sockets of the run directory are found from everywhere
    made.destroy()


@pytest.fixture
def tap(network):
    made = networks.Tap(network)
    yield made
    made.close()


def run(sandbox, program, *options, **variables):
    """Of a job on nodes whose ranks have a secret in their memory, often enough that no packet can cut it each time."""
    return sandbox.run(program, options=options, SECRET=SECRET.decode() * 200, **variables)


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_what_can_be_read(sandbox, programs, tap, is_encrypted):
    """Memory of the program is on the wire: as it is, or with --encrypt not. Also of an image that is fetched after a loss."""
    job = run(sandbox, workload(programs), *on_nodes(3), *(["--encrypt"] if is_encrypted else []))
    job.wait_lines()
    assert job.status()["is_encrypted"] == is_encrypted
    kill_node(sandbox, job, 0)
    status = job.wait_epoch(2)
    assert status["history"][-1]["fetch_ms"] > 0
    job.wait_committed(status["history"][-1]["restored_line"] + 2)
    restored = status["history"][-1]["restored_line"]
    job.wait_status(lambda now: any(line["sent_bytes"] > 0 for line in now["lines"] if line["line"] > restored), 20, "a line that is sent")
    job.finish()
    assert_recovered(job, 1)
    assert tap.has_seen(SECRET) != is_encrypted


def test_a_restart_encrypts_as_before(sandbox, programs, tap):
    """Nobody can make it speak in the clear, by an option or by the environment."""
    job = run(sandbox, workload(programs), *on_nodes(2), "--max-restarts", "0", BELAY_ENCRYPT="1")
    job.wait_lines()
    job.kill_rank(0)
    assert job.wait() != 0
    refused = sandbox.belay("restart", "job", env={**sandbox.environment, "BELAY_ENCRYPT": "0"})
    assert refused.returncode == 64
    assert refused.stderr.splitlines()[-1] == ('belay: job "job" was run with --encrypt, which a restart cannot change: leave '
                                               'BELAY_ENCRYPT out')
    del job.variables["BELAY_ENCRYPT"]
    job.restart()
    status = job.wait_status(lambda status: status["epoch"] == 2 and status["state"] == "running")
    assert status["is_encrypted"]
    job.wait_committed(status["history"][-1]["restored_line"] + 2)
    job.finish()
    assert_same_result(job)
    assert not tap.has_seen(SECRET)


def test_a_restart_does_not_begin_to_encrypt(sandbox, programs):
    job = sandbox.run(workload(programs), options=[*on_nodes(2), "--max-restarts", "0"])
    job.wait_lines()
    job.kill_rank(0)
    assert job.wait() != 0
    refused = sandbox.belay("restart", "--encrypt", "job")
    assert refused.returncode == 64 and "was run without --encrypt, which a restart cannot change" in refused.stderr
    job.restart()
    job.wait_epoch(2)
    job.finish()
    assert_same_result(job)


class Intruder:
    """Somebody on a host of the job, without its key, who speaks to agents as agents do (node-agent/test/intruder.c)."""

    def __init__(self, network, programs, tap):
        self.network = network
        self.program = os.path.join(programs.build, "..", "..", "node-agent", "test", "intruder")
        self.tap = tap
        self.heard = []  # hellos of agents, not those that were said here
        self.said = set()

    def listen(self, *ports):
        """Keep the hellos that have gone by."""
        for text in self.tap.said_to(*ports):
            at = text.find(MAGIC)
            while at >= 0:
                hello = text[at:at + HELLO_BYTES]
                if len(hello) == HELLO_BYTES and hello not in self.said and hello not in self.heard:
                    self.heard.append(hello)
                at = text.find(MAGIC, at + 1)

    def invent(self):
        """What is made of a hello: forged, of another version, not encrypting, of another epoch, cut, too long; and no hellos."""
        made = []
        for hello in self.heard:
            for at in (20, 40, 100, 250, 319):
                made.append(hello[:at] + bytes([hello[at] ^ 1]) + hello[at + 1:])
            for at, value in ((8, 1), (8, 9), (16, 1), (16, 2), (36, 1), (36, 2), (36, 3)):
                made.append(hello[:at] + bytes([value]) + hello[at + 1:])
            made += [hello[:count] for count in (1, 8, 11, 12, 319)] + [hello + b"x", hello * 20, hello[::-1]]
        return made + [b"\0" * 48, b"\xff" * 64, bytes(range(256)) * 31]

    def say(self, port, frames):
        self.said.update(frames)
        text = b"".join(struct.pack("=I", len(frame)) + frame for frame in frames)
        subprocess.run([*self.network.words, self.program, str(port)], input=text, check=True, timeout=60)


@pytest.fixture
def intruder(network, programs, tap):
    return Intruder(network, programs, tap)


def agents(job):
    return sorted(node["agent_pid"] for node in job.status()["nodes"])


def refusals(sandbox):
    """What agents have written about hellos."""
    texts = []
    for folder in (sandbox.rundir, os.path.join(sandbox.rundir, "node-1")):
        with open(os.path.join(folder, "agent.log"), encoding="utf-8", errors="replace") as file:
            texts += [line for line in file.read().splitlines() if "refused a hello" in line]
    return texts


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_an_intruder_disturbs_nobody(sandbox, programs, network, intruder, is_encrypted):
    """Agents refuse what he repeats, in the epoch of which it is and in the next one, and what he invents: all live on, in the
    same epoch, and take lines."""
    options = [*on_nodes(2), *(["--encrypt"] if is_encrypted else [])]
    job = sandbox.run(workload(programs, seconds=6), options=options)
    for epoch in (1, 2):
        job.wait_lines()
        before, ports = agents(job), sorted(network.ports("belayd").values())
        intruder.listen(*ports)
        assert len(ports) == 2 and len(intruder.heard) >= 2 * epoch
        for port in ports:
            intruder.say(port, intruder.heard + intruder.invent() + intruder.heard[::-1])
        line = job.status()["newest_line"]
        job.wait_committed(line + 2)
        assert agents(job) == before and job.status()["epoch"] == epoch
        if epoch == 1:
            job.kill_and_recover(0)
    told = refusals(sandbox)
    for part in ("another version", "another epoch", "not made with the job's key for this epoch", "malformed"):
        assert any(part in line for line in told), (part, told)
    assert len(told) < 100
    job.finish()
    assert_recovered(job)


def test_a_stranger_cannot_connect(sandbox, programs, network):
    """The kernel knows the hosts of the job: packets from elsewhere never come to what reads them."""
    job = sandbox.run(workload(programs), options=on_nodes(2))
    job.wait_lines()
    ends = []
    for port in network.ports("belayd").values():
        ends.append(network.within(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM)))
        ends[-1].setblocking(False)
        ends[-1].bind(("127.0.0.9", 0))
        ends[-1].connect_ex(("127.0.0.1", port))
    job.wait_lines()
    for end in ends:
        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == SYN_SENT
        end.close()
    job.finish()
    assert_same_result(job)
