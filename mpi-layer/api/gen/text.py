"""Layout of generated C."""

BANNER = "/* Made by mpi-layer/api/generate.py; not to be edited. */"


def fill(line, width=110):
    """One long C line, broken after commas; continuations are indented by four more than the line."""
    indent = " " * (len(line) - len(line.lstrip()))
    words = [word + ", " for word in line.split(", ")]
    words[-1] = words[-1][:-2]
    lines, current = [], ""
    for word in words:
        if current and len(current) + len(word.rstrip()) > width:
            lines.append(current.rstrip())
            current = indent + "    "
        current += word
    return "\n".join(lines + [current])
