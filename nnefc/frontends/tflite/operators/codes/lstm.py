"""`LSTM` and `UNIDIRECTIONAL_SEQUENCE_LSTM` of int8, with gates and cells of int16.

Gates have 3 integer bits before their function and none behind it.  The cell has a scale that is a
power of two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from nnefc.formats.tflite.model import Tensor
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.fixed_point import int32, rescaled, scale_of, zero_of, zero_tensor
from nnefc.frontends.tflite.operands import known_array
from nnefc.frontends.tflite.operators.lstm import BASIC, CELL_STATE, GATES, OUTPUT_STATE
from nnefc.frontends.tflite.operators.recurrent import over_time, swapped
from nnefc.frontends.tflite.registry import Node, operator
from nnefc.frontends.tflite.tables_of_int16 import ONE, logistic_table, looked_up, tanh_table
from nnefc.ir import DType

_GATE_SCALE: Final = 2.0**-12
_HIDDEN: Final = 4
"""The intermediate tensor with the scale of the output before the projection."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """The tensors of a layer, by input of the operator; those that are absent are None."""

    tensors: tuple[Tensor | None, ...]
    hidden: Tensor
    cell_clip: int
    """In units of the cell; 0 for none."""
    proj_clip: int

    def scale(self, index: int) -> float:
        return scale_of(self.tensor(index))

    def tensor(self, index: int) -> Tensor:
        tensor = self.tensors[index] if index < len(self.tensors) else None
        if tensor is None:
            raise OperatorError("tflite/arguments", f"its input {index} is missing")
        return tensor

    @property
    def cell_bits(self) -> int:
        """The exponent of the scale of the cell; raises OperatorError for another scale."""
        scale = self.scale(CELL_STATE)
        exponent = round(math.log2(scale))
        if not -15 <= exponent <= -9 or abs(scale * 2.0**-exponent - 1) > 1e-3:
            message = f"{self.tensor(CELL_STATE)} has the scale {scale}, no power of 2"
            raise OperatorError("tflite/quantization", message)
        return exponent

    @property
    def gates(self) -> list[int]:
        """The gates that are computed: without an input gate, it is 1 less the forget gate."""
        return [gate for gate in range(4) if gate or self.tensors[1] is not None]


@operator(
    "UNIDIRECTIONAL_SEQUENCE_LSTM", options="UnidirectionalSequenceLSTMOptions", types=("INT8",)
)
def sequence_lstm(
    make: OpBuilder,
    input: Operand,
    *given: Operand | None,
    cell_clip: float,
    proj_clip: float,
    time_major: bool,
    diagonal_recurrent_tensors: bool,
    node: Node,
) -> Any:
    """input [batch, time, depth], or [time, batch, depth] if `time_major`."""
    if diagonal_recurrent_tensors:
        raise OperatorError("tflite/unsupported", "diagonal recurrent tensors")
    of_rank("lstm", "input", input, 3)
    x = swapped(make, input, swap=not time_major)
    y = _over_time(make, x, given, cell_clip, proj_clip, node)
    return swapped(make, y, swap=not time_major)


@operator("LSTM", options="LSTMOptions", types=("INT8",))
def lstm(
    make: OpBuilder,
    input: Operand,
    *given: Operand | None,
    cell_clip: float,
    proj_clip: float,
    kernel_type: int,
    node: Node,
) -> Any:
    """One step of a layer."""
    if kernel_type == BASIC:
        raise OperatorError("tflite/unsupported", "the basic kernel for int8")
    batch, depth = of_rank("lstm", "input", input, 2)
    x = make.reshape(input, (1, batch, depth))
    y = _over_time(make, x, given, cell_clip, proj_clip, node)
    return make.reshape(y, y.type.dims[1:])


def _over_time(
    make: OpBuilder,
    x: Operand,
    given: tuple[Operand | None, ...],
    cell_clip: float,
    proj_clip: float,
    node: Node,
) -> Operand:
    """The outputs [time, batch, units] for x [time, batch, depth]."""
    every = [x, *given, *[None] * (24 - 1 - len(given))]
    if any(each is not None for each in (*every[9:12], *every[20:])):
        raise OperatorError("tflite/unsupported", "peepholes or normalisation of codes")
    hidden = (*node.intermediates, *[None] * (_HIDDEN + 1))[_HIDDEN]
    if hidden is None:
        raise OperatorError("tflite/arguments", "its intermediate tensors are missing")
    layer = _Layer(node.inputs, hidden, 0, 0)
    _check(layer)
    if math.isnan(cell_clip) or math.isnan(proj_clip):
        raise OperatorError("tflite/arguments", f"the limits {cell_clip} and {proj_clip}")
    clips = [
        int(min(max(clip / layer.scale(index), 0), limit))
        for clip, index, limit in ((cell_clip, CELL_STATE, 32767), (proj_clip, OUTPUT_STATE, 127))
    ]
    layer = _Layer(node.inputs, hidden, *clips)
    states = [each for each in every[OUTPUT_STATE : CELL_STATE + 1] if each is not None]
    for state in states:
        of_rank("lstm", "a state", state, 2)
    shared = [_operand(every, 5 + gate) for gate in layer.gates]
    if every[16] is not None:
        shared.append(every[16])
        if every[17] is not None:
            shared.append(every[17])

    def step(
        within: OpBuilder, own: Operand, before: list[Operand], captured: list[Operand]
    ) -> list[Operand]:
        return _step(within, own, before, captured, layer)

    y, after = over_time(make, _inputs(make, x, every, layer), states, shared, step)
    make.evaluator.assign(node.inputs[OUTPUT_STATE], after[0])
    make.evaluator.assign(node.inputs[CELL_STATE], after[1])
    return y


def _operand(every: list[Operand | None], index: int) -> Operand:
    found = every[index]
    if found is None:
        raise OperatorError("tflite/arguments", f"its input {index} is missing")
    return found


def _check(layer: _Layer) -> None:
    """Raise OperatorError for tensors with items of other types."""
    wanted = {OUTPUT_STATE: "INT8", CELL_STATE: "INT16"}
    for gate in layer.gates:
        wanted |= {1 + gate: "INT8", 5 + gate: "INT8", 12 + gate: "INT32"}
    if layer.tensors[16] is not None:
        wanted[16] = "INT8"
    for index, type_ in wanted.items():
        tensor = layer.tensors[index] if index < len(layer.tensors) else None
        if tensor is None and 12 <= index < 16:
            continue
        if tensor is None or tensor.type != type_:
            what = f"input {index}" if tensor is None else f"{tensor} of {tensor.type}"
            raise OperatorError("tflite/unsupported", f"{what}, where {type_} is expected")


def _sums(make: OpBuilder, x: Operand, weights: Operand, source: Tensor) -> Operand:
    """int32 products of codes less their zero point, [rows, units]."""
    units, depth = of_rank("lstm", "weights", weights, 2)
    if x.type.dims[-1] != depth:
        message = f"weights {[units, depth]} for {list(x.type.dims)}"
        raise OperatorError("tflite/shape", message)
    zero = known_array(0, DType.INT8)
    return make("integer_matmul", x, weights, zero_tensor(source), zero, transposeB=True)


def _inputs(make: OpBuilder, x: Operand, every: list[Operand | None], layer: _Layer) -> Operand:
    """The products of the input, [time, batch, gates * units], as int32 within int16."""
    time, batch, depth = x.type.dims
    rows = make.reshape(x, (time * batch, depth))
    source = layer.tensor(0)
    parts: list[Operand] = []
    for gate in layer.gates:
        sums = _sums(make, rows, _operand(every, 1 + gate), source)
        bias = every[12 + gate]
        if bias is not None:
            sums = make("add", sums, make.reshape(bias, (1, sums.type.dims[1])))
        factor = scale_of(source) * layer.scale(1 + gate) / _GATE_SCALE
        parts.append(_clipped_to_int16(make, rescaled(make, sums, [factor])))
    joined = make("concat", parts, axis=1)
    return make.reshape(joined, (time, batch, joined.type.dims[1]))


def _clipped_to_int16(make: OpBuilder, x: Operand) -> Operand:
    """int32 within the range of int16."""
    return make("max", make("min", x, int32(32767)), int32(-32768))


def _product(make: OpBuilder, x: Operand, y: Operand, shift: int) -> Operand:
    """Products, divided by 2**shift, halves away from zero."""
    return _wrapped_to_int16(make, make("rounding_shift", make("mul", x, y), int32(shift)))


def _wrapped_to_int16(make: OpBuilder, x: Operand) -> Operand:
    return make.cast(make.cast(x, DType.INT16), DType.INT32)


def _step(
    make: OpBuilder,
    own: Operand,
    before: list[Operand],
    captured: list[Operand],
    layer: _Layer,
) -> list[Operand]:
    """The output and the cell after a step; own: the products of the input, by computed gate."""
    hidden, memory = before
    units = memory.type.dims[1]
    source = layer.tensor(OUTPUT_STATE)
    gates: dict[int, Operand] = {}
    for i, gate in enumerate(layer.gates):
        factor = scale_of(source) * layer.scale(5 + gate) / _GATE_SCALE
        sums = rescaled(make, _sums(make, hidden, captured[i], source), [factor])
        x = slice_in_dim(make, own, 1, i * units, (i + 1) * units)
        table = tanh_table(3) if GATES[gate] == "cell" else logistic_table()
        gates[gate] = looked_up(make, int32(table), _clipped_to_int16(make, make("add", x, sums)))
    bits = layer.cell_bits
    entry = gates[0] if 0 in gates else make("sub", int32(ONE), gates[1])
    kept = _product(make, gates[1], make.cast(memory, DType.INT32), 15)
    after = _clipped_to_int16(make, make("add", _product(make, gates[2], entry, 30 + bits), kept))
    if layer.cell_clip > 0:
        limit = layer.cell_clip
        after = make("max", make("min", after, int32(limit)), int32(-limit))
    opened = make("mul", gates[3], looked_up(make, int32(tanh_table(15 + bits)), after))
    inner = scale_of(layer.hidden)
    y = make("add", rescaled(make, opened, [2.0**-30 / inner]), int32(zero_of(layer.hidden)))
    y = _codes(make, y)
    count = len(layer.gates)
    if len(captured) > count:
        sums = _sums(make, y, captured[count], layer.hidden)
        if len(captured) > count + 1:
            sums = make("add", sums, make.reshape(captured[count + 1], (1, sums.type.dims[1])))
        factor = inner * layer.scale(16) / scale_of(source)
        scaled = rescaled(make, sums, [factor])
        y = _codes(make, make("add", scaled, int32(zero_of(source))))
        if layer.proj_clip > 0:
            wide, limit = make.cast(y, DType.INT32), layer.proj_clip
            y = _codes(make, make("max", make("min", wide, int32(limit)), int32(-limit)))
    return [y, make.cast(after, DType.INT16)]


def _codes(make: OpBuilder, x: Operand) -> Operand:
    return make.cast(make("max", make("min", x, int32(127)), int32(-128)), DType.INT8)
