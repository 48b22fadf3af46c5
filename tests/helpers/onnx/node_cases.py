"""The cases that the package `onnx` has for each operator, computed by its own formulas."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from nnefc.formats.atomic import replace_file

STORE = Path(__file__).parents[3] / ".pytest_cache"


@dataclass(frozen=True)
class NodeCase:
    """A model, and its results for some inputs; both in the order of the model."""

    name: str
    model: bytes
    data_sets: tuple[tuple[list[Any], list[Any]], ...]
    rtol: float
    atol: float

    @property
    def proto(self) -> onnx.ModelProto:
        proto = onnx.ModelProto()
        proto.ParseFromString(self.model)
        return proto


@cache
def node_cases() -> dict[str, NodeCase]:
    """All cases by name; generating them takes seconds, so they are stored."""
    path = STORE / f"onnx-cases-{onnx.__version__}.pickle"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        with replace_file(path) as file:
            pickle.dump(_generated(), file)
    with path.open("rb") as stored:
        return pickle.load(stored)


def _generated() -> dict[str, NodeCase]:
    from onnx.backend.test.case.node import collect_testcases

    np.random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)  # pyright: ignore[reportArgumentType]
    return {
        case.name: NodeCase(
            case.name,
            case.model.SerializeToString(),
            tuple((_arrays(x), _arrays(y)) for x, y in case.data_sets),
            case.rtol,
            case.atol,
        )
        for case in collected
        if case.model is not None and case.data_sets is not None
    }


def _arrays(items: Iterable[Any]) -> list[Any]:
    """Inputs or results, tensors as arrays."""
    return [numpy_helper.to_array(x) if isinstance(x, TensorProto) else x for x in items]


@cache
def cases_by_operator() -> dict[str, list[NodeCase]]:
    """The cases by the operator that they are about; functions are also there expanded."""
    cases = node_cases()
    grouped: dict[str, list[NodeCase]] = {}
    for case in cases.values():
        whole = re.sub(r"_expanded(_ver\d+)?$", "", case.name)
        model = cases.get(whole, case).proto
        grouped.setdefault(model.graph.node[0].op_type, []).append(case)
    return grouped


def operator_names() -> list[str]:
    """All operators of the package `onnx`."""
    return sorted({schema.name for schema in onnx.defs.get_all_schemas()})
