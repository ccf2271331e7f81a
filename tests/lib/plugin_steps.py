"""A batch job or step under Belay's plugin of Slurm: its program, its lines, and what `belay status` says of it on a node."""

import dataclasses
import json
import os
import re
import shutil

from belaytest import newest_line
from waiting import wait_for

PROTECT = "--checkpoint-interval=500ms"
APPEND = "--open-mode=append"


def heat(sandbox, programs, steps=400, ranks=8):
    """Its input is on the file system that all nodes share. For `held` see below."""
    program = programs.heat(side=256, steps=steps, snapshot_every=0, ranks=ranks)
    place = program.argv.index("--input") + 1
    shutil.copy(program.argv[place], sandbox.folder)
    shared = os.path.join(sandbox.folder, os.path.basename(program.argv[place]))
    return dataclasses.replace(program, argv=(*program.argv[:place], shared, *program.argv[place + 1:]))


def held(sandbox, program):
    """The words of a program that waits after half of its steps for let_end(): lines, losses and requeues come before it ends, on a
    machine of any speed."""
    return (*program.argv, "--wait-for", os.path.join(sandbox.folder, "go"))


def let_end(sandbox):
    write(sandbox.folder, "go", "")


def status_of(sandbox, job, at=None):
    done = sandbox.execute(sandbox.command, "status", job, "--json", at=at)
    return json.loads(done.stdout) if done.returncode == 0 else None


def wait_lines(sandbox, name, count=2, at=None):
    """Until a job of this name (a pattern) runs, and has so many lines: its status."""

    def look():
        jobs = json.loads(sandbox.execute(sandbox.command, "list", "--json", at=at).stdout or '{"jobs": []}')["jobs"]
        found = [job["job"] for job in jobs if re.fullmatch(name, job["job"]) and job["state"] == "running"]
        status = status_of(sandbox, found[0], at) if found else None
        return status if status and newest_line(status) >= count else None

    return wait_for(look, 40, f"line {count} of {name}")


def node_of_rank_0(cluster, which):
    """Where a job runs that squeue finds so (options): the first of its nodes."""

    def look():
        found = re.match(r"(n)\[?(\d)", cluster.slurm("squeue", "-h", "-t", "running", "-o", "%N", *which))
        return "".join(found.groups()) if found else None

    return wait_for(look, 30, f"a running job of {which}")


def uid_of(cluster, box):
    return os.stat(cluster.home(box.name)).st_uid


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return file.read()


def submit_heat(sandbox, programs, *options, nodes=4, ranks=4):
    """A batch job of one step; its program, folder and number."""
    program = heat(sandbox, programs, ranks=ranks)
    line = " ".join(["srun", "--mpi=pmix", *held(sandbox, program)])
    folder, number = sandbox.submit(line, PROTECT, "--requeue", APPEND, f"-N{nodes}", f"-n{ranks}", *options)
    return program, folder, number


def assert_goes_on(sandbox, job, line, at="n1"):
    """From this line or a later one; what `belay status` says then."""
    after = wait_lines(sandbox, re.escape(job), count=line, at=at)
    assert after["history"][-1]["restored_line"] >= line >= 2
    assert after["restarts_from_start"] == 0
    return after


def assert_output(sandbox, programs, program, folder, number):
    """It may end from now on, and has the output of an undisturbed run."""
    let_end(sandbox)
    assert sandbox.wait_end(number) == ("COMPLETED", 0)
    with open(os.path.join(folder, "out"), encoding="ascii") as file:
        assert file.read() == programs.reference(program).stdout.decode()


def wait_lost(sandbox, job, at="n1"):
    """Until the former launch has ended on a node that is left."""
    wait_for(lambda: status_of(sandbox, job, at)["state"] in ("lost", "restarting"), 40, "the end of the first launch")
