"""C programs with models: writes, compiles and runs them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.artifacts.saved import COUNTER, MIXED, TINY, VOLUMES, compiled

Array = np.ndarray[Any, Any]

COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
CXX = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
WARNINGS = ("-Wall", "-Wextra", "-pedantic", "-Werror")
LIBRARIES = ("-lm", "-lpthread", "-Wl,--fatal-warnings")

KINDS = """\
version 1.0;
graph kinds( double, Int, flag ) -> ( y, int, flags )
{
    double = external(shape = [3, 1]);
    Int = external<integer>(shape = [4]);
    flag = external<logical>(shape = [3, 4]);
    a = exp(double) + sin(double);
    y = a * 2.0;
    int = select(flag, 1, 2);
    flags = y > 1.0;
    unused = copy(Int);
}
"""
"""Items of every type, names that C reserves, functions of the C library."""

SLICED = """\
version 1.0;
graph sliced( x ) -> ( y )
{
    x = external(shape = [16, 32, 56, 56]);
    first = variable(shape = [64, 32, 3, 3], label = 'first');
    second = variable(shape = [64, 64, 3, 3], label = 'second');
    a = relu(conv(x, first, 0.0));
    b = relu(conv(a, second, 0.0));
    y = mean_reduce(b, axes = [2, 3]);
}
"""
"""A batch that runs slice by slice."""

INDEXED = """\
version 1.0;
graph indexed( ids ) -> ( rows )
{
    ids = external<integer>(shape = [3]);
    table = variable(shape = [10, 2], label = 'table');
    sum = variable(shape = [3, 2], label = 'sum');
    rows = gather(table, ids, axis = 0) + sum;
    next = update(sum, rows);
}
"""
"""Indices, and a variable that is updated."""

DOCUMENTS = {
    "tiny": TINY,
    "mixed": MIXED,
    "volumes": VOLUMES,
    "counter": COUNTER,
    "kinds": KINDS,
    "sliced": SLICED,
    "indexed": INDEXED,
}
OPTIONS: dict[str, dict[str, Any]] = {"kinds": {"scalar": "float64"}}


class Emitted:
    """A model and its folder."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir()
        self.model = compiled(folder, DOCUMENTS[name], **OPTIONS.get(name, {}))
        self.folder = folder / "c"
        self.name = name
        self.files = self.model.emit_c(self.folder)

    def build(self, source: str, program: str, *more: str) -> Path:
        """Compile a source file of the folder with the object."""
        made = self.folder / program
        compile_c("-std=c99", *WARNINGS, source, f"{self.name}.o", "-o", made, *LIBRARIES, *more)
        return made


def compile_c(*arguments: str | Path, at: Path | None = None) -> None:
    assert COMPILER
    places = [a for a in arguments if isinstance(a, Path)]
    folder = at or places[0].parent
    done = subprocess.run(
        [COMPILER, *map(str, arguments)], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def run(program: Path, *arguments: str | Path, status: int = 0) -> str:
    done = subprocess.run(
        [program, *arguments], cwd=program.parent, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def of(*names: str) -> Any:
    return pytest.mark.parametrize("emitted", names, indirect=True)


def run_main(
    program: Path,
    threads: int,
    given: Sequence[Array],
    like: Sequence[Array],
    symbols: Sequence[int] = (),
) -> Any:
    """The outputs of the example program, for values of the symbols."""
    folder = program.parent
    names = [folder / f"in{i}.raw" for i in range(len(given))]
    for path, x in zip(names, given, strict=True):
        x.tofile(path)
    made = [folder / f"out{i}.raw" for i in range(len(like))]
    values = [word for value in symbols for word in ("-s", str(value))]
    text = run(program, "-t", str(threads), *values, "--", *names, *made)
    assert re.search(r"^(1 thread|\d\d+ threads|[02-9] threads): created in", text, re.M)
    return [np.fromfile(p, y.dtype).reshape(y.shape) for p, y in zip(made, like, strict=True)]
