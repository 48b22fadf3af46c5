"""The front end against the cases of the package `onnx`, by the reference interpreter.

Inputs whose values must be known, such as shapes, become initializers.  Cases with operators or
types that nnefc refuses by name are skipped; the reasons are listed.
"""

from __future__ import annotations

import pytest

from nnefc.driver.compile import compile_graph
from nnefc.options.compile_config import CompileConfig
from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import assert_equal, graph_and_inputs, reference_results
from tests.helpers.onnx.node_cases import NodeCase, cases_by_operator, operator_names
from tests.helpers.onnx.tensors_only import with_tensors_only

RANDOM = "test_bernoulli"
"""Cases with random results, which have expected types and shapes only."""
IN_FLOAT32 = "test_dynamicquantizelinear"
"""Cases that depend on the rounding of a quotient to float32: compiled, since the interpreter
computes in float64."""
REFUSALS = ("onnx/operator", "onnx/unsupported")


def check(case: NodeCase) -> None:
    """Compare all data sets of a case; raises NnefError if the front end refuses the model."""
    for inputs, expected in case.data_sets:
        model, inputs, expected = with_tensors_only(case.proto, inputs, expected)
        graph, inputs = graph_and_inputs(model, inputs)
        if case.name.startswith(IN_FLOAT32):
            results = list(compile_graph(graph, CompileConfig(1))(*inputs))
        else:
            results = reference_results(graph, inputs)
        assert len(results) == len(expected)
        for actual, want in zip(results, expected, strict=True):
            if case.name.startswith(RANDOM):
                assert (actual.dtype, actual.shape) == (want.dtype, want.shape)
            else:
                assert_equal(actual, want, case.rtol, case.atol)


def _is_refusal(error: NnefError) -> bool:
    return all(each.rule in REFUSALS for each in error.errors)


@pytest.mark.parametrize("name", operator_names())
def test_operator(name: str) -> None:
    cases = cases_by_operator().get(name, [])
    if not cases:
        pytest.skip("the package has no cases")
    refused: list[str] = []
    failed: list[str] = []
    for case in cases:
        try:
            check(case)
        except NnefError as error:
            if not _is_refusal(error):
                failed.append(f"{case.name}: {error}")
            refused.append(f"{case.name}: {error.errors[0].message}")
        except (AssertionError, TypeError, ValueError, KeyError, AttributeError) as error:
            text = " ".join(str(error).split())[:300]
            failed.append(f"{case.name}: {type(error).__name__}: {text}")
    assert not failed, f"{len(failed)} of {len(cases)}\n" + "\n".join(failed)
    if refused:
        pytest.skip(f"{len(refused)} of {len(cases)} refused: {refused[0]}")
