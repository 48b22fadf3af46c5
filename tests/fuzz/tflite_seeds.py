"""Models of single operators, as tests have them, and packages with damaged files."""

from __future__ import annotations

import importlib
import json
import zipfile
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

from tests.helpers.nnef import hostile
from tests.helpers.tflite.hostile import mutations
from tests.helpers.tflite.one_operator import Case, content_of
from tests.helpers.tflite.packages import DIAMOND, diamond_models, files_of

TESTS = Path(__file__).parents[1] / "frontends" / "tflite"
_MOST = 8192
"""Bytes of a model that is mutated: larger ones are mostly weights."""


@cache
def operator_models() -> list[bytes]:
    """The models of all parametrised tests of operators, each once."""
    contents = (content_of(case) for case in _cases())
    return list(dict.fromkeys(each for each in contents if len(each) <= _MOST))


def _cases() -> Iterator[Case]:
    for path in sorted(TESTS.glob("test_*.py")):
        module = importlib.import_module(f"tests.frontends.tflite.{path.stem}")
        for value in vars(module).values():
            for mark in getattr(value, "pytestmark", ()):
                if mark.name == "parametrize":
                    yield from _cases_in(mark.args[1])


def _cases_in(values: Any) -> Iterator[Case]:
    """The cases among the values of a parameter, or of several."""
    for value in values:
        if isinstance(value, Case):
            yield value
        elif isinstance(value, tuple | list):
            yield from _cases_in(value)


def package(random: Random) -> bytes:
    """An archive of three connected models; one of its files is damaged, or the archive."""
    manifest: Any = json.dumps(DIAMOND).encode()
    files = files_of(manifest, diamond_models())
    what = random.random()
    if what < 0.7:
        name = random.choice(list(files))
        if name.endswith(".tflite"):
            files[name] = next(mutations(files[name], random.randrange(1 << 30), 1))
        else:
            files[name] = hostile.mutate(files[name], random)
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    content = stream.getvalue()
    return content if what < 0.7 else hostile.mutate(content, random)
