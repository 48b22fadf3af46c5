"""Convolutions of blocked codes: cases, their sums in int64, and compiled results."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (arrays of any type)

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from nnefc.ir import Blocked, DType, Expression, Op, TensorType
from nnefc.ir.convolution_algorithm import Winograd
from nnefc.kernels.target.isa import host
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.ops.core.window_arithmetic import convolution_window
from nnefc.ops.tools.verify import rule_problems
from tests.helpers.kernels.blocked_op import BlockedGraph, Halo, constant, halo

Array = np.ndarray[Any, Any]
Dims = tuple[int, ...]

CODES = np.dtype(host().codes)
LANES = lanes_of("int32")


@dataclass(frozen=True)
class Case:
    """A convolution; x and filter have extremes among random codes."""

    x: Array
    filter: Array
    x_zero: int
    filter_zero: Array
    padding: tuple[tuple[int, int], ...]
    stride: Dims
    dilation: Dims
    groups: int
    reverse: bool = False
    tile: int = 0
    """Most outputs of a tile of Winograd's algorithm along a dimension; 0 for direct sums."""

    @property
    def attributes(self) -> dict[str, Any]:
        return {
            **({"algorithm": Winograd(self.tile)} if self.tile else {}),
            "border": "constant",
            "padding": self.padding,
            "stride": self.stride,
            "dilation": self.dilation,
            "groups": self.groups,
            **({"output_shape": ()} if self.reverse else {}),
        }

    @property
    def reach(self) -> Halo:
        dims = self.x.shape, self.filter.shape
        window = convolution_window(*dims, self.attributes, reverse=self.reverse)
        return (window if self.reverse or self.tile else window.clipped()).reach()

    def sums(self) -> Array:
        """The sums in int64, tap by tap."""
        if self.reverse:
            return self._reverse_sums()
        x = self.x.astype(np.int64) - self.x_zero
        x = np.pad(x, ((0, 0), (0, 0), *self.padding))
        w = self.filter.astype(np.int64) - self.filter_zero
        taps = w.shape[2:]
        spans = [(t - 1) * d + 1 for t, d in zip(taps, self.dilation)]
        extents = [(n - a) // s + 1 for n, a, s in zip(x.shape[2:], spans, self.stride)]
        x = x.reshape(len(x), self.groups, -1, *x.shape[2:])
        w = w.reshape(self.groups, -1, *w.shape[1:])
        total: Any = 0
        for tap in itertools.product(*map(range, taps)):
            firsts = [t * d for t, d in zip(tap, self.dilation)]
            ends = [f + (n - 1) * s + 1 for f, n, s in zip(firsts, extents, self.stride)]
            window = tuple(map(slice, firsts, ends, self.stride))
            total += np.einsum("ngi...,goi->ngo...", x[:, :, :, *window], w[..., *tap])
        return total.reshape(len(x), -1, *extents)

    def _reverse_sums(self) -> Array:
        x = self.x.astype(np.int64) - self.x_zero
        w = self.filter.astype(np.int64) - self.filter_zero
        taps, plane = w.shape[2:], x.shape[2:]
        moves = list(zip(self.stride, self.dilation, strict=True))
        extents = [(n - 1) * s + (t - 1) * d + 1 for n, t, (s, d) in zip(plane, taps, moves)]
        x = x.reshape(len(x), self.groups, -1, *plane)
        w = w.reshape(self.groups, -1, *w.shape[1:])
        total = np.zeros((len(x), self.groups, w.shape[2], *extents), np.int64)
        for tap in itertools.product(*map(range, taps)):
            window = tuple(
                slice(t * d, t * d + (n - 1) * s + 1, s) for t, n, (s, d) in zip(tap, plane, moves)
            )
            total[:, :, :, *window] += np.einsum("ngi...,gio->ngo...", x, w[..., *tap])
        inside = tuple(slice(p, n - q) for n, (p, q) in zip(extents, self.padding))
        return total.reshape(len(x), -1, *extents)[:, :, *inside]


@st.composite
def cases_of(
    draw: st.DrawFn,
    groups: int,
    inputs: int,
    outputs: int,
    reverse: bool = False,
    dtype: np.dtype[Any] = CODES,
) -> Case:
    """Windows over planes; inputs and outputs: channels of a group; `dtype`: type of the codes."""
    rank = draw(st.integers(1, 3))
    taps = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    dilation = tuple(draw(st.integers(1, 3)) for _ in taps)
    padding = tuple((draw(st.integers(0, 3)), draw(st.integers(0, 3))) for _ in taps)
    stride = tuple(draw(st.integers(1, 3)) for _ in taps)
    spans = [(t - 1) * d + 1 - sum(p) for t, d, p in zip(taps, dilation, padding)]
    if reverse:  # at least one output
        spans = [1 + max(-((a - 1) // s), 0) for a, s in zip(spans, stride)]
    spatial = [max(a, 1) + draw(st.integers(0, 9 // rank)) for a in spans]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    limits = np.iinfo(dtype)
    extreme = draw(st.booleans())
    low, high = (0, 2) if extreme else (limits.min, limits.max + 1)
    x = rng.integers(low, high, (draw(st.integers(1, 2)), groups * inputs, *spatial))
    x = np.where(x > 0, limits.max, limits.min) if extreme else x
    channels = (groups * inputs, outputs) if reverse else (groups * outputs, inputs)
    w = rng.integers(-128, 128, (*channels, *taps))
    per_output = (1, outputs) if reverse else (groups * outputs, 1)
    zeros = np.zeros((*per_output, *[1] * rank), np.int64)
    match draw(st.sampled_from(["none", "int8", "wide"])):
        case "int8":
            w //= 2
            zeros += rng.integers(-63, 64, zeros.shape)
        case "wide":
            zeros += rng.choice([-128, -5, 9, 127], zeros.shape)
            w = np.where(rng.integers(0, 3, w.shape) > 0, zeros, w)
        case _:
            pass
    return Case(
        x.astype(dtype),
        w.astype(np.int8),
        draw(st.sampled_from([limits.min, 0, limits.max, 3])),
        zeros.astype(np.int8),
        padding,
        stride,
        dilation,
        groups,
        reverse,
    )


def result(
    case: Case,
    expression: Expression,
    *others: Array,
    halo_: Halo | None = None,
    residual: Array | None = None,
    threads: int = 1,
) -> Array:
    """The result of the compiled operation on blocked tensors; others are known.

    `residual`: codes in the shape of the result, which are the last operand.
    """
    few = case.x.shape[1] <= 4 and case.groups == 1 and not case.tile
    g = BlockedGraph(4 if few else LANES)
    blocked = g.input(case.x, case.reach if halo_ is None else halo_, fill=case.x_zero)
    known = [case.filter, np.array(case.x_zero, case.x.dtype), case.filter_zero, *others]
    dtype = expression.steps[-1].dtype if expression.steps else DType.INT32
    rank = case.x.ndim
    shape = case.sums().shape
    # rows of results follow each other, or do not
    layout = Blocked(LANES, halo(rank, 0, shape[-1] % 2), dtype.itemsize)
    type_ = TensorType(dtype, shape, layout)
    operands = [blocked, *(constant(g.graph, x) for x in known)]
    if residual is not None:
        operands.append(g.input(residual, halo(rank, shape[-1] % 2)))
    attributes = {**case.attributes, "expression": expression}
    name = "fused_code_deconv" if case.reverse else "fused_code_conv"
    op = g.graph.insert(Op(name, operands, attributes, [type_]))
    assert rule_problems(op) == []
    (got,) = g.run(op.output, threads=threads)
    return got


SUMS = Expression((DType.INT32,), (), (0,))


def terms(case: Case) -> tuple[Array, Array, Array]:
    """Random bias, factor and shift per channel."""
    rng = np.random.default_rng(6)
    channels = len(case.filter)
    bias = rng.integers(-(1 << 20), 1 << 20, (1, channels)).astype(np.int32)
    factor = (2.0 ** rng.uniform(-16, -9, (1, channels))).astype(np.float32)
    return bias, factor, rng.integers(9, 16, (1, channels)).astype(np.int32)


def per_channel(x: Array) -> Array:
    return x.reshape(1, -1, 1, 1)
