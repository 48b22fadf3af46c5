"""The example program in the folder of a model: its options and its messages."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np

from nnefc.kernels.embedded.model_layout import STATUS
from tests.helpers.artifacts.c_programs import Emitted, needs_compiler, of, run, run_main
from tests.helpers.artifacts.saved import inputs, results

BOTH = of("mixed", "counter")
"""With a file of weights, and without."""


@needs_compiler
@BOTH
def test_help_and_missing_arguments_print_the_usage(emitted: Emitted) -> None:
    program = emitted.build("main.c", "example")
    shown = run(program, "--help")
    assert shown.startswith(f"usage: {program} [-t THREADS] ")
    assert ("-w WEIGHTS" in shown) == (emitted.name == "mixed")
    assert f"in the order of {emitted.name}.h:" in shown
    assert run(program, "-h") == shown
    assert run(program, status=1) == shown
    asked = subprocess.run([program, "-h"], capture_output=True, text=True, check=True)
    assert asked.stderr == ""


@needs_compiler
@BOTH
def test_the_number_of_threads_is_checked_and_used(emitted: Emitted) -> None:
    program = emitted.build("main.c", "example")
    for text in ("abc", "", "2x", "-1", "1e3", "99999999999999999999"):
        shown = run(program, "-t", text, status=1)
        assert shown == f"{text}: this is no number of threads\n"
    if emitted.name == "mixed":  # the other is too small for several
        assert run(program, "-t", "2").splitlines()[-1].startswith("2 threads: created in")
        everything = len(os.sched_getaffinity(0))
        assert f"{everything} threads: created in" in run(program, "-t", "0")


@needs_compiler
@BOTH
def test_wrong_options_of_the_example(emitted: Emitted, tmp_path: Path) -> None:
    program = emitted.build("main.c", "example")
    count = len(emitted.model.inputs) + len(emitted.model.outputs)
    for arguments, expected in (
        (["-x", "1"], "-x: there is no such option; see --help"),
        (["-", "1"], "-: there is no such option; see --help"),
        (["-t"], "-t: its value is missing; see --help"),
        (["-t", "1", "none.raw"], "none.raw: cannot be opened"),
        (["--", "-t"], "-t: cannot be opened"),
        (["a"] * count + ["more"], f"more: there are only {count} inputs and outputs"),
    ):
        assert run(program, *arguments, status=1) == f"{expected}\n"
    if emitted.name == "counter":
        assert "-w: there is no such option" in run(program, "-w", "file", status=1)
    (tmp_path / "short").write_bytes(b"12")
    assert "short: not " in run(program, tmp_path / "short", status=1)


@needs_compiler
@of("mixed")
def test_search_path_of_weights(emitted: Emitted, tmp_path: Path) -> None:
    built = emitted.build("main.c", "example")
    weights = emitted.folder / "mixed.weights"
    here, beside, apart = (tmp_path / name for name in ("here", "beside", "apart"))
    for folder in (here, beside, apart):
        folder.mkdir()
    program = Path(shutil.copy(built, beside / "example"))

    def at(folder: Path, *arguments: str | Path, name: str | Path = program) -> tuple[int, str]:
        done = subprocess.run(
            [name, *arguments],
            executable=program,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    missing = f"{program.parent}/mixed.weights: {STATUS['NO_FILE']}\n"
    assert at(here, "-t", "1") == (1, missing)
    assert at(here, "-t", "1", name="example") == (1, f"mixed.weights: {STATUS['NO_FILE']}\n")
    shutil.copy(weights, here)
    assert at(here, "-t", "1")[0] == 0
    assert at(apart, "-t", "1")[0] == 1
    shutil.copy(weights, beside)
    assert at(apart, "-t", "1")[0] == 0
    assert at(apart, "-t", "1", name="../beside/example")[0] == 0
    (here / "mixed.weights").write_bytes(b"other")
    wrong = f"mixed.weights: {STATUS['WRONG_WEIGHTS']}\n"
    assert at(here, "-t", "1") == (1, wrong), "those that are here come first"
    assert at(here, "-w", weights, "-t", "1")[0] == 0
    (beside / "mixed.weights").unlink()
    name = "x" * 5000 + "/example"
    assert at(apart, "-t", "1", name=name) == (1, f"mixed.weights: {STATUS['NO_FILE']}\n")


@needs_compiler
@of("mixed")
def test_default_inputs_are_zeros_and_ones(emitted: Emitted) -> None:
    program = emitted.build("main.c", "example")
    shown = run(program, "-t", "1")
    for output in emitted.model.outputs:
        nbytes = int(np.prod(output.shape)) * output.dtype.itemsize
        assert f"{output.name}: {nbytes} bytes" in shown
    expected = results(emitted.model)
    for y, got in zip(expected, run_main(program, 1, inputs(emitted.model), expected)):
        assert got.tobytes() == y.tobytes()
