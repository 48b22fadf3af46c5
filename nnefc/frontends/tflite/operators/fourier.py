"""Fourier transforms and complex numbers."""

from __future__ import annotations

from typing import Any, Final

from nnefc.frontends.common.op_builder import OpBuilder
from nnefc.frontends.common.operand_checks import of_rank_at_least
from nnefc.frontends.common.operators.axes import slice_in_dim
from nnefc.frontends.common.values import Operand, OperatorError
from nnefc.frontends.tflite.complex_tensors import ComplexTensor
from nnefc.frontends.tflite.registry import REALS, Integers, operator

_COMPLEX: Final = ("COMPLEX64",)


@operator("RFFT2D", options="Rfft2dOptions", types=REALS)
def rfft_2d(make: OpBuilder, input: Operand, fft_length: Integers) -> Any:
    """The transform along the last two dimensions, cut or filled to `fft_length`.

    The last dimension has only the results that are no conjugates of others.
    """
    dims = of_rank_at_least("fft", "input", input, 2)
    if len(fft_length) != 2 or min(fft_length) < 1:
        raise OperatorError("argument/fft", f"fft_length = {list(fft_length)}")
    rank = len(dims)
    more = [(0, 0)] * rank
    for axis, length in zip((rank - 2, rank - 1), fft_length, strict=True):
        more[axis] = (0, length - dims[axis])
    x = make("pad", input, padding=tuple(more), border="constant", value=0.0)
    x = make.reshape(x, (*x.type.dims, 1))
    y = make("fft", x, axis=rank - 1, bins=fft_length[1] // 2 + 1)
    if fft_length[0] > 1:
        y = make("fft", y, axis=rank - 2)
    parts = [slice_in_dim(make, y, rank, i, i + 1) for i in range(2)]
    return ComplexTensor(*(make.reshape(each, y.type.dims[:-1]) for each in parts))


def _part(name: str, attribute: str) -> None:
    """Register an operator that gives a part of complex numbers."""

    def function(make: OpBuilder, input: Any) -> Any:
        del make
        return getattr(_complex(input), attribute)

    operator(name, types=_COMPLEX)(function)


_part("REAL", "real")
_part("IMAG", "imaginary")


@operator("COMPLEX_ABS", types=_COMPLEX)
def complex_abs(make: OpBuilder, input: Any) -> Any:
    x = _complex(input)
    squares = [make("mul", part, part) for part in (x.real, x.imaginary)]
    return make("sqrt", make("add", *squares))


def _complex(value: Any) -> ComplexTensor:
    if not isinstance(value, ComplexTensor):
        raise OperatorError("tflite/unsupported", "its input is no result of a transform")
    return value
