"""The lint finds what it is there for: each bad snippet, in a temporary tree, gives its finding."""
import pathlib
import shutil
import subprocess

import pytest

LINT = pathlib.Path(__file__).resolve().parents[1] / "lint"

GOOD = {
    "README.md": "# Top\n\nA tree to be checked.\n",
    "common/README.md": "# common\n\nWhat all parts share.\n",
    "common/util/README.md": "# common/util\n\nErrors.\n",
    "common/util/error.h": "#include <stdint.h>\nint error_code(uint32_t code);\n",
    "common/util/error.c": '#include "common/util/error.h"\n',
    "common/conf/README.md": "# common/conf\n\nSettings.\n",
    "common/conf/conf.c": '// .name = "pace", .variable = "BELAY_PACE"\n// .name = "own", .variable = "BELAY_OWN"\n',
    "common/wire/README.md": "# common/wire\n\nMessages.\n",
    "common/wire/settings.proto": "message JobSettings {\n  optional uint64 pace_ms = 1;\n}\n",
    "cmd/README.md": "# cmd\n\nCommands.\n",
    "cmd/own.c": 'const char *own = "BELAY_OWN";\n',
    "docs/README.md": "# docs\n\nPages.\n",
    "coord/README.md": "# coord\n\nThe state machine.\n",
    "coord/coord.h": "#ifdef __cplusplus\n#endif\nint coord_step(void);\n",
    "node-agent/README.md": "# node-agent\n\nThe agent.\n",
    "node-agent/member/README.md": "# node-agent/member\n\nRanks.\n",
    "node-agent/host/README.md": "# node-agent/host\n\nLines.\n",
    "node-agent/host/host.c": '#include "coord/coord.h"\n#include "common/util/error.h"\n',
}

BAD = [
    ("coord/a.c", '#include "node-agent/job/agent.h"\n', "coord/a.c:1: coord may not include node-agent"),
    ("coord/a.c", '#include "mpi-layer/upper/x.h"\n', "coord may not include mpi-layer"),
    ("node-agent/host/a.c", '#include "node-agent/launch/epoch.h"\n', "node-agent/host may not include node-agent/launch"),
    ("node-agent/host/a.c", '#include "node-agent/member/x.h"\n', "node-agent/host may not include node-agent/member"),
    ("node-agent/member/a.c", '#include "node-agent/host/x.h"\n', "node-agent/member may not include node-agent/host"),
    ("node-agent/a.c", '#include "node-agent/host/host.h"\n', "node-agent may not include node-agent/host"),
    ("common/util/a.c", '#include "common/wire/control.h"\n', "common/util may not include common"),
    ("common/util/a.c", '\n#  include "coord/coord.h"\n', "common/util/a.c:2: common/util may not include coord"),
    ("node-agent/a.c", '#include "agent.h"\n', "does not carry its path"),
    ("node-agent/a.c", "#include <mpi.h>\n", "<mpi.h> may be seen only by"),
    ("node-agent/a.c", "#include <slurm/spank.h>\n", "may be seen only by slurm-plugin"),
    ("coord/a.c", "\tint x;\n", "coord/a.c:1: a tab"),
    ("coord/a.c", "/* " + "x" * 120 + " */\n", "columns, at most 110"),
    ("coord/a.c", "/* TODO later */\n", "a note to oneself: TODO"),
    ("coord/notes.md", "see /root/belay/x\n", "a path of one machine: /root/belay"),
    ("coord/bad.h", "uint64_t count(void);\n", "coord/bad.h: does not compile alone with cc"),
    ("coord/bad.h", "#ifdef __cplusplus\n#endif\nint f(int new);\n", "does not compile alone with c++"),
    ("coord/plan/plan.c", "int x;\n", "coord/plan: no README.md"),
    ("coord/a.c", 'int f(void) { return fault_hit("park", 0, 1); }\n', "fault point park is not listed"),
    ("coord/a.c", 'void f(void) { gate_fault("rest", 1); }\n', "fault point rest is not listed"),
    ("docs/faults.md", "| `gone` | agent | nowhere |\n", "fault point gone is nowhere in the code"),
    ("cmd/a.c", 'static const char *pace = "BELAY_PACE";\n', "cmd/a.c: spells BELAY_PACE, which is for common/conf/conf.c alone"),
    ("coord/step.py", "x = {\n, 1}\n", "coord/step.py:2: invalid syntax"),
    ("coord/step", "#!/usr/bin/python3\nprint(\n", "coord/step:2: '(' was never closed"),
    ("coord/README.md", "# coord\n", "coord/README.md:1: does not open with a sentence"),
]


def make_tree(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def lint(folder):
    return subprocess.run([LINT, folder], capture_output=True, text=True, check=False, timeout=60)


def test_a_good_tree_has_no_findings(tmp_path):
    make_tree(tmp_path, GOOD)
    done = lint(tmp_path)
    assert done.stdout == "lint: 0 findings\n"
    assert done.returncode == 0


@pytest.mark.parametrize("name, text, finding", BAD, ids=[bad[2][:50] for bad in BAD])
def test_a_bad_file_is_found(tmp_path, name, text, finding):
    if finding.endswith("c++") and not shutil.which("c++"):
        pytest.skip("no C++ compiler here")
    make_tree(tmp_path, GOOD | {name: text})
    done = lint(tmp_path)
    assert finding in done.stdout
    assert done.stdout.endswith("lint: 1 findings\n")
    assert done.returncode == 1


CIRCLE_OF_HEADERS = {"coord/a.h": '#include "coord/b.h"\n', "coord/b.h": '#include "coord/a.h"\n'}
CIRCLE_OF_FILES = {"coord/a.h": "int a;\n", "coord/a.c": '#include "coord/a.h"\n#include "coord/b.h"\n',
                   "coord/b.h": "int b;\n", "coord/b.c": '#include "coord/a.h"\n#include "coord/b.h"\n'}


@pytest.mark.parametrize("files, finding", [
    (CIRCLE_OF_HEADERS, "coord/a.h: headers include one another: coord/a.h, coord/b.h"),
    (CIRCLE_OF_FILES, "coord/a: files include one another: coord/a, coord/b"),
])
def test_a_circle_is_found(tmp_path, files, finding):
    make_tree(tmp_path, GOOD | files)
    done = subprocess.run([LINT, "--no-compile", tmp_path], capture_output=True, text=True, check=False, timeout=60)
    assert finding in done.stdout
    assert done.stdout.endswith("lint: 1 findings\n") and done.returncode == 1


def test_a_chain_of_files_is_none(tmp_path):
    make_tree(tmp_path, GOOD | CIRCLE_OF_FILES | {"coord/b.c": '#include "coord/b.h"\n'})
    assert lint(tmp_path).stdout == "lint: 0 findings\n"


def test_folders_of_a_component_have_layers(tmp_path):
    readmes = {f"mpi-layer{folder}/README.md": "# It\n\nA part.\n" for folder in ("", "/lower", "/upper")}
    make_tree(tmp_path, GOOD | readmes | {"mpi-layer/upper/b.h": "int b;\n",
                                          "mpi-layer/lower/a.c": '#include "mpi-layer/upper/b.h"\n'})
    done = lint(tmp_path)
    assert "mpi-layer/lower/a.c:1: mpi-layer/lower may not include mpi-layer/upper" in done.stdout
    assert done.returncode == 1


def formatter_is_here():
    done = shutil.which("clang-format") and subprocess.run(["clang-format", "--version"], capture_output=True, text=True,
                                                           check=False)
    return bool(done) and " 14." in done.stdout


@pytest.mark.skipif(not formatter_is_here(), reason="clang-format 14 is not installed")
def test_a_file_of_another_format_is_found(tmp_path):
    make_tree(tmp_path, GOOD | {".clang-format": "BasedOnStyle: LLVM\nSortIncludes: false\n", "coord/a.c": "int a;\n\nint  b;\n"})
    done = lint(tmp_path)
    assert "coord/a.c:3: not as clang-format writes it" in done.stdout
    assert done.stdout.endswith("lint: 1 findings\n") and done.returncode == 1
    (tmp_path / "coord/a.c").write_text("int a;\n\nint b;\n")
    assert lint(tmp_path).returncode == 0


def test_a_long_file_is_a_warning_only(tmp_path):
    make_tree(tmp_path, GOOD | {"coord/long.c": "int f(void);\n" * 701})
    done = lint(tmp_path)
    assert "warning: coord/long.c: 701 lines" in done.stdout
    assert done.returncode == 0


def test_build_folders_and_test_folders_are_left_out(tmp_path):
    make_tree(tmp_path, GOOD | {"_build/a.c": "\t/* XXX */\n", "coord/test/coord_test.c": "int x;\n"})
    assert lint(tmp_path).returncode == 0


def test_the_note_of_a_git_worktree_is_left_out(tmp_path):
    make_tree(tmp_path, GOOD | {".git": "gitdir: /work/elsewhere/.git/worktrees/mine\n"})
    assert lint(tmp_path).returncode == 0
