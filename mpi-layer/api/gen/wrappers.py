"""Emits the wrappers of rows handled `generated` and `refused`.

A wrapper translates handles only where its thread cannot be stopped for a recovery line (between
wrapper_enter() and wrapper_leave(), or inside a collective): real handles change at a restart.
"""

import json

from . import GenerateError
from .text import BANNER, fill

# Handle pointers that are read, not written.
INPUT_POINTERS = {"MPI_Type_commit"}

NULL_HANDLES = {
    "Comm": "MPI_COMM_NULL", "Datatype": "MPI_DATATYPE_NULL", "Errhandler": "MPI_ERRHANDLER_NULL",
    "File": "MPI_FILE_NULL", "Group": "MPI_GROUP_NULL", "Info": "MPI_INFO_NULL",
    "Message": "MPI_MESSAGE_NULL", "Op": "MPI_OP_NULL", "Request": "MPI_REQUEST_NULL", "Win": "MPI_WIN_NULL",
}

COLLECTIVES = ("collective", "icollective")
ELSEWHERE = COLLECTIVES + ("file", "file_collective")

# A datatype argument is not significant where its buffer is MPI_IN_PLACE, or where only the root's counts.
BUFFER_OF_TYPE = {"sendtype": "sendbuf", "recvtype": "recvbuf"}
ROOT_ONLY = {"Gather": "recvtype", "Gatherv": "recvtype", "Scatter": "sendtype", "Scatterv": "sendtype"}


def wrappers_source(rows, prototypes):
    """Everything generated that is neither a collective nor for a file."""
    out = [BANNER, "#define OMPI_BUILDING 1 /* mpi.h declares what MPI-1 had, too */",
           '#include "mpi-layer/api/api.gen.h"', '#include "mpi-layer/upper/handle.h"', ""]
    for name, row in rows.items():
        if row.handling == "generated" and row.semantics not in ELSEWHERE:
            out += plain(prototypes[name])
    return "\n".join(out)


def collectives_source(rows, prototypes):
    out = [BANNER, "#include <stdlib.h>", "", '#include "mpi-layer/api/api.gen.h"',
           '#include "mpi-layer/upper/collective.h"', '#include "mpi-layer/upper/request.h"', ""]
    for name, row in rows.items():
        if row.handling == "generated" and row.semantics in COLLECTIVES:
            out += collective(prototypes[name], row.semantics == "icollective")
    return "\n".join(out)


def refused_source(rows, prototypes):
    out = [BANNER, "#define OMPI_BUILDING 1 /* mpi.h declares what MPI-1 had, too */", "#include <mpi.h>", "",
           '#include "mpi-layer/api/api.h"', '#include "mpi-layer/upper/error_codes.h"', "",
           '#pragma GCC diagnostic ignored "-Wunused-parameter"', ""]
    for name, row in rows.items():
        if row.handling == "refused":
            out += refused(prototypes[name], row.note)
    return "\n".join(out)


def head(proto):
    """The definition's first line."""
    space = "" if proto.result.endswith("*") else " "
    return fill("%s%sP%s(%s)" % (proto.result, space, proto.name, proto.params_text()))


def tail(proto):
    return ["}", "API_EXPORT(%s);" % proto.name, ""]


def plain(proto):
    """Translate, call, wrap or release what came back.

    What does neither only asks something: it may be called while another thread is inside MPI.
    """
    locals_, before, arguments, after = [], [], [], []
    for param in proto.params:
        if not param.handle:
            arguments.append(param.name)
        elif param.is_array:
            raise GenerateError("%s: arrays of handles need a wrapper by hand" % proto.name)
        elif param.level == 0:
            arguments.append("api_real(%s)" % param.name)
        else:
            locals_.append("    void *real_%s = NULL;" % param.name)
            first, then = pointer(proto, param)
            arguments.append("%s ? &real_%s : NULL" % (param.name, param.name))
            before += first
            after += then
    if after and proto.result != "int":
        raise GenerateError("%s: hands out handles, but returns %s" % (proto.name, proto.result))
    out = [head(proto), "{", "    %s rc;" % proto.lower_result()] + locals_ + [
        "", "    wrapper_enter%s();" % ("" if before or after else "_anytime")] + before
    out.append(fill("    rc = lower_%s(%s);" % (proto.name, ", ".join(arguments))))
    if after:
        out += ["    if (rc == MPI_SUCCESS) {"] + after + ["    }"]
    return out + ["    wrapper_leave();", "    return rc;"] + tail(proto)


def pointer(proto, param):
    """(statements before the call, statements after its success) for a pointer to a handle."""
    name, kind = param.name, "HANDLE_" + param.handle.upper()
    load = "    real_%s = %s ? api_real(*%s) : NULL;" % (name, name, name)
    if proto.name in INPUT_POINTERS:
        return [load], []
    if proto.name.endswith("_free"):
        return [load], ["        handle_release(%s, *%s);" % (kind, name),
                        "        *%s = %s;" % (name, NULL_HANDLES[param.handle])]
    return [], ["        *%s = handle_new(%s, real_%s);" % (name, kind, name)]


def collective(proto, is_nonblocking):
    """Pass the gate of the recovery lines, translate, call."""
    w_arrays = [p.name for p in proto.params if p.is_array and p.handle]
    arguments = ", ".join(collective_argument(proto, p) for p in proto.params)
    out = [head(proto), "{"]
    out += ["    struct api_types types;"] if w_arrays else []
    out += ["    void *real_request = NULL;"] if is_nonblocking else []
    out += ["    int rc;", ""]
    out += ["    collective_enter(comm);"]
    call = "rc = lower_%s(%s);" % (proto.name, arguments)
    if w_arrays:
        peers = "API_NEIGHBORS" if "neighbor" in proto.name.lower() else "API_MEMBERS"
        send = "sendbuf == MPI_IN_PLACE ? NULL : sendtypes"
        out.append(fill("    rc = api_types_create(&types, comm, %s, %s, recvtypes);" % (peers, send)))
        out += ["    if (rc == MPI_SUCCESS) {", fill("        " + call)]
        out += after_w(is_nonblocking) + ["    }"]
    else:
        out.append(fill("    " + call))
        if is_nonblocking:
            out += ["    if (rc == MPI_SUCCESS) {",
                    "        *request = request_new_collective(real_request, comm);"]
            if any(p.handle == "Op" for p in proto.params):
                out += ["        request_keep(*request, datatype, op);"]
            out += ["    }"]
    out += ["    collective_leave(comm);"]
    return out + ["    return rc;"] + tail(proto)


def after_w(is_nonblocking):
    """What becomes of the translated arrays: the request of a non-blocking call needs them longer."""
    if not is_nonblocking:
        return ["        free(api_types_block(&types));"]
    return ["        if (rc == MPI_SUCCESS) {",
            fill("            *request = request_new_collective_owning(real_request, comm, "
                 "api_types_block(&types));"),
            "        } else {", "            free(api_types_block(&types));", "        }"]


def collective_argument(proto, param):
    if param.handle == "Request":
        return "request ? &real_request : NULL"
    if not param.handle:
        return param.name
    if param.is_array:
        return "types." + {"sendtypes": "send", "recvtypes": "recv"}[param.name]
    base = proto.name[len("MPI_"):]
    base = base[1:].capitalize() if base.startswith("I") else base
    conditions = []
    buffer = BUFFER_OF_TYPE.get(param.name)
    if buffer and any(p.name == buffer for p in proto.params):
        conditions.append("%s != MPI_IN_PLACE" % buffer)
    if ROOT_ONLY.get(base) == param.name:
        conditions.append("api_is_root(comm, root)")
    if not conditions:
        return "api_real(%s)" % param.name
    return "api_real_if(%s, %s)" % (" && ".join(conditions), param.name)


def refused(proto, reason):
    comm = next((p.name for p in proto.params if p.handle == "Comm" and p.level == 0), "NULL")
    out = [head(proto), "{"]
    if proto.result == "int":
        return out + refuse_call("return ", proto.name, reason, comm) + tail(proto)
    value = NULL_HANDLES.get(proto.result_handle(), "0")
    return out + refuse_call("", proto.name, reason, comm) + ["    return %s;" % value] + tail(proto)


def refuse_call(before, name, reason, comm):
    return ["    %srefuse(%s," % (before, json.dumps(name)),
            "        %s, %s);" % (json.dumps(reason), comm)]
