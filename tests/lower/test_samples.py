"""Every sample of every operation: compiled code against the reference in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from nnefc.frontends.nnef.import_model import import_text
from nnefc.ir import DType
from nnefc.lower import load_lowerings, lower
from nnefc.lower.context import has_lowering
from nnefc.ops.core.spec import OpSpec, Sample
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.sample import instance
from nnefc.ops.tools.table import declared, operations
from nnefc.passes.canonicalise.expand_compounds import ExpandCompounds
from nnefc.runtime.run.compiled_model import CompiledModel
from nnefc.support.errors import NnefError

TOLERANCE = {DType.FLOAT32: 2e-5, DType.FLOAT64: 1e-12}


SPECS = [spec for spec in operations().values() if spec.reference is not None and spec.samples]


def _check(spec: OpSpec, sample: Sample, scalar: DType, integer: DType) -> str:
    """A description of the difference from the reference, or an empty string."""
    one = instance(spec, sample, scalar=scalar, integer=integer)
    expected = evaluate(one.graph, one.inputs)
    ExpandCompounds().run(one.graph)
    model = CompiledModel.of(lower(one.graph), one.graph, threads=1)
    outputs = model.run(one.inputs)
    for name, want in expected.outputs.items():
        got = outputs[name]
        if got.shape != want.shape:
            return f"{name}: shape {got.shape}, expected {want.shape}"
        if got.dtype.kind == "f":
            tolerance = TOLERANCE[scalar]
            near = np.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
        else:
            near = np.array_equal(got, want)
        if not near:
            return f"{name}: {got.ravel()[:8]}, expected {want.ravel()[:8]}"
    return ""


@pytest.mark.parametrize(
    ("scalar", "integer"),
    [(DType.FLOAT32, DType.INT32), (DType.FLOAT64, DType.INT64)],
    ids=["narrow", "wide"],
)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_compiled_agrees_with_reference(spec: OpSpec, scalar: DType, integer: DType) -> None:
    mismatches: list[str] = []
    for number, sample in enumerate(spec.samples):
        mismatch = _check(spec, sample, scalar, integer)
        if mismatch:
            mismatches.append(f"sample {number} {sample}: {mismatch}")
    assert not mismatches, "\n".join(mismatches)


def test_every_operation_can_be_lowered() -> None:
    load_lowerings()
    not_computed = {"external", "variable"}
    missing = [
        name
        for name, spec in declared().items()
        if spec.expand is None and name not in not_computed and not has_lowering(name)
    ]
    assert not missing


@pytest.mark.parametrize(
    "statement",
    ["y = copy('a')", "y = cast<string>(x)", "y = constant<string>(shape = [1], value = ['a'])"],
)
def test_strings_cannot_be_lowered(statement: str) -> None:
    graph = import_text(
        f"version 1.0; graph g( x ) -> ( y ) {{ x = external(shape = [1]); {statement}; }}"
    )
    with pytest.raises(NnefError) as refused:
        lower(graph)
    assert [e.rule for e in refused.value.errors] == ["type/string"]
