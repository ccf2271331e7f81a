"""docs/compatibility.md and docs/compatibility-nodes.md, from the outcomes of the campaign."""

import os
import re
import subprocess

PAGE = """# Programs that were run{title}

Made by `tests/campaigns/compatibility/run{arguments} --report`; not to be edited. Each program ran natively and under
`belay run --interval {interval}{more}` ({short} for short ones), with `kill -9` of {victim} at half time. "Same" means:
exit status, standard output and the output files are those of the native run, but for what
`tests/campaigns/compatibility/rules.tsv` lets differ (times and rates), and the restart came from a committed line
with new processes. Of mpi4py's tests, those that pass natively have to pass, unless they want a function that Belay
refuses ([mpi-support.md](mpi-support.md)); `test_spawn` and `test_dynproc`, which start processes, are left out.
The tests of MPICH have pages of their own: in C [mpich-suite.md](mpich-suite.md), in Fortran
[mpich-fortran.md](mpich-fortran.md). Programs that want one-sided communication are ended at their first window, with one
line of each rank: NWChem (Debian's nwchem-openmpi) and coarrays of gfortran (OpenCoarrays) were tried.

{where}

| program | origin | what it is | ranks | native | under Belay | lines | restored from | result |
|---|---|---|---|---|---|---|---|---|
{rows}

Times are wall clock, on two cores that other jobs kept busy; they are no measure of Belay's cost, which
[bench](../bench/README.md) and `tests/campaigns/compatibility/cost` measure.
"""


def row(target, outcome):
    """A row of the table; `outcome` as run keeps it."""
    result = outcome["problem"] or outcome["verdict"]
    return (f"| {target.name} | {target.origin} | {target.what} | {target.ranks} | {outcome['native_s']:.0f} s | "
            f"{outcome['belay_s']:.0f} s | {outcome['lines']} | line {outcome['restored_line']} | {result} |")


def _first_line(command):
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return (run.stdout.splitlines() or ["unknown"])[0]


def _where(sources):
    with open("/etc/os-release", encoding="utf-8") as file:
        system = re.search(r'PRETTY_NAME="(.*)"', file.read()).group(1)
    versions = ", ".join(f"{name} {source.version}" for name, source in sources.items())
    return (f"{system}, {_first_line(['mpirun', '--version'])}, Linux {os.uname().release}. Origin is the package of "
            f"Debian\nor the source: {versions}; addresses and build\ncommands are in "
            "`tests/campaigns/compatibility/sources.py`.")


def _way(options):
    """What the page says of how the programs were disturbed."""
    if options.nodes <= 1:
        return {"title": "", "arguments": "", "more": "", "victim": "a random rank"}
    more = f" {options.options}" if options.options else ""
    return {"title": " on several nodes", "arguments": f" --nodes {options.nodes}",
            "more": f" --nodes {options.nodes} --local{more}", "victim": "all processes of a random node, its keeper among them,"}


def write(path, targets, results, sources, intervals, options):
    rows = "\n".join(row(target, results[target.name]) for target in targets if target.name in results)
    with open(path, "w", encoding="utf-8") as file:
        file.write(PAGE.format(**_way(options), interval=intervals[0], short=intervals[1], where=_where(sources), rows=rows))
