"""`LSTM` and `UNIDIRECTIONAL_SEQUENCE_LSTM` of int8, with gates and cells of int16.

Gates have 3 integer bits before their function and none behind it; before they are normalised, they
have the scale of an intermediate tensor.  The cell has a scale that is a power of two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nnefc.formats.tflite.model import Tensor
from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.operators.indices import gather
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.fixed_point import int32, rescaled, scale_of, zero_of, zero_tensor
from nnefc.frontends.tflite.operands import known_array
from nnefc.frontends.tflite.operators.codes.lstm_layer import (
    BIASES,
    INPUTS,
    NORMALIZATION,
    PROJECTION,
    PROJECTION_BIAS,
    RECURRENT,
    WEIGHTS,
    Layer,
)
from nnefc.frontends.tflite.operators.codes.normalization import normalized
from nnefc.frontends.tflite.operators.recurrent.layers import over_time, swapped
from nnefc.frontends.tflite.operators.recurrent.lstm import BASIC, CELL_STATE, GATES, OUTPUT_STATE
from nnefc.frontends.tflite.registry import Node, operator
from nnefc.frontends.tflite.tables_of_int16 import ONE, logistic_table, looked_up, tanh_table
from nnefc.ir import DType


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
    layer = Layer.of(node, cell_clip, proj_clip)
    x = swapped(make, input, swap=not time_major)
    y = _over_time(make, x, given, layer, node, together=time_major)
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
    layer = Layer.of(node, cell_clip, proj_clip)
    x = make.reshape(input, (1, batch, depth))
    y = _over_time(make, x, given, layer, node, together=True)
    return make.reshape(y, y.type.dims[1:])


def _over_time(
    make: OpBuilder,
    x: Operand,
    given: tuple[Operand | None, ...],
    layer: Layer,
    node: Node,
    *,
    together: bool,
) -> Operand:
    """The outputs [time, batch, units] for x [time, batch, depth]; `together`: see `_peephole`."""
    every = [x, *given, *[None] * (INPUTS - 1 - len(given))]
    states = [_operand(every, each) for each in (OUTPUT_STATE, CELL_STATE)]
    for state in states:
        of_rank("lstm", "a state", state, 2)
    indices = layer.shared()
    shared = [_operand(every, index) for index in indices]
    for gate in layer.gates:
        index = layer.peephole(gate)
        if index is not None:
            place = indices.index(index)
            shared[place] = _peephole(make, shared[place], states, together=together)

    def step(
        within: OpBuilder, own: Operand, before: list[Operand], captured: list[Operand]
    ) -> list[Operand]:
        return _step(within, own, before, dict(zip(indices, captured, strict=True)), layer)

    y, after = over_time(make, _inputs(make, x, every, layer), states, shared, step)
    make.evaluator.assign(node.inputs[OUTPUT_STATE], after[0])
    make.evaluator.assign(node.inputs[CELL_STATE], after[1])
    return y


def _operand(every: list[Operand | None], index: int) -> Operand:
    found = every[index]
    if found is None:
        raise OperatorError("tflite/arguments", f"its input {index} is missing")
    return found


def _peephole(
    make: OpBuilder, weights: Operand, states: list[Operand], *, together: bool
) -> Operand:
    """The weights of cells for a gate, as int32 [1 or batch, units].

    LiteRT takes the rows of the output for those of the cell, which are wider or narrower with a
    projection: the weights of the first outputs repeat, and the last cells of all rows have none.
    `together`: rows of a step are computed at once, so all rows are one.
    """
    (batch, outputs), (_, units) = (state.type.dims for state in states)
    (count,) = of_rank("lstm", "weights of the cell", weights, 1)
    wide = make.cast(weights, DType.INT32)
    if count != units:
        raise OperatorError("tflite/shape", f"{count} weights of the cell for {units} units")
    if outputs == units:
        return make.reshape(wide, (1, units))
    if outputs > units:
        message = f"peepholes of {units} units, where a projection has {outputs} outputs"
        raise OperatorError("tflite/unsupported", message)
    rows = int(batch) if together else 1
    places = np.arange(rows * units).reshape(rows, units)
    taken = gather(make, wide, int32(places % outputs), 0)
    return make("mul", taken, int32(places < rows * outputs))


def _sums(make: OpBuilder, x: Operand, weights: Operand, source: Tensor) -> Operand:
    """int32 products of codes less their zero point, [rows, units]."""
    units, depth = of_rank("lstm", "weights", weights, 2)
    if x.type.dims[-1] != depth:
        message = f"weights {[units, depth]} for {list(x.type.dims)}"
        raise OperatorError("tflite/shape", message)
    zero = known_array(0, DType.INT8)
    return make("integer_matmul", x, weights, zero_tensor(source), zero, transposeB=True)


def _biased(make: OpBuilder, sums: Operand, bias: Operand) -> Operand:
    return make("add", sums, make.reshape(bias, (1, sums.type.dims[1])))


def _inputs(make: OpBuilder, x: Operand, every: list[Operand | None], layer: Layer) -> Operand:
    """The products of the input, [time, batch, gates * units], as int32 within int16."""
    time, batch, depth = x.type.dims
    rows = make.reshape(x, (time * batch, depth))
    source = layer.tensor(0)
    parts: list[Operand] = []
    for gate in layer.gates:
        sums = _sums(make, rows, _operand(every, WEIGHTS + gate), source)
        if not layer.is_normalized:
            sums = _biased(make, sums, _operand(every, BIASES + gate))
        factor = layer.factor(WEIGHTS + gate, scale_of(source), gate)
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


def _gate(
    make: OpBuilder,
    x: Operand,
    hidden: Operand,
    memory: Operand,
    shared: dict[int, Operand],
    layer: Layer,
    gate: int,
) -> Operand:
    """A gate as int32 without integer bits; x: the products of the input."""
    source = layer.tensor(OUTPUT_STATE)
    factor = layer.factor(RECURRENT + gate, scale_of(source), gate)
    sums = rescaled(make, _sums(make, hidden, shared[RECURRENT + gate], source), [factor])
    x = _clipped_to_int16(make, make("add", x, sums))
    index = layer.peephole(gate)
    if index is not None:
        factor = layer.factor(index, 2.0**layer.cell_bits, gate)
        seen = rescaled(make, make("mul", shared[index], memory), [factor])
        x = _clipped_to_int16(make, make("add", x, seen))
    if layer.is_normalized:
        index = NORMALIZATION + gate
        bias, scale = shared[BIASES + gate], layer.scale(index)
        x = _clipped_to_int16(make, normalized(make, x, shared[index], bias, scale))
    table = tanh_table(3) if GATES[gate] == "cell" else logistic_table()
    return looked_up(make, int32(table), x)


def _step(
    make: OpBuilder,
    own: Operand,
    before: list[Operand],
    shared: dict[int, Operand],
    layer: Layer,
) -> list[Operand]:
    """The output and the cell after a step; own: the products of the input, by computed gate."""
    hidden, memory = before
    units = memory.type.dims[1]
    cell = make.cast(memory, DType.INT32)
    sums = {
        gate: slice_in_dim(make, own, 1, i * units, (i + 1) * units)
        for i, gate in enumerate(layer.gates)
    }
    gates = {
        gate: _gate(make, sums[gate], hidden, cell, shared, layer, gate)
        for gate in layer.gates[:-1]
    }
    bits = layer.cell_bits
    entry = gates[0] if 0 in gates else make("sub", int32(ONE), gates[1])
    kept = _product(make, gates[1], cell, 15)
    after = _clipped_to_int16(make, make("add", _product(make, gates[2], entry, 30 + bits), kept))
    if layer.cell_clip > 0:
        limit = layer.cell_clip
        after = make("max", make("min", after, int32(limit)), int32(-limit))
    opened = _gate(make, sums[3], hidden, after, shared, layer, 3)
    product = make("mul", opened, looked_up(make, int32(tanh_table(15 + bits)), after))
    scaled = rescaled(make, product, [layer.hidden_factor])
    y = _codes(make, make("add", scaled, int32(zero_of(layer.hidden))))
    if PROJECTION in shared:
        y = _projected(make, y, shared, layer)
    return [y, make.cast(after, DType.INT16)]


def _projected(make: OpBuilder, y: Operand, shared: dict[int, Operand], layer: Layer) -> Operand:
    sums = _sums(make, y, shared[PROJECTION], layer.hidden)
    if PROJECTION_BIAS in shared:
        sums = _biased(make, sums, shared[PROJECTION_BIAS])
    scaled = rescaled(make, sums, [layer.projection_factor])
    y = _codes(make, make("add", scaled, int32(zero_of(layer.tensor(OUTPUT_STATE)))))
    if layer.proj_clip > 0:
        wide, limit = make.cast(y, DType.INT32), layer.proj_clip
        y = _codes(make, make("max", make("min", wide, int32(limit)), int32(-limit)))
    return y


def _codes(make: OpBuilder, x: Operand) -> Operand:
    return make.cast(make("max", make("min", x, int32(127)), int32(-128)), DType.INT8)
