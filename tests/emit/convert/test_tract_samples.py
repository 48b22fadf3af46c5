"""Samples of all operations, and cases of the package onnx, in tract's dialect and read again."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnefc.emit.convert.nnef_model import NnefModel
from nnefc.emit.convert.tract_model import document_of
from nnefc.frontends.read_model import read_model
from nnefc.ir import Graph
from nnefc.ops.tools.reference import evaluate
from nnefc.ops.tools.sample import instance
from nnefc.ops.tools.table import declared
from nnefc.options.import_config import ImportConfig
from nnefc.support.errors import NnefError
from tests.helpers.onnx.case_graphs import first_of_each_operator, graph_of_case
from tests.helpers.onnx.evaluate import reference_results

SAMPLES = 6
REFUSED = {
    *("external", "constant", "variable", "update", "iota", "tri", "bitcast"),
    *("argmax_pool", "sample", "desample", "max_pool_with_index", "dequantize_blocks", "append"),
    *("doubling_high_product", "rounding_shift", "stepwise_conv", "region_max"),
    "ordered_sum",
    *("avg_roi_pool", "max_roi_pool", "roi_resample", "avg_roi_align", "max_roi_align"),
}
"""Operations that the dialect lacks, and those whose samples have no inputs."""


def again(result: NnefModel, graph: Graph, path: Path) -> Graph:
    """The graph of the written document, for the shapes of `graph`."""
    result.write(path)
    source: Any = read_model(path, ImportConfig(), sources=True)
    pairs = zip(graph.inputs, result.converted.inputs, strict=True)
    return source.graph({end.written: value.type.dims for value, end in pairs})


@pytest.mark.parametrize("name", [name for name in declared() if name not in REFUSED])
def test_samples(name: str, tmp_path: Path) -> None:
    spec = declared()[name]
    number = 0
    for i, each in enumerate(islice(spec.samples, SAMPLES)):
        sample = instance(spec, each)
        try:
            result = document_of(sample.graph, {}, "tract")
        except NnefError as error:
            assert {e.rule for e in error.errors} == {"flatten/operation"}
            continue
        number += 1
        graph = again(result, sample.graph, tmp_path / str(i))
        given = {end.written: sample.inputs[end.name] for end in result.converted.inputs}
        found = evaluate(graph, given).outputs
        expected = evaluate(sample.graph, sample.inputs).outputs
        assert list(found) == [end.written for end in result.converted.results]
        for got, want in zip(found.values(), expected.values(), strict=True):
            assert np.shape(got) == np.shape(want), each
            np.testing.assert_allclose(got, want, 1e-6, 1e-7, err_msg=str(each))
    assert number, "every sample is refused"


def test_cases_of_onnx(tmp_path: Path) -> None:
    number = 0
    for case in first_of_each_operator():
        try:
            graph, inputs = graph_of_case(case)
            result = document_of(graph, {}, "tract")
        except NnefError:  # other tests tell which operators the front end has
            continue
        read = again(result, graph, tmp_path / case.name)
        found = reference_results(read, inputs)
        for got, want in zip(found, case.data_sets[0][1], strict=False):
            assert got.dtype == want.dtype, case.name
            assert got.shape == want.shape, case.name
            if want.dtype.kind in "fiub":
                np.testing.assert_allclose(got, want, 1e-3, 1e-5, err_msg=case.name)
        number += 1
    assert number > 100
