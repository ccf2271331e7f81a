"""Reads mpi.h: prototypes, predefined handles.

The header is preprocessed first, so conditionals, macros and comments are the compiler's business. It
is read as Open MPI reads it when it builds itself (OMPI_BUILDING), which declares the functions of MPI-1
that the library still exports.
"""

import re
import subprocess
from dataclasses import dataclass

from . import GenerateError

HANDLE_TYPES = ["Comm", "Datatype", "Errhandler", "File", "Group", "Info", "Message", "Op", "Request", "Win"]

# Open MPI's struct names of the objects behind predefined handles.
OBJECT_KINDS = {
    "communicator": "Comm", "datatype": "Datatype", "errhandler": "Errhandler", "file": "File",
    "group": "Group", "info": "Info", "message": "Message", "op": "Op", "request": "Request", "win": "Win",
}

# Predefined datatypes and handlers that the library exports for its other languages, not in mpi.h.
UNDECLARED_HANDLES = {"ompi_mpi_errors_throw_exceptions": "Errhandler", "ompi_mpi_unavailable": "Datatype"}

# A type of MPI-1 that mpi.h hides from ordinary programs, and its present name.
RENAMED_TYPES = {"MPI_Handler_function": "MPI_Comm_errhandler_function"}


@dataclass
class Param:
    """One parameter. level: 0 a plain value, 1 a pointer or an array of handles, for handles only."""
    text: str
    name: str
    handle: str = ""
    level: int = 0
    is_const: bool = False
    is_array: bool = False

    def lower_text(self):
        """The declaration with real handles, which are plain pointers on our side."""
        if not self.handle:
            return self.text
        const = "const " if self.is_const else ""
        if self.is_array:
            return "void *%s%s[]" % (const, self.name)
        return "void *%s%s%s" % ("*" if self.level else "", const if self.level == 0 else "", self.name)


@dataclass
class Prototype:
    result: str
    name: str
    params: list
    is_variadic: bool = False

    def params_text(self):
        texts = [p.text for p in self.params] + (["..."] if self.is_variadic else [])
        return ", ".join(texts) or "void"

    def lower_params_text(self):
        return ", ".join(p.lower_text() for p in self.params) or "void"

    def lower_result(self):
        return "void *" if self.result_handle() else self.result

    def result_handle(self):
        """The handle type that the function returns, or an empty string."""
        match = re.fullmatch(r"MPI_(\w+)", self.result)
        return match.group(1) if match and match.group(1) in HANDLE_TYPES else ""


def preprocess(cc, flags):
    """mpi.h after the preprocessor; cc and flags are lists of words."""
    command = cc + flags + ["-E", "-P", "-DOMPI_BUILDING=1", "-x", "c", "-"]
    run = subprocess.run(command, input="#include <mpi.h>\n", capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise GenerateError("cannot preprocess mpi.h: " + " ".join(run.stderr.split())[:300])
    return run.stdout


def split_top(text, separator):
    """Splits at the separator outside of (), [] and {}."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == separator and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def strip_attributes(text):
    """Removes __attribute__((...)), extern and __extension__."""
    out = ""
    while True:
        match = re.search(r"\b__attribute__\s*\(", text)
        if not match:
            break
        out += text[:match.start()]
        depth, i = 1, match.end()
        while depth and i < len(text):
            depth += {"(": 1, ")": -1}.get(text[i], 0)
            i += 1
        text = text[i:]
    return re.sub(r"\b(extern|__extension__)\b", " ", out + text)


def parse_param(text, index):
    """One parameter declaration; unnamed ones are called argN."""
    text = " ".join(text.split())
    for old, new in RENAMED_TYPES.items():
        text = re.sub(r"\b%s\b" % old, new, text)
    function_pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)", text)
    if function_pointer:
        return Param(text, function_pointer.group(1))
    match = re.fullmatch(r"(const )?MPI_(\w+?)( const)? ?(\*?) ?(\b\w+)? ?(\[\w*\])?", text)
    if match and match.group(2) in HANDLE_TYPES:
        name = match.group(5) or "arg%d" % index
        is_array = bool(match.group(6))
        param = Param("", name, match.group(2), 1 if match.group(4) or is_array else 0,
                      bool(match.group(1) or match.group(3)), is_array)
        param.text = "%sMPI_%s %s%s%s" % ("const " if param.is_const else "", param.handle,
                                          "*" if match.group(4) else "", name, "[]" if is_array else "")
        return param
    base = re.sub(r"\[[^\]]*\]", "", text)
    words = re.findall(r"\w+", base)
    if base.endswith("*") or len([w for w in words if w != "const"]) < 2:
        name = "arg%d" % index
        brackets = text[len(base):]
        return Param("%s%s%s%s" % (base, "" if base.endswith("*") else " ", name, brackets), name)
    return Param(re.sub(r"\* (?=\w)", "*", text), words[-1])


def parse_prototype(statement):
    """A Prototype from one declaration without its semicolon, or None if it declares no function."""
    text = " ".join(strip_attributes(statement).split())
    match = re.fullmatch(r"((?:const )?\w[\w ]*?[ *]+)(\w+) ?\((.*)\)", text)
    if not match or re.match(r"(typedef|struct|static|return)\b", text):
        return None
    words = split_top(match.group(3), ",")
    if words == ["void"]:
        words = []
    is_variadic = bool(words) and words[-1] == "..."
    if is_variadic:
        words = words[:-1]
    params = [parse_param(word, i) for i, word in enumerate(words)]
    return Prototype(match.group(1).strip(), match.group(2), params, is_variadic)


def parse_header(text):
    """(prototypes by name, handle kind by object symbol) of a preprocessed mpi.h."""
    prototypes, handles = {}, dict(UNDECLARED_HANDLES)
    for statement in split_top(re.sub(r"^\s*#.*$", "", text, flags=re.M), ";"):
        match = re.fullmatch(r"struct ompi_predefined_(\w+)_t (\w+)",
                             " ".join(strip_attributes(statement).split()))
        if match and match.group(1) in OBJECT_KINDS:
            handles[match.group(2)] = OBJECT_KINDS[match.group(1)]
            continue
        prototype = parse_prototype(statement)
        if prototype and re.match(r"MPI_", prototype.name):
            prototypes[prototype.name] = prototype
    return prototypes, handles
