"""Quantize the weights of a graph alone, in blocks of 32 codes with a scale: no samples needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from nnefc.driver.quantize.block_codes import STORED, WeightFormat, block_codes, chunks_of
from nnefc.driver.quantize.keep import without_named
from nnefc.driver.quantize.layers import is_known, items_of, layer_names
from nnefc.driver.quantize.noise import Noise
from nnefc.driver.quantize.variables import add_variable, drop_unused, label_of, require_finite
from nnefc.ir import DType, Graph, Op, Shape, Value
from nnefc.ops.extended.block_quantized import dequantize_blocks
from nnefc.ops.tools.build import build
from nnefc.passes.op_queries import exchanges_rows, is_view, replace
from nnefc.support.block_formats import BLOCK_ITEMS
from nnefc.support.errors import NnefError
from nnefc.support.names import unused_name
from nnefc.support.progress import Progress

Array = np.ndarray[Any, Any]

_KEEPS_ITEMS: Final = ("cast", "transpose")
"""Operations behind which a weight has as many items, perhaps in a wider type."""


@dataclass(slots=True)
class BlockWeight:
    """A known matrix that an operation reads: the weights of a product, or a table of rows."""

    name: str
    """The name of the layer, see `layer_names`."""
    operation: str
    shape: Shape
    """[rows, depth]: the items of a row are in blocks.  The whole shape of other tensors."""
    bytes_before: int
    """Bytes in the type in which the model has it."""
    reason: str = ""
    """Why it stays as it is; empty if it is in blocks."""
    bytes_after: int = 0
    noise: Noise | None = None
    """That of its items; None if it stays."""


@dataclass(frozen=True, slots=True)
class WeightsInBlocks:
    """A graph whose weights are in blocks, and its matrices, also those that stay."""

    graph: Graph
    reals: Graph
    format: WeightFormat
    weights: Sequence[BlockWeight]


def weights_in_blocks(
    graph: Graph,
    format: WeightFormat,
    keep: Sequence[str] = (),
    progress: Progress | None = None,
) -> WeightsInBlocks:
    """Quantize the known matrices of products, and the tables that gathers read rows of.

        %y = matmul(%x, %w)

    becomes

        %w_q4_0: uint8 = variable()
        %w_blocks = dequantize_blocks(%w_q4_0) {format = "q4_0", shape = [rows, depth]}
        %y = matmul(%x, %w_blocks) {transposeB = true}

    Products and gathers of float16 are computed in float32, between casts.

    Args:
        graph: A graph with data in its variables, which is not modified.
        format: How weights are rounded.
        keep: Names of results whose matrices stay as they are.
        progress: Called as `progress(done, total, label)` before each matrix.

    Raises NnefError `quantization/model` if no matrix can be in blocks, `quantization/keep` for
    names of none, `quantization/finite` for NaN and infinities.
    """
    copy = graph.clone()
    found = list(_matrices(copy))
    for each, name in zip(found, layer_names([each.op for each in found]), strict=True):
        each.weight.name = name
    choose([each.weight for each in found], keep)
    blocks = _Blocks(copy, format)
    for i, each in enumerate(found):
        if progress is not None:
            progress(i, len(found), each.weight.name)
        if not each.weight.reason:
            blocks.apply(each)
    if progress is not None:
        progress(len(found), len(found), "weights")
    drop_unused(copy)
    return WeightsInBlocks(copy, graph, format, [each.weight for each in found])


def choose(weights: Sequence[BlockWeight], keep: Sequence[str]) -> None:
    """Give those that are kept this reason.

    Raises NnefError `quantization/model` if none can be in blocks, `quantization/keep` for names of
    none.
    """
    able = [each for each in weights if not each.reason]
    if not able:
        reasons = dict.fromkeys(f"'{each.name}': {each.reason}" for each in weights)
        message = f"no weights of products can be in blocks of {BLOCK_ITEMS}"
        raise NnefError.of("quantization/model", message, hint="; ".join([*reasons][:3]))
    left = {id(each) for each in without_named(able, keep)}
    for each in able:
        if id(each) not in left:
            each.reason = "kept"


def rounded_rows(rows: Array, format: WeightFormat) -> tuple[Array, Noise] | None:
    """The blocks of float32 [rows, depth] and their noise; None if a scale exceeds float16."""
    codes, noise = block_codes(rows, format), Noise()
    with np.errstate(invalid="ignore"):
        for part in chunks_of(rows):
            items = rows[part]
            found = dequantize_blocks(codes[part], format=STORED[format], shape=items.shape)
            noise.add(items, found)
    return (codes, noise) if np.isfinite(noise.noise) else None


class _Matrix(NamedTuple):
    """A matrix, and the operand that it is."""

    weight: BlockWeight
    op: Op
    position: int

    @property
    def value(self) -> Value:
        return self.op.inputs[self.position]


def _matrices(graph: Graph) -> Iterator[_Matrix]:
    """The known weights of products and tables of rows, in the order of the graph."""
    known: dict[Value, bool] = {}
    for op in graph.ops:
        places = {"gather": (0,), "conv": (1,), "deconv": (1,), "linear": (1,), "matmul": (0, 1)}
        for i in places.get(op.name, ()):
            value = op.inputs[i]
            others = [x for x in op.inputs[:2] if x is not value]
            if not value.type.dtype.is_float or not is_known(value, known):
                continue
            if others and not all(is_known(x, known) for x in others):
                name, size = op.output.name or op.name, _stored_bytes(value)
                weight = BlockWeight(name, op.name, _shape(op, value), size, _reason(op, i))
                yield _Matrix(weight, op, i)


def _shape(op: Op, value: Value) -> Shape:
    dims = value.type.dims
    if op.name == "matmul" and not _has_rows(op):
        dims = (*dims[:-2], dims[-1], dims[-2])
    return dims[-2:] if all(extent == 1 for extent in dims[:-2]) else dims


def _has_rows(op: Op) -> bool:
    """Whether the items that a product sums over are rows of its second operand."""
    return op.name != "matmul" or bool(op.attributes["transposeB"])


def _reason(op: Op, position: int) -> str:
    """Why an operand cannot be in blocks; empty if it can."""
    value = op.inputs[position]
    shape = _shape(op, value)
    if op.name in ("conv", "deconv"):
        return "a filter of a convolution"
    if op.name == "matmul" and position == 0:
        return "the left matrix of a product"
    if op.name == "gather" and op.attributes["axis"] != 0:
        return "columns are gathered"
    if value.type.dtype not in (DType.FLOAT32, DType.FLOAT16):
        return f"computed in {value.type.dtype}"
    if len(shape) != 2:
        return "not one matrix"
    if shape[1] % BLOCK_ITEMS or not shape[1]:
        return f"rows of {shape[1]} items are not whole blocks"
    return ""


def _source(value: Value) -> tuple[Value, bool]:
    """A weight before it is reshaped or transposed, and whether its matrix is transposed."""
    turned = False
    while (op := value.op) is not None and op.inputs:
        inner = op.inputs[0]
        same = value.type.dims[-2:] == inner.type.dims[-2:]
        turns = exchanges_rows(op)
        if not turns and not (is_view(op) and same):
            break
        value, turned = inner, turned != turns
    return value, turned


def _stored_bytes(value: Value) -> int:
    """Bytes of the items of a weight in the type in which the model has them."""
    return value.type.volume * _unwidened(value).type.dtype.itemsize


def _unwidened(value: Value) -> Value:
    """The tensor with the items of a weight, perhaps in a narrower type."""
    while value.op is not None and (is_view(value.op) or value.op.name in _KEEPS_ITEMS):
        value = value.op.inputs[0]
    return value


class _Blocks:
    """Replaces matrices of a graph; one that several operations read is stored once."""

    def __init__(self, graph: Graph, format: WeightFormat) -> None:
        self._graph = graph
        self._format: WeightFormat = format
        self._made: dict[tuple[Value, bool], tuple[Value, int, Noise] | None] = {}
        names = {value.name for op in graph.ops for value in op.outputs}
        names |= {value.name for value in graph.inputs}
        names |= {variable.label for variable in graph.variables.values()}
        self._names = {name.lower() for name in (*names, *graph.output_names)}

    def apply(self, matrix: _Matrix) -> None:
        """Let an operation read a matrix from blocks, unless a scale exceeds float16."""
        weight, op, i = matrix
        swapped = not _has_rows(op)
        source, turned = _source(matrix.value)
        key = source, swapped != turned
        if key not in self._made:
            self._made[key] = self._stored(*key, op)
        made = self._made[key]
        if made is None:
            weight.reason = "a scale exceeds float16"
            return
        real, weight.bytes_after, weight.noise = made
        rank = matrix.value.type.rank
        if rank > len(weight.shape):
            shape = (*(1,) * (rank - 2), *weight.shape)
            real = build(self._graph, "reshape", [real], {"shape": shape}, before=op).output
        if swapped:
            op.attributes["transposeB"] = True
        if matrix.value.type.dtype is DType.FLOAT16:
            self._compute_in_float32(op, i, real)
        else:
            op.set_input(i, real)

    def _compute_in_float32(self, op: Op, position: int, real: Value) -> None:
        """Replace an operation of float16 by one that reads a matrix in float32."""

        def cast(value: Value, dtype: DType, names: Sequence[str] = ()) -> Value:
            made = build(self._graph, "cast", [value], dtype=dtype, before=op, names=names)
            return made.output

        operands: list[Value] = []
        for i, value in enumerate(op.inputs):
            is_half = value.type.dtype is DType.FLOAT16 and i != position
            operands.append(cast(value, DType.FLOAT32) if is_half else value)
        operands[position] = real
        wide = build(self._graph, op.name, operands, op.attributes, before=op)
        replace(self._graph, op, [cast(wide.output, DType.FLOAT16, [op.output.name])])

    def _stored(self, value: Value, swapped: bool, op: Op) -> tuple[Value, int, Noise] | None:
        """(the matrix as it is dequantized, its bytes, its noise); None if a scale is infinite."""
        items = items_of(value)
        require_finite(value, items)
        rows = items.reshape(value.type.dims[-2:])
        rows = rows.T if swapped else rows
        made = rounded_rows(rows, self._format)
        if made is None:
            return None
        codes, noise = made
        name = label_of(_unwidened(value)) or value.name or op.output.name
        stored = add_variable(self._graph, self._unique(f"{name}_{self._format}"), codes, op)
        attributes = {"format": STORED[self._format], "shape": rows.shape}
        names = [self._unique(f"{name}_blocks")]
        real = build(self._graph, "dequantize_blocks", [stored], attributes, before=op, names=names)
        return real.output, codes.nbytes, noise

    def _unique(self, name: str) -> str:
        unused = unused_name(name, self._names, ignore_case=True)
        self._names.add(unused.lower())
        return unused
