"""Emits the tables: slots and typed helpers (api.gen.h), data symbols (data.gen.c), export map."""

from .text import BANNER, fill


def api_header(prototypes):
    """Slots of the real entry points and one typed helper for each."""
    out = [BANNER, "#ifndef BELAY_API_GEN_H", "#define BELAY_API_GEN_H", "",
           '#include "mpi-layer/api/api.h"', '#include "mpi-layer/upper/half.h"', "", "enum {"]
    out += ["    F_%s," % name for name in sorted(prototypes)]
    out += ["    F_COUNT", "};", "",
            "/* Names of the real entry points, by slot: what to look up in the lower half's libmpi. */",
            "extern const char *const lower_fn_name[F_COUNT];", ""]
    for name in sorted(prototypes):
        if not prototypes[name].is_variadic:
            out += helper(prototypes[name])
    return "\n".join(out + ["#endif", ""])


def helper(proto):
    """The inline call of one real function; handles are real ones."""
    result, params = proto.lower_result(), proto.lower_params_text()
    call = "lower_result = ((%s (*)(%s))lower_fn[F_%s])(%s);" % (
        result, params, proto.name, ", ".join(p.name for p in proto.params))
    space = "" if result.endswith("*") else " "
    return [fill("static inline %s%slower_%s(%s)" % (result, space, proto.name, params)), "{",
            "    %s%slower_result;" % (result, space),
            "    unsigned long upper_half = lower_enter();", "",
            fill("    " + call), "    lower_leave(upper_half);", "    return lower_result;", "}", ""]


def data_source(library, handles, prototypes):
    """Our twins of the library's data symbols, the table of predefined handles, the names of the slots.

    mpi.h stays out of this file: it declares the objects with types of its own, here they are storage.
    """
    out = [BANNER, "#include <stddef.h>", "",
           '#include "mpi-layer/api/predefined.h"', "",
           '#define EXPORT __attribute__((visibility("default")))', ""]
    names = sorted(library.data)
    out += ["extern EXPORT char %s[%d];" % (name, library.data[name].size) for name in names
            if not library.data[name].points_to]
    out += [""]
    for name in names:
        data = library.data[name]
        if data.points_to:
            out.append("EXPORT void *%s = &%s;" % (name, data.points_to))
        else:
            out.append("char %s[%d] __attribute__((aligned(%d)));" % (name, data.size, alignment(data.size)))
    present = [name for name in sorted(handles) if name in library.data]
    out += ["", "const struct predefined_handle predefined_handles[] = {"]
    out += ['    {"%s", %s, HANDLE_%s, %d},' % (
        name, name, handles[name].upper(), library.data[name].size) for name in present]
    out += ["};", "const size_t predefined_handle_count = %d;" % len(present), "",
            "extern const char *const lower_fn_name[%d];" % len(prototypes),
            "const char *const lower_fn_name[%d] = {" % len(prototypes)]
    out += ['    "P%s",' % name for name in sorted(prototypes)]
    return "\n".join(out + ["};", ""])


def alignment(size):
    """What the compiler gives objects of that size: 32 bytes to large ones, their size to small ones."""
    return 32 if size >= 32 else max(a for a in (1, 2, 4, 8, 16) if a <= max(size, 1))


def export_map(library):
    """A linker version script: the library's names and no others, under its versions if it has any."""
    nodes = {}
    for name in sorted(library.names()):
        nodes.setdefault(library.versions.get(name, ""), []).append(name)
    out = ["# Made by mpi-layer/api/generate.py; not to be edited."]
    if set(nodes) == {""}:
        return "\n".join(out + node("", nodes[""], True) + [""])
    for version in sorted(nodes):
        out += node(version or "BELAY", nodes[version], not version)
    return "\n".join(out + [""])


def node(version, names, is_last):
    lines = [(version + " {").strip(), "global:"] + ["    %s;" % name for name in names]
    return lines + (["local:", "    *;"] if is_last else []) + ["};"]
