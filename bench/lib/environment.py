"""A run directory, shared memory and settings of its own for one run of the benchmarks."""

import os
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "lib"))

from belaytest import short_folder  # noqa: E402
from programs import mpi_environment  # noqa: E402
import traces  # noqa: E402

COMMAND_LIMIT_S = 120
APPS = os.path.join("lib", "belay", "apps")


class BenchError(Exception):
    """A benchmark cannot be run; the message says why."""


class Environment:
    """Use it in a `with`: afterwards no process and no file of it is left."""

    def __init__(self, prefix, build):
        self.prefix, self.build = prefix, build
        self.belay = os.path.join(prefix, "bin", "belay")
        self._programs = os.path.join(build, "bench", "programs")
        self._apps = os.path.join(prefix, APPS)
        for path in (self.belay, os.path.join(self._programs, "calls")):
            if not os.access(path, os.X_OK):
                raise BenchError(f"{path} is not there: set BELAY_PREFIX and BELAY_BUILD (bench/README.md)")
        self.rundir = short_folder("belay-")
        self._shared_memory = os.path.join("/dev/shm", os.path.basename(self.rundir))
        os.mkdir(self._shared_memory, 0o700)
        self.folder = short_folder("belay-work-")  # of programs that make files
        self.variables = {**os.environ, **mpi_environment(), "BELAY_RUNDIR": self.rundir,
                          "OMPI_MCA_btl_vader_backing_directory": self._shared_memory}
        # Every rank has a core of its own. One that gave it up while it polls would measure the kernel.
        self.variables.pop("OMPI_MCA_mpi_yield_when_idle", None)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        subprocess.run([self.belay, "clean"], env=self.variables, capture_output=True, check=False,
                       timeout=COMMAND_LIMIT_S)
        traces.kill_processes_of(self.rundir)
        for path in (self.rundir, self._shared_memory, self.folder):
            shutil.rmtree(path, ignore_errors=True)

    def scratch(self, name):
        """The path of a file that goes with the environment."""
        return os.path.join(self._shared_memory, name)

    def program(self, name):
        """The path of a program of the benchmarks."""
        return os.path.join(self._programs, name)

    def installed(self, app):
        return os.path.join(self._apps, app)

    @staticmethod
    def find_program(program, package):
        path = shutil.which(program)
        if not path:
            raise BenchError(f"there is no {program}: install the package {package}")
        return path

    @staticmethod
    def mpirun(command, ranks=2, binding="core"):
        """With every rank on a core of its own, or bound to another object of mpirun's."""
        return ["mpirun", "--bind-to", binding, "-n", str(ranks), *command]

    def launch_line(self, program, *arguments, ranks=2, binding="core"):
        """The same of a program of the benchmarks."""
        return self.mpirun([self.program(program), *map(str, arguments)], ranks, binding)

    def output_of(self, command, limit_s=COMMAND_LIMIT_S):
        """Standard output of a command that must succeed."""
        try:
            done = subprocess.run(command, env=self.variables, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, check=False, timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise BenchError(f"{' '.join(command)}: not done in {limit_s} s") from None
        if done.returncode:
            raise BenchError(f"{' '.join(command)}: status {done.returncode}\n{done.stderr.strip()}")
        return done.stdout
