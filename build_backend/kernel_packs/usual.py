"""Kernels whose arguments are item types or small choices: all that networks usually need."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from nnefc.kernels.convolution import depthwise, row_major
from nnefc.kernels.convolution.depthwise import Group
from nnefc.kernels.elementwise import map as elementwise
from nnefc.kernels.elementwise.parameters import Access, AccessPattern
from nnefc.kernels.family import Kernel
from nnefc.kernels.fourier import transform
from nnefc.kernels.movement import channels, gather, indexing, iota, layout, strided
from nnefc.kernels.product import matmul
from nnefc.kernels.reduce import reduction, softmax, topk
from nnefc.kernels.tile import panels
from nnefc.kernels.tile.register_tile import tile_rows
from nnefc.kernels.vector.expression_argument import Expression, StepKey
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.kernels.window import grid_sample, plane_reduction, pooling, sampling, sliding, upsample
from nnefc.lower.convolution.depthwise import MAX_WEIGHTS

F32: Final = "float32"
_INDICES: Final = ("int64", "int32")
_NUMBERS: Final = (F32, "int64", "int32")
_CAST: Final = (F32, "float16", "bfloat16", "int64", "int32", "uint8", "int8", "bool")
_UNARY: Final = (
    *("abs", "ceil", "cos", "erf", "exp", "floor", "log", "log2", "neg", "rcp", "relu", "round"),
    *("round_even", "rsqrt", "sigmoid", "sign", "sin", "softplus", "sqr", "sqrt", "tanh", "atan"),
)
_WHOLE, _REPEATED = Access.CONTIGUOUS, Access.REPEATED


def usual_kernels() -> list[Kernel]:
    """The kernels for the instruction set of this process."""
    makers = (_movement, _reductions, _windows, _products, _convolutions, _elementwise)
    return list(dict.fromkeys(kernel for make in makers for kernel in make()))


def _movement() -> Iterator[Kernel]:
    for size in (1, 2, 4, 8):
        yield strided.copy(size)
        yield strided.strided(size)
        yield strided.transpose(size)
        for index in _INDICES:
            yield gather.rows(size, index)
    for item, index in product((F32, *_INDICES), _INDICES):
        yield indexing.gather_elements(item, index)
        yield indexing.gather_slices(item, index)
        yield indexing.scatter_elements("none", item, index)
        yield indexing.scatter_slices("none", item, index)
    for item in _NUMBERS:
        yield iota.integers(item)
    yield iota.tri()
    block = lanes_of(F32)
    for lanes in {1, block}:
        yield channels.shuffle(F32, lanes)
    yield channels.lanes(F32, block)
    yield layout.block(F32, block)
    yield layout.unblock(F32, block)


def _reductions() -> Iterator[Kernel]:
    kinds = [(kind, item) for kind in ("sum", "max", "min", "product") for item in _NUMBERS]
    kinds += [("any", "bool"), ("all", "bool")]
    for kind, item in kinds:
        yield reduction.rows(kind, item)
        yield reduction.columns(kind, item)
    for kind, index in product(("max", "min"), _INDICES):
        yield reduction.index_rows(kind, F32, index)
        yield reduction.index_columns(kind, F32, index)
    for index in _INDICES:
        yield topk.topk(True, F32, index)
        yield topk.topk(False, F32, index)
    yield softmax.rows(F32)
    yield softmax.columns(F32)
    for kind, contiguous in product(("forward", "inverse", "real"), (False, True)):
        yield transform.transform(kind, contiguous, F32)


def _windows() -> Iterator[Kernel]:
    block = lanes_of(F32)
    for kind in ("max", "sum"):
        for window in (None, *pooling.WINDOWS):
            yield pooling.window(kind, F32, F32, block, window)
    for kind in ("max", "min", "sum"):
        yield plane_reduction.plane(kind, F32, F32, block)
    yield sliding.max_(F32)
    yield sliding.sum_(F32)
    yield sliding.pad(F32)
    for factor in (2, 3, 4):
        yield upsample.nearest(F32, block, factor)
    yield upsample.linear(F32, F32, block)
    yield sampling.interpolate(F32)
    yield sampling.blend(F32)
    for mode, aligned in product(("bilinear", "nearest"), (False, True)):
        for border in ("zeros", "border"):
            yield grid_sample.sample(mode, border, aligned, 2, F32)


def _products() -> Iterator[Kernel]:
    yield matmul.dots(F32)
    lanes = lanes_of(F32)
    for vector in (lanes, min(lanes, 1 << (tile_rows() - 1).bit_length())):
        yield panels.panels(F32, vector)


def _convolutions() -> Iterator[Kernel]:
    block = lanes_of(F32)
    yield row_major.gemm(F32)
    yield row_major.columns(F32)
    for taps, stride in product((1, 2, 3, 4, 5, 7, 9, 11), (1, 2)):
        yield depthwise.convolution(F32, F32, block, stride, taps)
    # channels of a group that is part of a channel block
    sizes = [size for size in (2, 4, 8) if size <= block // 2]
    for size, stride, taps in product(sizes, (1, 2), (1, 3, 5)):
        if size * taps <= MAX_WEIGHTS:
            group = Group(size, size)
            yield depthwise.convolution(F32, F32, block, stride, taps, group=group)


def _elementwise() -> Iterator[Kernel]:
    for source, target in product(_CAST, _CAST):
        if source != target:
            yield _map((source,), ("cast", (0,), target, None))
    for name in _UNARY:
        yield _map((F32,), (name, (0,), F32, None))
    for name, item in product(("add", "sub", "mul", "max", "min"), _NUMBERS):
        yield from _binary(name, item, item)
    for name, item in product(("eq", "ne", "lt", "gt", "le", "ge"), _NUMBERS):
        yield from _binary(name, item, "bool")
    for name in ("div", "pow"):
        yield from _binary(name, F32, F32)
    for name in ("and", "or"):
        yield from _binary(name, "bool", "bool")
    yield _map(("bool",), ("not", (0,), "bool", None))
    for item in _NUMBERS:
        step: StepKey = ("select", (0, 1, 2), item, None)
        for second, third in product((_WHOLE, _REPEATED), repeat=2):
            yield _map(("bool", item, item), step, (_WHOLE, second, third))


def _binary(name: str, item: str, result: str) -> Iterator[Kernel]:
    step: StepKey = (name, (0, 1), result, None)
    for pattern in ((_WHOLE, _WHOLE), (_WHOLE, _REPEATED), (_REPEATED, _WHOLE)):
        yield _map((item, item), step, pattern)


def _map(
    inputs: tuple[str, ...], step: StepKey, access: tuple[Access, ...] | None = None
) -> Kernel:
    expression = Expression(inputs, (step,), (len(inputs),))
    pattern = AccessPattern(access or (_WHOLE,) * len(inputs))
    return elementwise.expression(expression, pattern)
