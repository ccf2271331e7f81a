"""gdb: load the symbols of a rank's upper half, the program as it runs under Belay.

    gdb -p PID -x scripts/gdb-symbols.py          a running rank
    gdb belay-launch CORE -x scripts/gdb-symbols.py

gdb knows only what the system's loader has loaded, which is the lower half. This adds every ELF file that is
mapped in the upper half's range at its address there.
"""
import re

import gdb

UPPER = range(0x15F000000000, 0x1E0000000000)  # mpi-layer/lower/map.h: the page of code, the upper half
LINE = re.compile(r"^\s*(0x[0-9a-f]+)\s+0x[0-9a-f]+\s+0x[0-9a-f]+\s+(0x[0-9a-f]+)\s.*?(/.*)$", re.MULTILINE)


def upper_files():
    """Each file's lowest address in the upper half."""
    files = {}
    for start, offset, path in LINE.findall(gdb.execute("info proc mappings", to_string=True)):
        address = int(start, 16)
        if address in UPPER and int(offset, 16) == 0:
            files.setdefault(path.strip(), address)
    return files


def load_symbols():
    for path, address in upper_files().items():
        try:
            gdb.execute(f"add-symbol-file {path} -o {address:#x}", to_string=True)
            print(f"belay: symbols of {path} at {address:#x}")
        except gdb.error as error:
            print(f"belay: no symbols of {path}: {error}")


load_symbols()
