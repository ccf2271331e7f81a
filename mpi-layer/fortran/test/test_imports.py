#!/usr/bin/env python3
"""What programs and the installed Fortran and C++ bindings import from the real libmpi, ours exports.

Runs in the build directory of mpi-layer.
"""

import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True  # the source tree may be read-only
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "api"))

from gen import library  # noqa: E402

BINDINGS = ["libmpi_cxx.so.40", "libmpi_mpifh.so.40", "libmpi_usempi_ignore_tkr.so.40", "libmpi_usempif08.so.40"]
# What mpi.h and mpi-ext.h declare; the rest is Open MPI's own business.
PUBLIC = re.compile(r"P?MPIX?_\w+|OMPI_Affinity_\w+|OMPI_C_\w+")


def symbols(path, which):
    text = subprocess.run(["nm", "-D", which, path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].partition("@")[0] for line in text.splitlines()}


def main():
    status = 0
    real = library.find_library(["cc"], [])
    exported, real_exports = symbols(library.SONAME, "--defined-only"), symbols(real, "--defined-only")
    for symbol in sorted(filter(PUBLIC.fullmatch, real_exports - exported)):
        print(f"{real} exports {symbol}, which ours does not have")
        status = 1
    folder = os.path.dirname(os.path.realpath(real))
    for name in BINDINGS:
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            continue
        for symbol in sorted((symbols(path, "--undefined-only") & real_exports) - exported):
            print(f"{name} imports {symbol} from libmpi, which ours does not have")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
