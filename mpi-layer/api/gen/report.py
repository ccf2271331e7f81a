"""Emits docs/mpi-support.md: what is supported, what is refused and why."""

HEAD = """# MPI functions

Made from `mpi-layer/api/functions.tsv` by `mpi-layer/api/generate.py --table`; not to be edited.

Belay stands in for the `libmpi.so.40` of Open MPI 4, which exports {total} names of MPI. Of these
{supported} are supported. The others raise an MPI error on the communicator (or on `MPI_COMM_WORLD`) that
names the function and the reason; nothing is passed on silently.

## Supported

| class | functions |
|---|---|"""

TESTED = """
## Tested by

The test programs (`tests/programs`) that call each of these before a recovery line and after a restart from it, where
something can be left pending also across both: `tests/uses.tsv`, which `tests/test_functions.py` holds against counts of
the calls. Not here are functions that are called once (`MPI_Init`, `MPI_Init_thread`, `MPI_Finalize`, `MPI_Abort`),
those that only Fortran calls (`tests/test_languages.py`) and the tool information interface (`tests/test_tools.py`).

| program | functions |
|---|---|"""

REFUSED = """
## Refused

| reason | functions |
|---|---|"""


def support_table(rows, uses):
    """The Markdown text. uses: the test program of each function."""
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
    tested = {}
    for name, program in uses.items():
        tested.setdefault(program, []).append(name[len("MPI_"):])
    out.append(TESTED)
    out += ["| `%s` | %s |" % (program, ", ".join(sorted(tested[program]))) for program in sorted(tested)]
    out.append(REFUSED)
    out += ["| %s | %s |" % (reason, ", ".join(sorted(refused[reason]))) for reason in sorted(refused)]
    return "\n".join(out) + "\n"
