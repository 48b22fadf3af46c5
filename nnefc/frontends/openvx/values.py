"""Values of a graph while layers are built, with operations that several layers need."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.values import KnownTensor, Operand
from nnefc.frontends.openvx.enumerations import DTYPES, ConvertPolicy, RoundPolicy
from nnefc.frontends.openvx.layers import Layer
from nnefc.frontends.openvx.tensors import Dims, Format, Layout
from nnefc.ir import DType

WIDTH: Final = -1
"""The dimension of arrays that is OpenVX's first."""


class Call(NamedTuple):
    """A layer whose operands are known; `operands` and `layouts` by parameter."""

    make: OpBuilder
    layer: Layer
    operands: dict[str, Operand]
    layouts: dict[str, Layout]

    def value(self, parameter: str) -> Any:
        """A parameter that is no tensor."""
        return self.layer.values[parameter]

    def real(self, parameter: str) -> float:
        """A parameter that is a real number: FLOAT32, as the functions in C have it."""
        return float(np.float32(self.layer.values[parameter]))

    @property
    def dims(self) -> dict[str, Dims]:
        """The dims of all tensors."""
        return {name: layout.dims for name, layout in self.layouts.items()}

    @property
    def format(self) -> Format:
        """The format of the input, which the outputs have, too."""
        return self.layouts[self.layer.declaration.inputs[0]].format

    @property
    def output(self) -> Layout:
        """The layout of the outputs."""
        return self.layouts[self.layer.declaration.outputs[0]]

    @property
    def wraps(self) -> bool:
        """Whether results outside of their type wrap around."""
        return self.value("overflow_policy") == ConvertPolicy.WRAP

    @property
    def rounds_to_even(self) -> bool:
        """Whether the rounding policy is TO_NEAREST_EVEN; the other one is TO_ZERO."""
        return self.value("rounding_policy") == RoundPolicy.TO_NEAREST_EVEN


def batched(call: Call, x: Operand, rank: int) -> Operand:
    """An operand with all batches in its first of `rank` dimensions."""
    dims = x.type.dims
    inner = dims[len(dims) - rank + 1 :]
    shape = (int(np.prod(dims[: len(dims) - rank + 1])), *inner)
    op = None if isinstance(x, KnownTensor) else call.make.value(x).op
    if op is not None and op.name == "reshape" and op.inputs[0].type.dims == shape:
        return op.inputs[0]
    return call.make.reshape(x, shape)


def with_batches(call: Call) -> Operand:
    """The input of a function, [maps, height, width] as [1, maps, height, width].

    Convolutions have such results: those of one batch are fused with functions as others are.
    """
    x = call.operands["inputs"]
    return batched(call, x, 4) if x.type.rank == 3 else x


def shaped(call: Call, y: Operand) -> Operand:
    """A result with the dims of the outputs."""
    return call.make.reshape(y, call.output.dims[::-1])


def number(value: float, dtype: DType) -> KnownTensor:
    """A known number."""
    return KnownTensor(np.array(value, dtype.numpy), dtype)


def zero(format: Format) -> KnownTensor:
    """The number 0 of a format."""
    return number(0, DTYPES[format.type])


def rounded(call: Call, x: Operand, *, wraps: bool, to_even: bool) -> Operand:
    """Items of the output's format from float64, in units of its last bit."""
    make, dtype = call.make, DTYPES[call.format.type]
    whole = make("round_even", x) if to_even else x
    return make.cast(make.cast(whole, DType.INT64) if wraps else whole, dtype)


def reals(call: Call, x: Operand) -> Operand:
    """Items as float64."""
    y = call.make.cast(x, DType.FLOAT64)
    scale = 2.0**-call.format.position
    return y if scale == 1 else call.make("mul", y, scale)


def nearest(call: Call, y: Operand) -> Operand:
    """The output's items from float64: rounded to nearest, saturated."""
    scale = 2.0**call.format.position
    units = y if scale == 1 else call.make("mul", y, scale)
    return rounded(call, units, wraps=False, to_even=True)
