"""Item types of inputs that an operator does not take are errors, as in onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnefc.frontends.onnx.checks.contributed_types import CONTRIBUTED
from nnefc.frontends.onnx.registry import MICROSOFT, operators
from nnefc.support.errors import NnefError
from tests.helpers.onnx.evaluate import graph_for
from tests.helpers.onnx.onnxruntime_oracle import Array, node_model, onnxruntime_results


def of(dtype: str, *shape: int) -> Array:
    return np.ones(shape, dtype)


F, I64, B = "float32", "int64", "bool"
WRONG: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("Gather", [of(F, 3, 2), of(F, 2)], {}, "indices has items of float32; version 21 takes int32"),
    ("Gather", [of(F, 3, 2), of("int8", 2)], {}, "indices has items of int8"),
    ("GatherND", [of(F, 3, 2), of("int32", 1, 2)], {}, "indices has items of int32"),
    ("GatherElements", [of(F, 3, 2), of(F, 3, 2)], {}, "indices has items of float32"),
    ("ScatterElements", [of(F, 3), of(F, 3), of(F, 3)], {}, "indices has items of float32"),
    ("ScatterND", [of(F, 3), of("int32", 1, 1), of(F, 1)], {}, "indices has items of int32"),
    ("ScatterND", [of(F, 3), of(I64, 1, 1), of("float64", 1)], {}, "updates float64"),
    ("OneHot", [of(B, 3), of(I64, 1), of(F, 2)], {"known": [1]}, "indices has items of bool"),
    ("TopK", [of(F, 3), of("int32", 1)], {"known": [1], "outputs": [True, True]}, "K has items of"),
    ("Celu", [of("int32", 3)], {}, "X has items of int32; version 21 takes float32"),
    ("Softmax", [of("int32", 3)], {}, "input has items of int32"),
    ("Relu", [of("int32", 3)], {"opset": 13}, "version 13 takes bfloat16, float16, float32"),
    ("Add", [of(F, 3), of(I64, 3)], {}, "different item types: A float32, B int64"),
    ("Sum", [of(F, 3), of(F, 3), of("float64", 3)], {}, "different item types"),
    ("Where", [of(I64, 3), of(F, 3), of(F, 3)], {}, "condition has items of int64"),
    ("And", [of(F, 3), of(F, 3)], {}, "A has items of float32"),
    ("Reshape", [of(F, 3), of("int32", 1)], {"known": [1]}, "shape has items of int32"),
    ("MatMul", [of(B, 2, 2), of(B, 2, 2)], {}, "A has items of bool"),
    ("Conv", [of(I64, 1, 1, 4, 4), of(I64, 1, 1, 3, 3)], {}, "X has items of int64"),
    ("SkipLayerNormalization", [of("int32", 1, 2, 4), of("int32", 1, 2, 4), of("int32", 4)],
     {"domain": MICROSOFT}, "input has items of int32; version 1 takes bfloat16"),
    ("QuickGelu", [of("int32", 3)], {"domain": MICROSOFT}, "X has items of int32"),
    ("FusedMatMul", [of(F, 2, 2), of("float64", 2, 2)], {"domain": MICROSOFT}, "A float32, B floa"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(WRONG)), ids=lambda i: f"{WRONG[i][0]}-{i}")
def test_wrong_types(case: int) -> None:
    name, inputs, settings, message = WRONG[case]
    made = node_model(name, inputs, **settings)
    given = [x for i, x in enumerate(inputs) if i not in settings.get("known", [])]
    with pytest.raises(Exception, match=r"(?i)type"):
        onnxruntime_results(made, given)
    with pytest.raises(NnefError, match=message) as caught:
        graph_for(made, given)
    assert [each.rule for each in caught.value.errors] == ["onnx/type"]


def test_types_of_later_versions() -> None:
    graph_for(node_model("Relu", [of("int32", 3)], opset=14), [of("int32", 3)])


def test_types_of_all_operators_of_onnxruntime_are_known() -> None:
    """But for those that onnxruntime only creates."""
    names = {name for domain, name in operators() if domain == MICROSOFT}
    assert names - CONTRIBUTED.keys() == {"SimplifiedLayerNormalization"}


def test_the_table_is_that_of_onnxruntime() -> None:
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    listed: Any = state.get_all_operator_schema()
    schemas = {each.name: each for each in listed if each.domain == MICROSOFT}
    plain = {"float": "float32", "double": "float64"}
    for name, known in CONTRIBUTED.items():
        schema = schemas[name]
        stated = {
            each.type_param_str: {plain.get(t[7:-1], t[7:-1]) for t in each.allowed_type_strs}
            for each in schema.type_constraints
        }
        pairs = [text.split(":") for text in known.inputs.split()]
        assert [each for each, _ in pairs] == [each.name for each in schema.inputs], name
        for (_, type_), each in zip(pairs, schema.inputs, strict=True):
            text = each.typeStr
            wanted = stated.get(text) or {plain.get(text[7:-1], text[7:-1])}
            assert set(known.types.get(type_, type_).split()) == wanted, name
