"""Direct convolution of blocked codes, requantized in registers.

Sums start from the bias less the products of the input's zero point, so kernels multiply codes as
they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nnefc.ir import DType, Expression, Op, Value
from nnefc.kernels.convolution import direct_codes
from nnefc.kernels.convolution.direct_codes import CODES
from nnefc.kernels.target.isa import host
from nnefc.kernels.tile.code_tile import Form, code_tile_pixels
from nnefc.kernels.vector.dot_words import WORD_CODES, word_dot
from nnefc.kernels.vector.lane_builder import lanes_of
from nnefc.lower.blocked.tensors import Tensor, read_blocked, write_blocked
from nnefc.lower.context import Lowering, blocked_lowering
from nnefc.lower.convolution.direct import by_groups
from nnefc.lower.convolution.direct_launches import (
    ChannelSlice,
    channel_slices,
    choose_units,
    input_fields,
    output_blocks,
)
from nnefc.lower.convolution.direct_tables import pixel_table
from nnefc.lower.partition import ceil_div
from nnefc.ops.core.border_taps import leaves_out_border
from nnefc.ops.core.window_arithmetic import Window, convolution_groups
from nnefc.ops.internal.code_matmul import weights_less_zero
from nnefc.ops.internal.requantization import (
    FixedPoint,
    Input,
    Requantization,
    Term,
    ToFloat,
    requantization_of,
)
from nnefc.ops.tools.convolution import window_of
from nnefc.program.program import Ref
from nnefc.program.tables.direct import tap_runs
from nnefc.program.tables.phases import Phase, phases, pixels_of, tap_grid
from nnefc.support.machine_model import MACS_PER_NS
from nnefc.symbolic.integers import is_symbolic

Array = npt.NDArray[Any]

OPERANDS: Final = 4
"""Operands of integer_conv, before those of the expression."""


@dataclass(frozen=True, slots=True)
class CodeConvolution:
    """A fused convolution of codes, with everything that is the same for all of its launches."""

    x: Tensor
    y: Tensor
    groups: int
    filter: Array
    """int8 [groups, outputs, inputs, *taps], less the zero points; outputs and inputs per group."""
    x_zero: int
    form: Form
    bias: Array
    """int32 [groups * outputs]"""
    terms: list[Array]
    """[groups * outputs] each: the numbers of the form."""
    bounds: Array
    """[3]: zero point, lowest and highest code."""

    @property
    def accumulator(self) -> DType:
        return DType.INT32

    @property
    def weight_bytes(self) -> int:
        return np.dtype(word_dot().weights).itemsize

    @property
    def macs_per_ns(self) -> float:
        return MACS_PER_NS * WORD_CODES / word_dot().instructions

    def tile_pixels(self, vectors: int) -> int:
        return code_tile_pixels(vectors)


@blocked_lowering("fused_code_conv")
def fused_code_convolution(lower: Lowering, op: Op) -> None:
    """Whole blocks per group; filter, zero points and terms of the requantization are known."""
    window = window_of(op)
    assert not is_symbolic((*window.input, *window.output)), "starts of runs need known extents"
    conv = _read(lower, op, window)
    for phase in phases(window):
        _launch_phase(lower, conv, phase)


def _read(lower: Lowering, op: Op, window: Window) -> CodeConvolution:
    x, y = read_blocked(lower, op.inputs[0]), write_blocked(lower, op.output)
    assert str(x.dtype) == host().codes and x.layout.block % WORD_CODES == 0
    assert y.layout.block == lanes_of("int32")
    groups = convolution_groups(x.shape, op.attributes)
    weights, x_zero, zeros = (_known(lower, value) for value in op.inputs[1:OPERANDS])
    differences = weights_less_zero(weights, zeros)
    assert differences is not None, "weights less zero points exceed int8"
    filter_ = by_groups(differences, groups, reverse=False)
    _, outputs, inputs = filter_.shape[:3]
    assert groups == 1 or outputs % y.layout.block == inputs % x.layout.block == 0
    assert op.attributes["border"] == "constant" or not any(map(any, window.padding))
    reads_halo = x.layout.has_halo and any(map(any, window.clipped().reach()))
    assert not reads_halo or leaves_out_border(window) or x.layout.fill == int(x_zero)
    result = _result(op.attributes["expression"])

    def channels(term: Term, dtype: DType) -> Array:
        known: Any = term
        if isinstance(term, Input):
            known = _known(lower, op.inputs[OPERANDS - 1 + term.index])
            assert all(n == 1 for axis, n in enumerate(known.shape) if axis != 1), known.shape
            known = known.reshape(-1)
        return np.broadcast_to(np.asarray(known, dtype.numpy), groups * outputs)

    form, terms = _form(result)
    item = DType.INT32 if form == "fixed_point" else DType.FLOAT32
    bounds = [0, 0, 0]
    if isinstance(result, Requantization):
        zero = channels(result.zero, item)
        assert (zero == zero[0]).all(), "one zero point"
        bounds = [zero[0], result.low, result.high]
    return CodeConvolution(
        x,
        y,
        groups,
        filter_,
        int(x_zero),
        form,
        channels(0 if result is None else result.bias, DType.INT32),
        [channels(term, item) for term in terms],
        np.array(bounds, item.numpy),
    )


def _known(lower: Lowering, value: Value) -> Array:
    data = lower.stored_data(value)
    assert data is not None, f"%{value.name} is computed"
    return data


def _result(expression: Expression) -> Requantization | ToFloat | None:
    """The requantization that an expression computes; None if its result is the sums."""
    if not expression.steps:
        return None
    result = requantization_of(expression)
    assert result is not None, "the expression is no requantization"
    return result


def _form(result: Requantization | ToFloat | None) -> tuple[Form, Sequence[Term]]:
    """The form of a requantization, and its terms that are numbers per channel."""
    if result is None:
        return "sums", []
    if isinstance(result, ToFloat):
        return "to_float", [result.factor]
    scale = result.scale
    if isinstance(scale, FixedPoint):
        return "fixed_point", [scale.multiplier, scale.left, scale.right]
    return scale.rounding, [scale.factor]


def _launch_phase(lower: Lowering, conv: CodeConvolution, phase: Phase) -> None:
    """Launch the outputs of a phase, one launch per channel slice."""
    taps = tuple(tuple(number for number, _ in tap) for tap in tap_grid(phase))
    step, inputs = conv.x.layout.entry, conv.filter.shape[2]
    depth = ceil_div(inputs, step) * len(taps) if taps else 1
    runs, entries = tap_runs(phase, conv.x.plane, 0, inputs, depth, by_taps=False)
    starts = _starts(conv, taps, runs, entries)
    tables = {"taps": lower.table(entries), "runs": lower.table(runs)}
    dot = word_dot()
    for channels in channel_slices(conv, 0):
        width = channels.panels.width
        packing = (taps, step, width, depth, False, WORD_CODES, dot.planes)
        part = _of_slice(conv, channels, conv.filter, axis=1)
        terms = [_panels(conv, channels, term) for term in conv.terms]
        scale = np.stack(terms, axis=-2) if terms else np.zeros(1, np.int32)
        tables |= {
            "filter": lower.packed(part, "direct", packing, DType(dot.weights)),
            "starts": lower.table(_panels(conv, channels, starts)),
            "scale": lower.table(scale),
        }
        _launch(lower, conv, phase, channels, tables, (depth, len(runs)))


def _of_slice(conv: CodeConvolution, channels: ChannelSlice, items: Array, axis: int) -> Array:
    """The items [.., groups, outputs, ..] of a channel slice; outputs are `axis`."""
    groups = slice(channels.groups.start, None, channels.groups.step)
    columns = slice(channels.first, channels.first + channels.panels.width * channels.panels.count)
    return items[(*[slice(None)] * (axis - 1), groups, columns)]


def _panels(conv: CodeConvolution, channels: ChannelSlice, items: Array) -> Array:
    """[.., groups * outputs] as [.., groups of a slice, panels, width], padded with zeros."""
    *before, _ = items.shape
    panels = channels.panels
    part = _of_slice(conv, channels, items.reshape(*before, conv.groups, -1), len(before) + 1)
    padded = np.zeros((*part.shape[:-1], panels.count * panels.width), items.dtype)
    padded[..., : part.shape[-1]] = part
    return padded.reshape(*part.shape[:-1], panels.count, panels.width)


def _starts(conv: CodeConvolution, taps: Sequence[Any], runs: Array, entries: Array) -> Array:
    """int32 [runs, groups * outputs]: biases less x_zero times the weights that a run reads."""
    outputs = conv.bias.size
    if not taps:
        return np.broadcast_to(conv.bias, (1, outputs))
    sums = np.stack([conv.filter[(..., *tap)].sum(axis=2, dtype=np.int64) for tap in taps])
    of_taps = sums.reshape(len(taps), outputs)
    rows: list[Array] = []
    for _, _, first, end in runs.tolist():
        read = np.unique(entries[first:end, 1] % len(taps))
        rows.append(conv.bias - conv.x_zero * of_taps[read].sum(axis=0))
    return np.stack(rows).astype(np.int32)


def _launch(
    lower: Lowering,
    conv: CodeConvolution,
    phase: Phase,
    channels: ChannelSlice,
    tables: dict[str, Ref],
    counts: tuple[int, int],
) -> None:
    """Launch a channel slice of the outputs of a phase; `counts`: of entries and runs."""
    y, pixels, panels = conv.y, pixels_of(phase), channels.panels
    filter_bytes = tables["filter"].buffer.nbytes
    units = choose_units(conv, pixels, channels, filter_bytes, lower.threads)
    first, group_blocks = output_blocks(conv, channels)
    words = CODES.pack(
        **input_fields(lower, conv, phase, channels.groups),
        **tables,
        bounds=lower.table(conv.bounds),
        y=Ref(y.at.buffer, y.at.offset + first * y.plane_bytes, writes=True),
        y_pixels=pixel_table(lower, y, tuple(axis.outputs for axis in phase), phase, conv.x),
        y_batch=y.batch_bytes,
        y_group=group_blocks * y.plane_bytes,
        y_plane=y.plane_bytes,
        groups=len(channels.groups),
        group_tiles=panels.count,
        pixels=pixels,
        depth=counts[0],
        run_count=counts[1],
        pixel_block=units.pixel_block,
        part_tiles=units.panel_block,
        units=units.count,
        unit_block=units.per_tile,
    )
    entry = conv.x.layout.entry
    kernel = direct_codes.convolution(conv.form, str(y.dtype), panels.vectors, entry)
    lower.launch(kernel, words, ceil_div(units.count, units.per_tile))
