"""Cases of the package onnx, written and read again, and run by onnxruntime."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx
import pytest

from nnefc.emit.convert.onnx.model import onnx_model
from nnefc.ir import Graph
from nnefc.support.errors import NnefError
from tests.helpers.onnx.backend_cases import BackendCase
from tests.helpers.onnx.case_graphs import first_of_each_operator, graph_of_case, single_nodes
from tests.helpers.onnx.evaluate import graph_for, reference_results
from tests.helpers.onnx.onnxruntime_oracle import onnxruntime_results

Array = np.ndarray[Any, Any]

EVERY: Final = (
    *("Resize", "NonMaxSuppression", "ScatterElements", "ScatterND", "Pad", "NonZero", "Unique"),
    *("Compress", "GridSample", "CenterCropPad", "Upsample", "Scatter"),
)
"""Operators of which all cases are converted; of the others the first one."""
UNLIKE: Final = {
    "test_compress_bfloat16": "arrays of bfloat16 are no inputs",
    "test_unique_bfloat16_sorted_without_axis": "TopK of bfloat16",
    "test_resize_downsample_scales_linear_align_corners": "divides by the rounded extent",
    "test_resize_downsample_scales_cubic_align_corners": "divides by the rounded extent",
}
"""Cases that onnxruntime refuses, or computes in another way, and why."""


def written(case: BackendCase) -> tuple[Graph, list[Array], onnx.ModelProto] | None:
    """(graph, inputs, model); None for what the front end does not have, or refuses to write."""
    try:
        graph, inputs = graph_of_case(case)
        return graph, inputs, onnx_model(graph).proto
    except NnefError as error:
        assert case.name not in SELECTED, error
        return None


def agree(found: list[Array], expected: list[Array], case: BackendCase) -> None:
    for got, want in zip(found, expected, strict=False):
        assert (got.dtype, got.shape) == (want.dtype, want.shape), case.name
        if want.dtype.kind in "fiub":
            np.testing.assert_allclose(got, want, 1e-3, 1e-5, err_msg=case.name)


SELECTED = {case.name: case for kind, case in single_nodes() if kind in EVERY}


@pytest.mark.parametrize("name", SELECTED)
def test_every_case(name: str) -> None:
    """The written file has the results of the package, read again and run by onnxruntime."""
    case = SELECTED[name]
    made = written(case)
    assert made is not None
    _, inputs, proto = made
    expected = case.data_sets[0][1]
    agree(reference_results(graph_for(proto, inputs), inputs), expected, case)
    if name not in UNLIKE:
        agree(onnxruntime_results(proto, inputs), expected, case)


def test_first_cases_of_all_operators() -> None:
    number = 0
    for case in first_of_each_operator():
        made = written(case)
        if made is None or case.name in SELECTED:
            continue
        _, inputs, proto = made
        found = reference_results(graph_for(proto, inputs), inputs)
        agree(found, case.data_sets[0][1], case)
        number += 1
    assert number > 100
