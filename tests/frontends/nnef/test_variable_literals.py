"""Variables as arguments of attributes, as torch_to_nnef's target `KhronosNNEF` writes them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnefc
from nnefc.formats.tensor_file import write_tensor
from nnefc.support.errors import NnefError
from tests.helpers.nnef.conformance import needs_tract, tract_cases

TEXT = """\
version 1.0;
extension KHR_enable_fragment_definitions;
extension KHR_enable_operator_expressions;
fragment plus( x: tensor<scalar>, a: scalar, n: integer, on: logical ) -> ( y: tensor<scalar> )
{{ y = x + (a * scalar(n) if on else 0.0); }}
fragment either<?>( x: tensor<?>, a: ? ) -> ( y: tensor<?> ) {{ y = select(false, x, a); }}
graph net( x ) -> ( y )
{{
    x = external(shape = [2, 3]);
    a = variable(label = 'a', shape = []);
    n = variable<integer>(label = 'n', shape = []);
    on = variable<logical>(label = 'on', shape = []);
    {};
}}
"""
CALL = "y = plus(plus(x, a = a, n = n, on = on), a = a, n = 1, on = true)"
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def model(folder: Path, statements: str = CALL, **data: Any) -> Path:
    """A model in `folder`, with data for the variables."""
    (folder / "graph.nnef").write_text(TEXT.format(statements))
    for name, value in data.items():
        write_tensor(folder / f"{name}.dat", value)
    return folder


def errors(path: Path) -> list[Any]:
    with pytest.raises(NnefError) as caught, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nnefc.compile(path)
    return list(caught.value.errors)


def known(**others: Any) -> dict[str, Any]:
    """Data of the variables."""
    return {"a": np.float32(0.1), "n": np.int32(3), "on": np.array(True), **others}


def test_values_of_variables_become_literals(tmp_path: Path) -> None:
    path = model(tmp_path, **known())
    with pytest.warns(nnefc.NnefWarning, match="parameter 'a' is scalar") as caught:
        compiled = nnefc.compile(path)
    np.testing.assert_allclose(compiled(X), X + np.float32(0.1) * 4, rtol=1e-6)
    said = [str(each.message) for each in caught]
    assert len(said) == 3  # each parameter once
    assert "plus: parameter 'a' is scalar, but the argument is the variable 'a'" in said[0]
    assert "graph.nnef:13:26: warning" in said[0] and "its value 0.1 is taken" in said[0]
    assert "'n' is integer" in said[1] and "its value 3 is taken" in said[1]
    assert "'on' is logical" in said[2] and "its value True is taken" in said[2]
    write_tensor(tmp_path / "a.dat", np.float32(0.5))
    with pytest.warns(nnefc.NnefWarning, match="its value 0.5 is taken"):
        again = nnefc.compile(path)
    np.testing.assert_allclose(again(X), X + 2)


def test_parameters_of_any_type(tmp_path: Path) -> None:
    path = model(tmp_path, "y = either(x, a = a)", **known())
    with pytest.warns(nnefc.NnefWarning, match="parameter 'a' is scalar"):
        compiled = nnefc.compile(path)
    np.testing.assert_array_equal(compiled(X), np.full((2, 3), 0.1, np.float32))


@pytest.mark.parametrize("command", ["check_model", "import_model"])
def test_documents_without_data_are_errors(tmp_path: Path, command: str) -> None:
    """Without a file, with a file of another shape or type, and with random weights."""
    for data in ({"n": np.int32(3)}, {"a": np.ones(1, np.float32)}, {"a": np.int32(3)}):
        folder = tmp_path / f"{command}{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        path = model(folder, "y = plus(x, a = a, n = 2, on = true)", **data)
        with pytest.raises(NnefError) as caught:
            if command == "import_model":
                nnefc.import_model(path, random_weights=1)
            else:
                nnefc.compile(path)
        error = caught.value.errors[0]
        assert (error.rule, error.line) == ("type/argument", 13)
        assert "plus: parameter 'a' is scalar, but the argument is tensor<scalar>" in error.message
        assert error.hint == "'a' must be known at compile time"


@pytest.mark.parametrize(
    ("statements", "rule"),
    [
        ("y = plus(x, a = n, n = 2, on = true)", "type/argument"),  # another type
        ("c = copy(a); y = plus(x, a = c, n = 2, on = true)", "type/argument"),
        ("y = plus(x, a = x, n = 2, on = true)", "type/argument"),
        ("[y] = [for a in [x] yield plus(x, a = a, n = 2, on = true)]", "type/argument"),
        (CALL + "; z = update(a, a * 2.0)", "argument/update"),
        ("z = update(a, a * 2.0); " + CALL, "type/argument"),
    ],
)
def test_other_tensors_are_errors(tmp_path: Path, statements: str, rule: str) -> None:
    assert {error.rule for error in errors(model(tmp_path, statements, **known()))} == {rule}


@needs_tract
def test_an_export_gives_the_results_of_pytorch() -> None:
    (folder,) = (file.parent for file in tract_cases("exports/kh_mlp_silu/meta.json"))
    with pytest.warns(nnefc.NnefWarning, match="'eps' is scalar") as caught:
        compiled: Any = nnefc.compile(folder / "model.nnef.tgz")
    assert len(caught) == 1
    arrays = np.load(folder / "io.npz")
    found = compiled(arrays["input_0"])
    np.testing.assert_allclose(found, arrays["output_0"], rtol=5e-4, atol=1e-5)
