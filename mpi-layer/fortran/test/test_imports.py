#!/usr/bin/env python3
"""What the installed Fortran and C++ bindings import from the real libmpi, ours exports.

Runs in the build directory of mpi-layer.
"""

import os
import subprocess
import sys

sys.dont_write_bytecode = True  # the source tree may be read-only
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "api"))

from gen import library  # noqa: E402

BINDINGS = ["libmpi_cxx.so.40", "libmpi_mpifh.so.40", "libmpi_usempi_ignore_tkr.so.40", "libmpi_usempif08.so.40"]
NOT_INSTALLED = 77  # automake: skipped


def symbols(path, which):
    text = subprocess.run(["nm", "-D", which, path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].partition("@")[0] for line in text.splitlines()}


def main():
    real = library.find_library(["cc"], [])
    exported, real_exports = symbols(library.SONAME, "--defined-only"), symbols(real, "--defined-only")
    folder = os.path.dirname(os.path.realpath(real))
    checked, status = 0, 0
    for name in BINDINGS:
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            continue
        checked += 1
        for symbol in sorted((symbols(path, "--undefined-only") & real_exports) - exported):
            print(f"{name} imports {symbol} from libmpi, which ours does not have")
            status = 1
    return status if checked else NOT_INSTALLED


if __name__ == "__main__":
    sys.exit(main())
