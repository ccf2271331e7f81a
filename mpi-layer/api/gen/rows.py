"""Reads functions.tsv and holds it against the library and its header."""

import re
from dataclasses import dataclass

from . import GenerateError

CLASSES = {
    "local", "send", "recv", "probe", "request", "collective", "icollective", "comm", "group", "datatype",
    "op", "attr", "info", "errhandler", "file", "file_collective", "rma", "topology", "dynamic", "tool",
}
HANDLINGS = {"generated", "custom", "refused", "data"}
CUSTOM_FOLDERS = {"api", "fortran", "upper"}


@dataclass
class Row:
    name: str
    semantics: str
    handling: str
    note: str


def read_rows(path):
    """Rows by name, in the file's order; raises GenerateError with one line per bad row."""
    rows, errors, last = {}, [], ""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("#") or not line.strip():
                continue
            fields = line.rstrip("\n").split("\t")
            row = Row(*(fields + [""] * (4 - len(fields)))[:4])
            problem = check_row(row, len(fields), last)
            if problem:
                errors.append("%s:%d: %s" % (path, number, problem))
            rows[row.name] = row
            last = row.name
    if errors:
        raise GenerateError("\n".join(errors))
    return rows


def read_uses(path):
    """{function: the test program that uses it}"""
    with open(path, encoding="utf-8") as file:
        return dict(line.rstrip("\n").split("\t") for line in file if not line.startswith("#"))


def check_row(row, n_fields, last):
    """What is wrong with a row in itself, or None."""
    if not 3 <= n_fields <= 4:
        return "%d columns, not 3 or 4" % n_fields
    if row.name <= last:
        return "%s is twice here or not in order" % row.name
    if row.semantics not in CLASSES:
        return "%s: unknown class %s" % (row.name, row.semantics)
    if row.handling not in HANDLINGS:
        return "%s: unknown handling %s" % (row.name, row.handling)
    if row.handling == "refused" and not row.note:
        return "%s is refused without a reason" % row.name
    if row.handling == "custom" and row.note not in CUSTOM_FOLDERS:
        return "%s is custom, but not in one of: %s" % (row.name, ", ".join(sorted(CUSTOM_FOLDERS)))
    return None


def compare(rows, library, prototypes):
    """Raises GenerateError with one line for every name that rows, library and header disagree on."""
    exported = {name for name in library.names() if re.match(r"MPI_", name)}
    errors = []
    for name in sorted(exported - set(rows)):
        errors.append("%s: exported by %s, has no row" % (name, library.path))
    for name in sorted(set(rows) - exported):
        errors.append("%s: has a row, is not exported by %s" % (name, library.path))
    for name in sorted(exported & set(rows)):
        row = rows[name]
        if (row.handling == "data") != (name in library.data):
            errors.append("%s: data in one of the row and the library, a function in the other" % name)
        elif row.handling != "data" and name not in prototypes and row.note != "fortran":
            errors.append("%s: %s, but mpi.h does not declare it" % (name, row.handling))
        elif name in prototypes and "P" + name not in library.functions:
            errors.append("%s: the library has no P%s" % (name, name))
    if errors:
        raise GenerateError("\n".join(errors))
