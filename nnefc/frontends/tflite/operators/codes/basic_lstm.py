"""The basic `LSTM` of uint8: one step, with states as inputs and outputs.

Products and the cell are int16.  Gates have 3 integer bits before their function and none behind
it; the cell has 4.
"""

from __future__ import annotations

from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.fixed_point import int32, rescaled, scale_of, zero_of, zero_tensor
from nnefc.frontends.tflite.operators.recurrent.lstm import BASIC
from nnefc.frontends.tflite.registry import Node, operator
from nnefc.frontends.tflite.tables_of_int16 import logistic_table, looked_up, tanh_table
from nnefc.ir import DType

_GATE_SCALE: Final = 2.0**-12
_CELL_SCALE: Final = 2.0**-11
_CELL_BITS: Final = 4
_ZERO: Final = 128


@operator("LSTM", options="LSTMOptions", types=("UINT8",))
def lstm(
    make: OpBuilder,
    input: Operand,
    previous: Operand,
    weights: Operand,
    bias: Operand,
    state: Operand,
    *,
    kernel_type: int,
    node: Node,
) -> Any:
    """Output and cell, then the joined input and the products, as LiteRT has them."""
    source, hidden, filter_, _, cell = node.inputs[:5]
    assert source is not None
    assert hidden is not None
    assert filter_ is not None
    assert cell is not None
    if kernel_type != BASIC:
        raise OperatorError("tflite/unsupported", "another than the basic kernel for uint8")
    fixed = scale_of(cell) == _CELL_SCALE and zero_of(cell) == 0
    codes = all(zero_of(each) == _ZERO and scale_of(each) == 1 / _ZERO for each in (source, hidden))
    if not (fixed and codes):
        message = "the basic kernel needs inputs with the scale 1/128 and the zero point 128, "
        raise OperatorError("tflite/quantization", f"{message}and a state with the scale 1/2048")
    of_rank("lstm", "input", input, 2)
    units = of_rank("lstm", "the state", state, 2)[1]
    joined = make("concat", [input, previous], axis=1)
    sums = make(
        *("integer_matmul", joined, weights, zero_tensor(source), zero_tensor(filter_)),
        transposeB=True,
    )
    sums = make("add", sums, make.reshape(bias, (1, 4 * units)))
    factor = scale_of(source) * scale_of(filter_) / _GATE_SCALE
    sums = _short(make, rescaled(make, sums, [factor]))
    entry, candidate, forget, opened = (
        slice_in_dim(make, sums, 1, i * units, (i + 1) * units) for i in range(4)
    )
    entry, forget, opened = (
        looked_up(make, int32(logistic_table()), each) for each in (entry, forget, opened)
    )
    candidate = looked_up(make, int32(tanh_table(3)), candidate)
    added = make("rounding_shift", _product(make, entry, candidate), int32(_CELL_BITS))
    kept = _product(make, forget, make.cast(state, DType.INT32))
    after = _short(make, make("add", added, kept))
    y = _product(make, opened, looked_up(make, int32(tanh_table(_CELL_BITS)), after))
    y = make("max", make("min", make("rounding_shift", y, int32(8)), int32(127)), int32(-128))
    output = make.cast(make("add", y, int32(_ZERO)), DType.UINT8)
    return output, make.cast(after, DType.INT16), joined, make.cast(sums, DType.INT16)


def _short(make: OpBuilder, x: Operand) -> Operand:
    """int32 within the range of int16."""
    return make("max", make("min", x, int32(32767)), int32(-32768))


def _product(make: OpBuilder, x: Operand, y: Operand) -> Operand:
    """Products of fractions, halves away from zero."""
    return make("rounding_shift", make("mul", x, y), int32(15))
