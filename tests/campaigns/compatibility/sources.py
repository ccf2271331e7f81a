"""Programs that no distribution ships: where their sources are, and how they are built outside of the checkout."""

import glob
import os
import shutil
import subprocess
import urllib.request
from dataclasses import dataclass

DOWNLOAD_LIMIT_S = 120
BUILD_LIMIT_S = 900

PIP = "pip:"  # an address that pip knows

# gfortran takes the Fortran of 1992 only with these.
FORTRAN = "-O2 -std=legacy -fallow-argument-mismatch -fallow-invalid-boz -mcmodel=medium"
NPB_SETTINGS = f"""MPIF77 = mpif77
FLINK = mpif77
FFLAGS = {FORTRAN}
FLINKFLAGS = -mcmodel=medium
MPICC = mpicc
CLINK = mpicc
CFLAGS = -O2
CC = cc
BINDIR = ../bin
RAND = randi8
"""
NPB_BUILD = """mkdir -p bin
for class in A B; do
    for name in bt sp lu cg mg ft is ep; do
        make $name CLASS=$class NPROCS=4
    done
done
for name in lu cg mg ft; do # for the table of costs
    make $name CLASS=B NPROCS=2
done
"""
# The files' times may make it look as if the generated ones had to be generated again.
OSU_BUILD = """touch aclocal.m4 && sleep 1 && touch configure $(find . -name Makefile.in)
./configure CC=mpicc CXX=mpicxx
make -C mpi ACLOCAL=: AUTOCONF=: AUTOMAKE=:
"""


@dataclass(frozen=True)
class Source:
    version: str
    address: str
    mark: str   # a file by which the folder to build in is known, wherever it is in the archive
    build: str  # shell commands, in that folder
    files: tuple = ()  # of (name, text), written before


SOURCES = {
    "npb": Source("3.3", "https://www.nas.nasa.gov/assets/npb/NPB3.3.1.tar.gz", "BT/setup_mpi.f", NPB_BUILD,
                  (("config/make.def", NPB_SETTINGS),)),
    "comd": Source("1.1", "https://github.com/ECP-copa/CoMD/archive/v1.1.tar.gz", "src-mpi/CoMD.c",
                   "cp src-mpi/Makefile.vanilla src-mpi/Makefile && make -C src-mpi"),
    "lulesh": Source("2.0.3", "https://github.com/LLNL/LULESH/archive/2.0.3.tar.gz", "lulesh-comm.cc",
                     "make CXX='mpicxx -DUSE_MPI=1' CXXFLAGS='-O2 -fopenmp -I.' LDFLAGS='-O2 -fopenmp'"),
    "osu": Source("5.3", "https://mvapich.cse.ohio-state.edu/download/mvapich/osu-micro-benchmarks-5.3.tar.gz",
                  "mpi/pt2pt/osu_latency.c", OSU_BUILD),
    "mpi4py": Source("3.1.4", PIP + "mpi4py==3.1.4", "test/runtests.py", "true"),  # tests of python3-mpi4py
}


class SourceError(Exception):
    """A source cannot be had or built; the message says why."""


def _given(name, folder):
    """The folder or archive of this source below `folder`, or None."""
    places = [os.path.join(folder, name), *sorted(glob.glob(os.path.join(folder, f"{name}*.tar.*")))]
    return next(filter(os.path.exists, places), None)


def _download_from_pip(package, folder):
    command = ["pip", "download", "--no-deps", "--no-build-isolation", "--no-binary", ":all:", "--dest", folder, package]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_LIMIT_S, check=False)
    found = _given(package.partition("=")[0], folder)
    if done.returncode or not found:
        raise SourceError(f"pip download {package}: {done.stderr.strip()[-200:]}")
    return found


def _download(name, folder):
    address = SOURCES[name].address
    if address.startswith(PIP):
        return _download_from_pip(address[len(PIP):], folder)
    path = os.path.join(folder, f"{name}.tar.gz")
    try:
        with urllib.request.urlopen(address, timeout=DOWNLOAD_LIMIT_S) as reply, \
                open(path, "wb") as file:
            shutil.copyfileobj(reply, file)
    except OSError as error:
        raise SourceError(f"{name}: {address}: {error}") from None
    return path


def _unpack(origin, folder):
    if os.path.isdir(origin):
        shutil.copytree(origin, folder, symlinks=True)
        return
    os.mkdir(folder)
    done = subprocess.run(["tar", "-x", "-f", origin, "-C", folder], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SourceError(f"{origin}: {done.stderr.strip()}")


def _find(name, folder):
    """The folder to build in."""
    mark = SOURCES[name].mark
    found = sorted(glob.glob(os.path.join(glob.escape(folder), "**", mark), recursive=True), key=len)
    if not found:
        raise SourceError(f"{name}: there is no {mark} in {folder}")
    return found[0][:-len(mark) - 1]


def _build(name, folder):
    source = SOURCES[name]
    for file_name, text in source.files:
        with open(os.path.join(folder, file_name), "w", encoding="ascii") as file:
            file.write(text)
    log = os.path.join(folder, "build.log")
    with open(log, "w", encoding="utf-8") as output:
        done = subprocess.run(["sh", "-e", "-c", source.build], cwd=folder, stdin=subprocess.DEVNULL, stdout=output,
                              stderr=subprocess.STDOUT, timeout=BUILD_LIMIT_S, check=False)
    if done.returncode:
        raise SourceError(f"{name}: it does not build: {log}")


def prepare(name, sources, may_download, builds):
    """
    Build a source below the folder `builds`, once; the folder of its build. `sources` is a folder with
    folders or archives that begin with the names of sources, or None.
    """
    top = os.path.join(builds, name)
    done = top + ".done"
    if not os.path.exists(done):
        origin = sources and _given(name, sources)
        if not origin and not may_download:
            raise SourceError(f"{name}: no sources (--sources, --download)")
        shutil.rmtree(top, ignore_errors=True)
        _unpack(origin or _download(name, builds), top)
        _build(name, _find(name, top))
        with open(done, "w", encoding="ascii"):
            pass
    return _find(name, top)
