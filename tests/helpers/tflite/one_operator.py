"""Models of one operator, evaluated by LiteRT's reference kernels and by nnefc."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from nnefc.formats.tflite.enumerations import ITEM_TYPES
from nnefc.frontends.tflite.read_model import source_of_content
from nnefc.frontends.tflite.source import TfliteSource
from nnefc.ops.tools.reference import evaluate
from nnefc.support.errors import Diagnostics
from nnefc.support.limits import Limits
from tests.helpers.tflite.write import model, operator, operator_code, subgraph, tensor, write

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Constant:
    """An input that is stored in the file."""

    array: Array
    of_4_bits: bool = False
    sparsity: dict[str, Any] | None = None
    """Of a tensor whose stored items are `stored`."""
    stored: Array | None = None


@dataclass(frozen=True)
class Variable:
    """An input that is a variable tensor."""

    shape: tuple[int, ...]
    type: str = "FLOAT32"


@dataclass(frozen=True)
class Case:
    """A model of one operator."""

    name: str
    inputs: Sequence[Any]
    """Arrays, which are inputs of the model; constants, variables, or None if absent."""
    outputs: Sequence[tuple[tuple[int, ...], str]]
    """Shapes and item types."""
    options: str = ""
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    version: int = 1
    codes: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    """Quantization by position among inputs and outputs."""
    custom_options: bytes | None = None
    """The options of a custom operator, which `name` is then the name of."""
    intermediates: Sequence[tuple[tuple[int, ...], str, dict[str, Any]]] = ()
    """Shapes, item types and quantization of tensors inside the operator."""
    bodies: Sequence[dict[str, Any]] = ()
    """Further subgraphs, from number 1 on."""
    of_bodies: Sequence[str] = ()
    """The operators of bodies, from code 1 on."""

    def __str__(self) -> str:
        return self.name


def item_type(array: Array) -> str:
    name = array.dtype.name.upper()
    assert name in ITEM_TYPES
    return name


def content_of(case: Case) -> bytes:
    """The file of a model."""
    tensors: list[dict[str, Any]] = []
    buffers: list[bytes] = []
    places: list[int] = []
    for each in case.inputs:
        if each is None:
            places.append(-1)
            continue
        places.append(len(tensors))
        codes = case.codes.get(len(tensors))
        more: dict[str, Any] = {"quantization": codes} if codes else {}
        name = f"t{len(tensors)}"
        if isinstance(each, Variable):
            tensors.append(tensor(each.shape, each.type, name, is_variable=True, **more))
            continue
        array = each.array if isinstance(each, Constant) else each
        if isinstance(each, Constant):
            packed = each.of_4_bits
            items = array if each.stored is None else each.stored
            buffers.append(packed_nibbles(items) if packed else items.tobytes())
            if each.sparsity is not None:
                more["sparsity"] = each.sparsity
            more["buffer"] = len(buffers)
        is_packed = isinstance(each, Constant) and each.of_4_bits
        type_ = "INT4" if is_packed else item_type(array)
        tensors.append(tensor(array.shape, type_, name, **more))
    results: list[int] = []
    for shape, type_ in case.outputs:
        results.append(len(tensors))
        codes = case.codes.get(len(tensors))
        more: dict[str, Any] = {"quantization": codes} if codes else {}
        tensors.append(tensor(shape, type_, f"t{len(tensors)}", **more))
    free = [places[i] for i, each in enumerate(case.inputs) if isinstance(each, np.ndarray)]
    node = operator(0, places, results, case.options, **case.values)
    between: list[int] = []
    for shape, type_, codes in case.intermediates:
        between.append(len(tensors))
        tensors.append(tensor(shape, type_, f"t{len(tensors)}", quantization=codes))
    if between:
        node["intermediates"] = tuple(between)
    code = operator_code(case.name if case.custom_options is None else "CUSTOM", case.version)
    if case.custom_options is not None:
        node["custom_options"] = case.custom_options
        code["custom_code"] = case.name
    graph = subgraph(tensors, [node], free, results)
    codes = [code, *map(operator_code, case.of_bodies)]
    return write(model(codes, [graph, *case.bodies], buffers))


def packed_nibbles(array: Array) -> bytes:
    """Items of 4 bits, of which the first of each byte has the low bits."""
    items = [int(each) & 15 for each in array.reshape(-1)]
    items += [0] * (len(items) % 2)
    return bytes(low | high << 4 for low, high in zip(items[::2], items[1::2], strict=True))


def inputs_of(case: Case) -> list[Array]:
    return [each for each in case.inputs if isinstance(each, np.ndarray)]


def litert_results(
    content: bytes, calls: Sequence[Sequence[Array]], *, optimised: bool = False
) -> list[list[Array]]:
    """The results of calls that follow each other, by LiteRT's reference kernels.

    `optimised`: by its other kernels, where the reference kernels are wrong.
    """
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    kinds = litert.OpResolverType
    try:
        kind = kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES if optimised else kinds.BUILTIN_REF
        interpreter = litert.Interpreter(model_content=content, experimental_op_resolver_type=kind)
    except ValueError:  # some operators have no reference kernels
        interpreter = litert.Interpreter(
            model_content=content,
            experimental_op_resolver_type=kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
    interpreter.allocate_tensors()
    results: list[list[Array]] = []
    for inputs in calls:
        for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        details = interpreter.get_output_details()
        results.append([interpreter.get_tensor(each["index"]) for each in details])
    return results


def source_of(content: bytes) -> TfliteSource:
    return source_of_content(memoryview(content), "net.tflite", Limits(), Diagnostics())


def reference_results(content: bytes, inputs: Sequence[Array]) -> list[Array]:
    """The results of a first call, by the reference interpreter."""
    source = source_of(content)
    graph = source.graph({})
    named = {value.name: x for value, x in zip(graph.inputs, inputs, strict=True)}
    outputs = evaluate(graph, named).outputs
    types = [value.type.dtype.numpy for value in graph.outputs]
    results = [np.asarray(y).astype(t) for y, t in zip(outputs.values(), types, strict=True)]
    return results[: len(source.outputs)]
