#!/usr/bin/env python3
"""Makes our libmpi.so.40's generated sources from functions.tsv, the installed mpi.h and libmpi.

Three uses:
  generate.py --output DIR [--cc CC] [--cflags FLAGS] [--ldflags FLAGS]
      writes api.gen.h, libmpi.gen.map, and collectives, data, files, refused, wrappers (.gen.c)
  generate.py --table
      prints docs/mpi-support.md
  generate.py --check-library PATH
      holds the names and data sizes that our built library exports against those of the real one
A finding is one line on stderr each, and status 1.
"""

import argparse
import os
import shlex
import subprocess
import sys

sys.dont_write_bytecode = True  # the source tree may be read-only

from gen import (GenerateError, filecalls, header, library, report, rows,  # noqa: E402
                 tables, wrappers)

HERE = os.path.dirname(os.path.abspath(__file__))
FUNCTIONS = os.path.join(HERE, "functions.tsv")
USES = os.path.join(HERE, "..", "..", "tests", "uses.tsv")


def main():
    options = parse_options()
    try:
        table = rows.read_rows(options.functions)
        if options.table:
            sys.stdout.write(report.support_table(table, rows.read_uses(USES)))
        elif options.check_library:
            check_library(options, table)
        else:
            generate(options, table)
    except GenerateError as error:
        for line in str(error).splitlines():
            print("generate.py: " + line, file=sys.stderr)
        return 1
    return 0


def parse_options():
    parser = argparse.ArgumentParser(description="Generates the wrappers of our libmpi.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--output", metavar="DIR", help="write the sources here")
    what.add_argument("--table", action="store_true", help="print the table of supported functions")
    what.add_argument("--check-library", metavar="PATH", help="compare our library with the real one")
    parser.add_argument("--functions", default=FUNCTIONS, help="the rows (default: functions.tsv)")
    parser.add_argument("--cc", default="cc", help="the C compiler")
    parser.add_argument("--cflags", help="flags to find mpi.h (default: ask pkg-config)")
    parser.add_argument("--ldflags", help="flags to find libmpi (default: ask pkg-config)")
    options = parser.parse_args()
    if options.cflags is None:
        options.cflags = pkg_config("--cflags")
    if options.ldflags is None:
        options.ldflags = pkg_config("--libs")
    return options


def pkg_config(what):
    run = subprocess.run(["pkg-config", what, "ompi-c"], capture_output=True, text=True, check=False)
    return run.stdout if run.returncode == 0 else ""


def generate(options, table):
    prototypes, handles, real = read_inputs(options)
    rows.compare(table, real, prototypes)
    prototypes = {name: prototypes[name] for name in prototypes if name in real.functions}
    files = {
        "api.gen.h": tables.api_header(prototypes),
        "wrappers.gen.c": wrappers.wrappers_source(table, prototypes),
        "collectives.gen.c": wrappers.collectives_source(table, prototypes),
        "files.gen.c": filecalls.files_source(table, prototypes),
        "refused.gen.c": wrappers.refused_source(table, prototypes),
        "data.gen.c": tables.data_source(real, handles, prototypes),
        "libmpi.gen.map": tables.export_map(real),
    }
    os.makedirs(options.output, exist_ok=True)
    for name, text in files.items():
        write_if_changed(os.path.join(options.output, name), text)


def write_if_changed(path, text):
    """Leaves an unchanged file's time alone, so that nothing is compiled again for nothing."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except FileNotFoundError:
        pass
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read_inputs(options):
    """(prototypes, predefined handles, the real Library)"""
    cc = shlex.split(options.cc)
    prototypes, handles = header.parse_header(header.preprocess(cc, shlex.split(options.cflags)))
    return prototypes, handles, library.read_library(library.find_library(cc, shlex.split(options.ldflags)))


def check_library(options, table):
    prototypes, _, real = read_inputs(options)
    rows.compare(table, real, prototypes)
    ours = library.read_library(options.check_library)
    errors = ["%s: missing" % name for name in sorted(promised(table, prototypes) - ours.functions)]
    for name, data in sorted(real.data.items()):
        if name not in ours.data:
            errors.append("%s: missing" % name)
        elif ours.data[name].size != data.size:
            errors.append("%s: %d bytes, not %d" % (name, ours.data[name].size, data.size))
    if errors:
        raise GenerateError("\n".join("%s: %s" % (options.check_library, error) for error in errors))


def promised(table, prototypes):
    """Every function that our library has to export by its rows."""
    names = {row.name for row in table.values() if row.handling != "data"}
    return names | {"P" + name for name in names if name in prototypes}


if __name__ == "__main__":
    sys.exit(main())
