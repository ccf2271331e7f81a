"""Reads the installed libmpi: exported functions, data symbols, initial pointers, versions."""

import os
import re
import subprocess
from dataclasses import dataclass, field

from . import GenerateError

SONAME = "libmpi.so.40"


@dataclass
class Data:
    """An exported data symbol; points_to names the exported symbol whose address it holds, if any."""
    name: str
    size: int
    address: int
    points_to: str = ""


@dataclass
class Library:
    path: str
    functions: set = field(default_factory=set)
    data: dict = field(default_factory=dict)
    versions: dict = field(default_factory=dict)

    def names(self):
        return self.functions | set(self.data)


def find_library(cc, ldflags):
    """The path of libmpi as the linker would find it: the -L folders first, then the compiler's own."""
    for flag in ldflags:
        if flag.startswith("-L") and os.path.exists(os.path.join(flag[2:], SONAME)):
            return os.path.join(flag[2:], SONAME)
    path = run_tool(cc + ["-print-file-name=" + SONAME]).strip()
    if not os.path.exists(path):
        raise GenerateError("no %s in the linker's folders" % SONAME)
    return path


def read_library(path):
    """The Library at path; raises GenerateError if it is not the one we stand in for."""
    match = re.search(r"\(SONAME\).*\[(.+)\]", run_tool(["readelf", "-dW", path]))
    if not match or match.group(1) != SONAME:
        raise GenerateError("%s: not %s" % (path, SONAME))
    library = Library(path)
    parse_symbols(run_tool(["nm", "-D", "-S", "--defined-only", path]), library)
    parse_relocations(run_tool(["readelf", "-rW", path]), library)
    return library


def parse_symbols(text, library):
    """Fills functions, data and versions from the output of nm."""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        name, _, version = fields[-1].partition("@")
        if version:
            library.versions[name] = version.lstrip("@")
        if fields[-2] in "TWi":
            library.functions.add(name)
        elif fields[-2] in "BDGRSVCu" and len(fields) == 4:
            library.data[name] = Data(name, int(fields[1], 16), int(fields[0], 16))


def parse_relocations(text, library):
    """Finds the exported pointers that hold the address of an exported object."""
    by_address = {d.address: d for d in library.data.values()}
    for line in text.splitlines():
        match = re.match(r"([0-9a-f]+)\s+[0-9a-f]+\s+R_X86_64_64\s+[0-9a-f]+ (\S+) \+ 0$", line.strip())
        if not match:
            match = re.match(r"([0-9a-f]+)\s+[0-9a-f]+\s+R_X86_64_RELATIVE\s+([0-9a-f]+)$", line.strip())
            if not match:
                continue
            target = by_address.get(int(match.group(2), 16))
        else:
            target = library.data.get(match.group(2).partition("@")[0])
        source = by_address.get(int(match.group(1), 16))
        if source and target and source.size == 8:
            source.points_to = target.name


def run_tool(command):
    environment = dict(os.environ, LC_ALL="C")
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    except OSError as error:
        raise GenerateError("%s: %s" % (command[0], error.strerror)) from error
    if run.returncode != 0:
        raise GenerateError("%s: %s" % (" ".join(command), run.stderr.strip()))
    return run.stdout
