"""Emits the wrappers of rows of the classes `file` and `file_collective` that are handled `generated`.

They pass the file's own gate (mpi-layer/upper/file.h) instead of a communicator's, and errors are raised on
the file.
"""

from . import GenerateError
from .text import BANNER, fill
from .wrappers import head, tail

FILE_CLASSES = ("file", "file_collective")


def files_source(rows, prototypes):
    out = [BANNER, '#include "mpi-layer/api/api.gen.h"', '#include "mpi-layer/upper/file.h"', ""]
    for name, row in rows.items():
        if row.handling == "generated" and row.semantics in FILE_CLASSES:
            out += wrapper(prototypes[name], use_of(name, row.semantics))
    return "\n".join(out)


def use_of(name, semantics):
    """What the call does with the file, as file_enter() wants to know it."""
    uses = ["FILE_COLLECTIVE"] if semantics == "file_collective" else []
    uses += ["FILE_SHARED_POINTER"] if "shared" in name or "ordered" in name else []
    return " | ".join(uses) or "FILE_LOCAL"


def wrapper(proto, use):
    """Enter, translate, call, record a new request, leave."""
    if proto.name.endswith("_begin"):
        return split_begin(proto, proto.name[:-len("_begin")])
    if proto.name.endswith("_end"):
        return split_end(proto, proto.name[:-len("_end")])
    requests = [p.name for p in proto.params if p.handle == "Request"]
    arguments = ", ".join(argument(proto, p) for p in proto.params)
    out = [head(proto), "{", "    int rc;"]
    out += ["    void *real_%s = NULL;" % name for name in requests]
    out += ["", "    rc = file_enter(fh, %s);" % use, "    if (rc == MPI_SUCCESS) {",
            fill("        rc = lower_%s(%s);" % (proto.name, arguments)), "    }"]
    for name in requests:
        out += ["    if (rc == MPI_SUCCESS) {", "        *%s = file_request(fh, real_%s);" % (name, name),
                "    }"]
    return out + ["    return file_leave(fh, %s, rc);" % use] + tail(proto)


def split_begin(proto, whole):
    """The whole operation, whose status is kept for the end."""
    arguments = ", ".join(p.name for p in proto.params)
    return [head(proto), "{", "    int rc = file_split_check(fh);", "", "    if (rc == MPI_SUCCESS) {",
            fill('        rc = P%s(%s, file_split_begin(fh, "%s"));' % (whole, arguments, whole)),
            "        rc = file_split_begun(fh, rc);", "    }", "    return rc;"] + tail(proto)


def split_end(proto, whole):
    return [head(proto), "{", "    (void)buf;",
            '    return file_split_end(fh, "%s", status);' % whole] + tail(proto)


def argument(proto, param):
    if param.handle == "Request":
        return "&real_" + param.name
    if not param.handle:
        return param.name
    if param.level or param.handle not in ("File", "Datatype"):
        raise GenerateError("%s: needs a wrapper by hand" % proto.name)
    return "api_real(%s)" % param.name
