"""Calls with arrays by name, and the public names of models."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc import NnefError
from tests.helpers.command_line import ROOT
from tests.helpers.graphs.dynamic_models import model as dynamic_model
from tests.helpers.graphs.dynamic_models import rows

A, B = rows(2), rows(2) ** 2

STATIC = """\
version 1.0;
graph g( a, b ) -> ( y )
{
    a = external(shape = [2, 4]);
    b = external(shape = [2, 4]);
    y = sub(a, b);
}
"""
DYNAMIC = """graph g(a, b) -> (y) {
  a = tract_core_external(shape = [S, 4], datum_type = 'f32');
  b = tract_core_external(shape = [S, 4], datum_type = 'f32');
  y = a - b;
}"""


def static(folder: Path) -> nnefc.Model:
    folder.mkdir(exist_ok=True)
    (folder / "graph.nnef").write_text(STATIC)
    return nnefc.compile(folder, threads=1)


def checked(folder: Path) -> nnefc.Model:
    """A model without a native call."""
    model = static(folder)
    model._native = None  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    return model


def loaded(folder: Path) -> nnefc.Model:
    static(folder).save(folder / "net.nnefc")
    return nnefc.load(folder / "net.nnefc", threads=1)


def dynamic(folder: Path) -> nnefc.DynamicModel:
    folder.mkdir(exist_ok=True)
    return dynamic_model(folder, DYNAMIC, "extension tract_symbol S;\n")


def session(folder: Path) -> nnefc.Session:
    return dynamic(folder).session()


KINDS = [static, checked, loaded, dynamic, session]


@pytest.mark.parametrize("make", KINDS)
def test_arrays_are_given_by_name(make: Callable[[Path], Any], tmp_path: Path) -> None:
    model = make(tmp_path)
    for y in (model(a=A, b=B), model(b=B, a=A), model(A, b=B), model(A, B)):
        np.testing.assert_array_equal(y, A - B)
    out = np.zeros((2, 4), np.float32)
    assert model(A, b=B, out=out) is out
    np.testing.assert_array_equal(out, A - B)


@pytest.mark.parametrize("make", KINDS)
def test_wrong_names_are_all_reported(make: Callable[[Path], Any], tmp_path: Path) -> None:
    model = make(tmp_path)

    def errors(*arrays: Any, **named: Any) -> list[str]:
        with pytest.raises(NnefError) as caught:
            model(*arrays, **named)
        assert {e.rule for e in caught.value.errors} <= {"input/name", "input/count"}
        return [f"{e.message}; {e.hint}" for e in caught.value.errors]

    assert errors(a=A) == ["input 'b' is missing; "]
    assert errors(A, c=B) == [
        "no input is named 'c'; the inputs are a, b",
        "input 'b' is missing; ",
    ]
    assert errors(A, a=B, b=B) == [
        "input 'a' is given twice: by position 1 and by name; leave one out"
    ]
    assert errors(A, a=B)[1:] == ["input 'b' is missing; "]
    assert errors(A, A, b=B)[0].startswith("input 'b' is given twice: by position 2")
    assert errors(A, A, A, b=B) == ["3 arrays given, and others by name; expected 2: a, b; "]


def test_inputs_may_be_named_like_parameters(tmp_path: Path) -> None:
    names = ("self", "arrays", "named", "inputs")
    text = "version 1.0;\ngraph g( self, arrays, named, inputs ) -> ( y )\n{\n"
    text += "".join(f" {name} = external(shape = [2]);\n" for name in names)
    (tmp_path / "graph.nnef").write_text(text + " y = add_n([self, arrays, named, inputs]);\n}\n")
    model = nnefc.compile(tmp_path, threads=1)
    arrays = {name: np.full(2, 10.0**i, np.float32) for i, name in enumerate(names)}
    np.testing.assert_array_equal(model(**arrays), [1111, 1111])


def test_profiles_take_arrays_by_name(tmp_path: Path) -> None:
    for model in (static(tmp_path), dynamic(tmp_path / "dynamic")):
        assert model.profile(A, b=B, seconds=0.001).wall.size
        with pytest.raises(NnefError, match="input 'b' is missing"):
            model.profile(a=A)


FACTS = "arena_bytes constant_bytes graph launches outputs plan threads variables"
CALLS = "emit_c inputs profile reset run save"


def test_dir_lists_what_the_reference_documents(tmp_path: Path) -> None:
    compiled, symbolic = static(tmp_path), dynamic(tmp_path / "dynamic")
    assert dir(compiled) == sorted(f"{FACTS} {CALLS} emit_openvx".split())
    more = "for_shapes input_names input_shapes output_names output_shapes plans session shapes"
    facts = "constant_bytes outputs threads variables"
    assert dir(symbolic) == sorted(f"{CALLS} {facts} {more} states symbols".split())
    assert dir(session(tmp_path / "session")) == ["reset", "run", "shapes", "states"]
    page = (ROOT / "docs" / "reference.md").read_text()
    for model in (compiled, symbolic):
        assert all(hasattr(model, name) for name in dir(model))
        part = page.partition(f"### nnefc.{type(model).__name__}\n")[2].partition("\n### ")[0]
        documented = set(re.findall(r"^#### (\w+)", part, re.M)) - {"__call__"}
        assert documented <= set(dir(model)), documented - set(dir(model))
        assert "save" in documented and "profile" in documented
    assert dir(nnefc) == sorted(nnefc.__all__)
