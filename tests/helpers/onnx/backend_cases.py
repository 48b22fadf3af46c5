"""The cases of `onnx.backend.test`: models with inputs and results, which the package computed.

Those of kind "node" are about one operator and are computed by its own formulas, those of the other
kinds are files: "simple", "pytorch-converted", "pytorch-operator", and "light", networks whose
weights are constants.
"""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    OptionalProto,
    SequenceProto,
    TensorProto,
    TypeProto,
    numpy_helper,
)

from nnefc.formats.atomic import replace_file

STORE = Path(__file__).parents[3] / ".pytest_cache"
DATA = Path(onnx.backend.test.__file__).parent / "data"
FOLDERS = ("simple", "pytorch-converted", "pytorch-operator")
LIGHT = "light"
NODE = "node"
RTOL, ATOL = 1e-3, 1e-7
"""The tolerances of `onnx.backend.test` for cases that name none."""


@dataclass(frozen=True)
class BackendCase:
    """A model, and its results for some inputs; both in the order of the model."""

    name: str
    kind: str
    model: bytes
    data_sets: tuple[tuple[list[Any], list[Any]], ...]
    rtol: float = RTOL
    atol: float = ATOL

    @property
    def proto(self) -> ModelProto:
        proto = ModelProto()
        proto.ParseFromString(self.model)
        return proto


@cache
def backend_cases() -> dict[str, BackendCase]:
    """All cases by name; generating them takes seconds, so they are stored."""
    path = STORE / f"onnx-backend-cases-{onnx.__version__}.pickle"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        cases = [*_generated(), *_stored(), *_light()]
        with replace_file(path) as file:
            pickle.dump({case.name: case for case in cases}, file)
    with path.open("rb") as stored:
        return pickle.load(stored)


def _generated() -> Iterator[BackendCase]:
    from onnx.backend.test.case.node import collect_testcases

    np.random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)  # pyright: ignore[reportArgumentType]
    for case in collected:
        assert case.model is not None
        assert case.data_sets is not None
        yield BackendCase(
            case.name,
            NODE,
            case.model.SerializeToString(),
            tuple((_arrays(x), _arrays(y)) for x, y in case.data_sets),
            case.rtol,
            case.atol,
        )


def _stored() -> Iterator[BackendCase]:
    for kind in FOLDERS:
        for folder in sorted((DATA / kind).iterdir()):
            model = ModelProto.FromString((folder / "model.onnx").read_bytes())
            graph, data_sets = model.graph, sorted(folder.glob("test_data_set_*"))
            data = tuple(
                (_files(each, "input", graph.input), _files(each, "output", graph.output))
                for each in data_sets
            )
            yield BackendCase(folder.name, kind, model.SerializeToString(), data)


def _light() -> Iterator[BackendCase]:
    for file in sorted((DATA / LIGHT).glob("*.onnx")):
        model = ModelProto.FromString(file.read_bytes())
        expected = _array_in(file.with_name(f"{file.stem}_output_0.pb"), model.graph.output[0].type)
        stored = {each.name for each in model.graph.initializer}
        (given,) = (each for each in model.graph.input if each.name not in stored)
        dims = [dim.dim_value or 1 for dim in given.type.tensor_type.shape.dim]
        count = int(np.prod(dims))
        x = (np.arange(count).reshape(dims) / count).astype(np.float32)
        yield BackendCase(file.stem, LIGHT, model.SerializeToString(), (([x], [expected]),))


def _files(folder: Path, prefix: str, declared: Iterable[onnx.ValueInfoProto]) -> list[Any]:
    """The inputs or results in a folder."""
    files = ((folder / f"{prefix}_{i}.pb", each.type) for i, each in enumerate(declared))
    return [_array_in(file, type_) for file, type_ in files if file.exists()]


def _array_in(file: Path, type_: TypeProto) -> Any:
    kind = type_.WhichOneof("value")
    protos: dict[str | None, tuple[type, Any]] = {
        "tensor_type": (TensorProto, numpy_helper.to_array),
        "sequence_type": (SequenceProto, numpy_helper.to_list),
        "optional_type": (OptionalProto, numpy_helper.to_optional),
    }
    make, convert = protos[kind]
    proto = make()
    proto.ParseFromString(file.read_bytes())
    return convert(proto)


def _arrays(items: Iterable[Any]) -> list[Any]:
    """Inputs or results, tensors as arrays."""
    return [numpy_helper.to_array(x) if isinstance(x, TensorProto) else x for x in items]


@cache
def cases_by_group() -> dict[str, list[BackendCase]]:
    """The cases by the operator that they are about, or by their kind.

    Functions are also there expanded.
    """
    cases = backend_cases()
    grouped: dict[str, list[BackendCase]] = {}
    for case in cases.values():
        whole = re.sub(r"_expanded(_ver\d+)?$", "", case.name)
        model = cases.get(whole, case).proto
        group = model.graph.node[0].op_type if case.kind == NODE else case.kind
        grouped.setdefault(group, []).append(case)
    return grouped


def group_names() -> list[str]:
    """All groups that `cases_by_group` may have; found without generating the cases."""
    operators = {schema.name for schema in onnx.defs.get_all_schemas()}
    return [*sorted(operators), *FOLDERS, LIGHT]


# -- classes of cases

CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})
QUANTIZED = re.compile("QLinear.*|(Quant|Dequant|DynamicQuant)izeLinear|(Conv|MatMul)Integer")
OTHER_DOMAINS = frozenset({"ai.onnx.ml", "ai.onnx.preview.training"})
PLAIN = re.compile("FLOAT|DOUBLE|BOOL|U?INT(8|16|32|64)|UNDEFINED")


def class_of(case: BackendCase) -> str:
    """What a case is about: "static" for tensors of numbers and booleans without control flow.

    Otherwise "other" (strings, classical machine learning, training, images), "sequences",
    "control flow", "quantized", "float16", "bfloat16" or "narrow" (8 bits and less).
    """
    model = case.proto
    nodes = [*_nodes_in(model.graph), *(n for f in model.functions for n in f.node)]
    operators = {node.op_type for node in nodes}
    forms: set[str] = set()
    types: set[int] = set()
    for each in (*model.graph.input, *model.graph.output):
        _add_type(each.type, types, forms)
    for node in nodes:
        types |= {a.i for a in node.attribute if a.name == "to" and node.op_type == "Cast"}
        types |= {a.t.data_type for a in node.attribute if a.HasField("t")}
    names = {TensorProto.DataType.Name(number) for number in types}
    if "STRING" in names or "ImageDecoder" in operators:
        return "other"
    if not OTHER_DOMAINS.isdisjoint(node.domain for node in nodes):
        return "other"
    if forms - {"tensor_type"} or any("Sequence" in name for name in operators):
        return "sequences"
    if operators & CONTROL_FLOW:
        return "control flow"
    halves = {"FLOAT16", "BFLOAT16"}
    if any(name not in halves and not PLAIN.fullmatch(name) for name in names):
        return "narrow"
    for half in sorted(halves & names):
        return half.lower()
    return "quantized" if any(map(QUANTIZED.fullmatch, operators)) else "static"


def _nodes_in(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes_in(inner)


def _add_type(type_: TypeProto, types: set[int], forms: set[str]) -> None:
    form = type_.WhichOneof("value") or ""
    forms.add(form)
    if form == "tensor_type":
        types.add(type_.tensor_type.elem_type)
    elif form in ("sequence_type", "optional_type"):
        _add_type(getattr(type_, form).elem_type, types, forms)
