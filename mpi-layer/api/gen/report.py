"""Emits docs/mpi-support.md: what is supported, what is refused and why."""

HEAD = """# MPI functions

Made from `mpi-layer/api/functions.tsv` by `mpi-layer/api/generate.py --table`; not to be edited.

Belay stands in for the `libmpi.so.40` of Open MPI 4, which exports {total} names of MPI. Of these
{supported} are supported. The others raise an MPI error on the communicator (or on `MPI_COMM_WORLD`) that
names the function and the reason; nothing is passed on silently.

## Supported

| class | functions |
|---|---|"""

REFUSED = """
## Refused

| reason | functions |
|---|---|"""


def support_table(rows):
    """The Markdown text."""
    supported, refused = {}, {}
    for row in rows.values():
        short = row.name[len("MPI_"):]
        if row.handling == "refused":
            refused.setdefault(row.note, []).append(short)
        else:
            supported.setdefault(row.semantics, []).append(short)
    n_supported = sum(len(names) for names in supported.values())
    out = [HEAD.format(total=len(rows), supported=n_supported)]
    out += ["| %s | %s |" % (name, ", ".join(sorted(supported[name]))) for name in sorted(supported)]
    out.append(REFUSED)
    out += ["| %s | %s |" % (reason, ", ".join(sorted(refused[reason]))) for reason in sorted(refused)]
    return "\n".join(out) + "\n"
