"""The test programs by themselves: they work, and their results do not depend on the run."""

import pytest

from programs import Program, run_native

PROGRAMS = {
    "collmix": ["--steps", 500],
    "compute": ["--seconds", 0.3],
    "exits": [],
    "imbalance": ["--steps", 3, "--seconds", 0.3],
    "p2pmix": ["--steps", 200],
    "refused": [],
    "ring": ["--steps", 100],
    "sleepy": ["--seconds", 0.8],
    "threads": ["--steps", 50],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_result_twice(programs, name, tmp_path):
    program = programs.test_program(name, *PROGRAMS[name])
    first, second = (run_native(program, tmp_path) for _ in range(2))
    assert first.returncode == 0, first.stderr.decode()
    assert first.stdout and first.stdout == second.stdout


def test_heat_same_bits_on_any_process_grid(programs):
    results = [programs.reference(programs.heat(side=100, steps=200, snapshot_every=100, ranks=ranks))
               for ranks in (1, 3, 4)]
    assert all(result.status == 0 and len(result.files) == 2 for result in results)
    assert len({result.files for result in results}) == 1
    assert len({result.stdout.splitlines()[-1] for result in results}) == 1  # the checksum


@pytest.mark.parametrize("arguments, words", [
    (["--input", "nowhere.h5"], "cannot read nowhere.h5"),
    (["--steps", "many", "--input", "x"], "not a number"),
    (["--colour"], "unknown option"),
    ([], "--input FILE is needed"),
])
def test_heat_says_what_is_wrong(programs, arguments, words, tmp_path):
    heat = programs.heat().argv[0]
    done = run_native(Program((heat, *arguments), ranks=2), tmp_path)
    lines = [line for line in done.stderr.decode().splitlines() if line.startswith("heat:")]
    assert done.returncode != 0 and len(lines) == 1 and words in lines[0]
