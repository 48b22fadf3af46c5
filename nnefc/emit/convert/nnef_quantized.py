"""Convert a graph with codes to an NNEF 1.0.2 document with a quantization file, `graph.quant`.

    %c = quantize(%x, scale, zero_point)
    %y = conv(dequantize(%c, scale, zero_point), dequantize(%codes, scales, 0), %bias)

becomes

    filter = mul(codes, scales);             "x": linear_quantize(min = .., max = .., bits = 8);
    y = conv(x, filter, bias);               "codes": linear_quantize(min = -128.0, ...);

The tensor file of `codes` has their integers of 8 or 16 bits.  A value that is also read as reals
is copied.  Inputs and results that are codes become reals with an entry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from nnefc.emit.convert.converted import Codes
from nnefc.emit.convert.extents import Extents
from nnefc.emit.convert.nnef_model import NnefModel, nnef_model
from nnefc.emit.convert.resize_products import resize_by_products
from nnefc.emit.convert.standard_operations import without_dead_code
from nnefc.emit.convert.tract_model import To, document_for
from nnefc.frontends.nnef.refusals import Refusals
from nnefc.ir import DType, Graph, Op, TensorType, Value
from nnefc.ir.graph import Variable
from nnefc.ops.core.known_items import known_items
from nnefc.ops.extended.quantized import code_limits
from nnefc.ops.tools.build import build
from nnefc.support.errors import NnefError
from nnefc.support.names import identifier, plain_label, unused_name
from nnefc.syntax.printer import print_literal

Array = np.ndarray[Any, Any]

_CODES: Final = (DType.INT8, DType.UINT8, DType.INT16, DType.UINT16)
_RULE: Final = "flatten/operation"


def document_of_codes(
    graph: Graph, extents: Extents, to: To = "auto", *, of_tflite: bool = False
) -> NnefModel:
    """The document of a graph with codes, whose extents may be symbolic: NNEF 1.0.2 with a
    quantization file if that can say it, otherwise the dialect of tract.

    `to`: "nnef" and "tract" choose one of both.  `of_tflite`: see `quantized_document`.  Raises
    NnefError `flatten/...`.
    """
    if to == "tract" or (to == "auto" and extents.symbols):
        return document_for(graph, extents, "tract")
    try:
        return quantized_document(graph, of_tflite=of_tflite)
    except NnefError as error:
        families = {each.rule.partition("/")[0] for each in error.errors}
        if to == "nnef" or families != {"flatten"}:
            raise
        because = [each.message for each in error.errors]
    model = document_for(graph, extents, "tract")
    return replace(model, converted=replace(model.converted, because=because))


def quantized_document(graph: Graph, *, of_tflite: bool = False) -> NnefModel:
    """The document of a graph; raises NnefError `flatten/...` for what NNEF 1.0.2 cannot say.

    `of_tflite`: for records, the quantization file has scales and zero points instead of ranges,
    and resizing is written as products.
    """
    copy = without_dead_code(graph)
    if of_tflite:
        resize_by_products(copy)
    writer = _Quantization(copy, _point if of_tflite else _range)
    for i, value in enumerate(list(copy.inputs)):
        writer.input(i, value)
    for op in list(copy.ops):
        if op.name == "dequantize" and known_items(op.inputs[0]) is not None:
            writer.weight(op)
    for op in list(copy.ops):
        if op.name == "quantize":
            writer.activation(op)
    for op in copy.ops:
        if op.name in ("quantize", "dequantize"):
            writer.refused.add(_RULE, f"'{op.name}' of such codes cannot be written in NNEF", op)
    writer.refused.require_none()
    model = nnef_model(copy)
    ends = model.converted
    written = {end.name: end.written for end in (*ends.inputs, *ends.results)}
    lines = [f'"{written.get(key, key)}": {entry};' for key, entry in writer.entries.items()]
    tensors = {**model.tensors, **writer.codes}
    converted = replace(
        model.converted,
        dialect=f"{ends.dialect} with graph.quant",
        inputs=[end._replace(codes=writer.ends.get(end.name)) for end in ends.inputs],
        results=[end._replace(codes=writer.ends.get(end.name)) for end in ends.results],
        weight_bytes=sum(array.nbytes for array in tensors.values()),
    )
    return replace(
        model,
        converted=converted,
        tensors=tensors,
        quantization="\n".join([*lines, ""]),
        codes=writer.names,
    )


class _Quantization:
    """Replaces conversions between reals and codes in a graph by entries of a file."""

    def __init__(self, graph: Graph, algorithm: Callable[[DType, float, int], str]) -> None:
        self._graph = graph
        self._algorithm = algorithm
        self.entries: dict[str, str] = {}
        """Algorithms by the names of values."""
        self._rounded: set[Value] = set()
        """The values that have an entry."""
        self.codes: dict[str, Array] = {}
        """The codes of variables by label."""
        self.names: dict[str, str] = {}
        """The names of tensors in the document, by those of their codes in the graph."""
        self.ends: dict[str, Codes] = {}
        """How reals stand for the codes of inputs and results, by their names."""
        self.refused = Refusals()
        values = [*graph.inputs, *(value for op in graph.ops for value in op.outputs)]
        names = {*graph.output_names, *(value.name for value in values)}
        self._taken = {identifier(name) for name in names}

    def input(self, index: int, value: Value) -> None:
        """Make an input reals, if all that reads its codes dequantizes them equally."""
        users, dtype = list(value.users), value.type.dtype
        if dtype not in _CODES or not users or self._graph.is_output(value):
            return
        parameters = {_parameters(op) if op.name == "dequantize" else None for op in users}
        known = parameters.pop()
        if known is None or parameters:
            return
        reals = Value(TensorType(DType.FLOAT32, value.type.dims), value.name, None, index)
        self._graph.inputs[index] = reals
        self._rounded.add(reals)
        self._note(value.name, value.name, dtype, known)
        for op in users:
            self._replace(op, reals)

    def activation(self, op: Op) -> None:
        """Quantize a value that a run computes, if one scale is known."""
        x, codes, graph = op.inputs[0], op.output, self._graph
        pairs = [user for user in codes.users if user.name == "dequantize"]
        parameters = _parameters(op)
        same = all(_parameters(pair) == parameters for pair in pairs)
        if parameters is None or not same or len(pairs) != len(codes.users):
            return
        names = [n for n, v in zip(graph.output_names, graph.outputs, strict=True) if v is codes]
        is_alone = list(x.users) == [op] and not graph.is_output(x) and x not in self._rounded
        is_alone = is_alone and not (names and x.op is None)  # an input stays as it is given
        target = x if is_alone else build(graph, "copy", [x], before=op).output
        if names:
            target.name = names[0]
            for name in names:
                self._note(name, names[0], codes.type.dtype, parameters)
        elif target.op is not None:
            name = x.name or codes.name or "activation"
            target.name = self._fresh(name, is_new=name != x.name or not is_alone)
        self._rounded.add(target)
        self.entries[target.name] = self._algorithm(codes.type.dtype, *parameters)
        self.names[codes.name] = target.name
        for pair in pairs:
            self._replace(pair, target)
        if names:
            graph.replace_value(codes, target)
        graph.erase(op)

    def _note(self, end: str, name: str, dtype: DType, parameters: tuple[float, int]) -> None:
        """Note that an end has reals for codes, which the entry of the value `name` says."""
        self.entries[name] = self._algorithm(dtype, *parameters)
        self.ends[end] = Codes(*parameters)

    def weight(self, op: Op) -> None:
        """Store codes as integers, and multiply them with scales that differ."""
        codes, scale, zero_point = map(known_items, op.inputs)
        if scale is None or zero_point is None:
            return
        assert codes is not None
        dtype, type_ = op.inputs[0].type.dtype, op.output.type
        zeros = np.unique(zero_point)
        if dtype not in _CODES or zeros.size != 1:
            reals = (codes.astype(np.float64) - zero_point) * scale
            items = np.broadcast_to(reals, type_.dims).astype(type_.dtype.numpy)
            self._replace(op, self._variable(op, items))
            return
        items = np.broadcast_to(codes, type_.dims).astype(dtype.numpy)
        scales = np.unique(scale)
        value = self._variable(op, items, type_)
        common = float(scales[0]) if scales.size == 1 else 1.0
        self._rounded.add(value)
        self.entries[value.name] = self._algorithm(dtype, common, int(zeros[0]))
        if scales.size > 1:
            if not op.inputs[1].name:
                op.inputs[1].name = self._fresh(f"{value.name}_scales", is_new=True)
            value = build(self._graph, "mul", [value, op.inputs[1]], before=op).output
            value.name = op.output.name
        self._replace(op, value)

    def _variable(self, op: Op, items: Array, type_: TensorType | None = None) -> Value:
        """A new variable in front of an operation; codes have the type of their reals."""
        source = op.inputs[0]
        known = source.op.attributes.get("label") if source.op is not None else None
        name = str(known or source.name or op.output.name or "codes")
        variables = self._graph.variables
        label = name if known else unused_name(plain_label(name), variables, ignore_case=True)
        if type_ is None:
            type_, data = TensorType(DType(items.dtype.name), items.shape), items
        else:
            self.codes[label], data = items, items.astype(type_.dtype.numpy)
        if list(source.users) == [op]:
            self._taken.discard(identifier(source.name))
        self._graph.variables[label.lower()] = Variable(label, type_, data)
        attributes = {"shape": type_.dims, "label": label}
        names = [self._fresh(label, is_new=True)]
        return self._graph.insert(Op("variable", (), attributes, [type_], names), op).output

    def _replace(self, op: Op, value: Value) -> None:
        """Replace the result of an operation, which may be one of the graph under its name."""
        if self._graph.is_output(op.output):
            value = build(self._graph, "copy", [value], before=op).output
        self._graph.replace_value(op.output, value)
        self._graph.erase(op)

    def _fresh(self, name: str, *, is_new: bool) -> str:
        """An identifier that no other value has."""
        plain = identifier(name)
        if not is_new and name == plain:
            return name
        unused = unused_name(plain, self._taken)
        self._taken.add(unused)
        return unused


def _parameters(op: Op) -> tuple[float, int] | None:
    """The scale and the zero point of all codes; None if they differ or are computed."""
    codes = op.output if op.name == "quantize" else op.inputs[0]
    scale, zero_point = (known_items(value) for value in op.inputs[1:])
    if codes.type.dtype not in _CODES or scale is None or zero_point is None:
        return None
    numbers = np.unique(scale), np.unique(zero_point)
    if any(each.size != 1 for each in numbers):
        return None
    return float(numbers[0][0]), int(numbers[1][0])


def _range(dtype: DType, scale: float, zero_point: int) -> str:
    """The range from the first to the last code."""
    low, high = ((code - zero_point) * scale for code in code_limits(dtype))
    numbers = (print_literal(float(number)) for number in (low, high))
    return "linear_quantize(min = {}, max = {}, bits = {})".format(*numbers, 8 * dtype.itemsize)


def _point(dtype: DType, scale: float, zero_point: int) -> str:
    """The scale and the zero point."""
    is_signed = str(dtype.is_signed).lower()
    numbers = f"zero_point = {zero_point}, scale = {print_literal(scale)}"
    return (
        f"zero_point_linear_quantize({numbers}, bits = {8 * dtype.itemsize}, signed = {is_signed}, "
        "symmetric = false)"
    )
