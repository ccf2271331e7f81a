#!/usr/bin/env python3
"""Our libraries show the application no name that the installed ones do not, nor ask for one.

A name more takes the place of a function that the program has by itself; a function that only ours asks for is the
program's, if it has one of that name. Runs in the build directory of mpi-layer.
"""

import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True  # the source tree may be read-only
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from gen import library  # noqa: E402

LIBRARIES = ["libmpi.so.40", "libmpi_mpifh.so.40", "libmpi_cxx.so.40"]
# Of the toolchain, in every library; and what each stand-in asks the library for that it stands before.
ANYWHERE = re.compile(r"_ITM_\w+|__cxa_finalize|__gmon_start__|ompi_mpi_cxx_(comm|file|win)_errhandler_invoke|PMPI_\w+")
LAUNCHED = "libbelay.so"
# What it stands in front of, in processes that are no ranks: see mpi-layer/entry.
LAUNCHED_DEFINES = {"__asan_default_options", "__libc_start_main", "dlopen"}


def symbols(path):
    """{name: (kind, size)} of what a library defines, and the names that it asks for."""
    text = subprocess.run(["readelf", "--dyn-syms", "-W", path], capture_output=True, text=True, check=True).stdout
    defined, wanted = {}, set()
    for line in text.splitlines():
        match = re.match(r"\s*\d+:\s+\w+\s+(\S+)\s+(\w+)\s+(\w+)\s+(\w+)\s+(\w+)\s+([^\s@]+)", line)
        if not match or match.group(3) == "LOCAL":
            continue
        size, kind, _, _, section, name = match.groups()
        if section == "UND":
            wanted.add(name)
        else:
            defined[name] = ("FUNC" if kind in ("FUNC", "GNU_IFUNC") else kind, int(size, 0))
    return defined, wanted


def differences(name, installed):
    ours, wanted = symbols(name)
    theirs, their_wanted = symbols(installed)
    for symbol in sorted(set(ours) - set(theirs)):
        yield f"{name} defines {symbol}, which {installed} does not"
    for symbol in sorted(set(ours) & set(theirs)):
        kind, size = theirs[symbol]
        if ours[symbol][0] != kind or (kind != "FUNC" and ours[symbol][1] != size):
            yield f"{symbol} of {name} is {ours[symbol]}, in {installed} {theirs[symbol]}"
    for symbol in sorted(wanted - their_wanted):
        if not ANYWHERE.fullmatch(symbol):
            yield f"{name} asks for {symbol}, which {installed} does not"


def main():
    found = []
    folder = os.path.dirname(os.path.realpath(library.find_library(["cc"], [])))
    for name in LIBRARIES:
        installed = os.path.join(folder, name)
        if os.path.exists(installed):
            found += differences(name, installed)
    found += [f"{LAUNCHED} and the names that it should define: {name}"
              for name in sorted(set(symbols(LAUNCHED)[0]) ^ LAUNCHED_DEFINES)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
